//! What the system knows of a process: its memory and the time that it has used. Linux only, through `/proc`.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// The scheduler's ticks a second in `/proc`; the same on every Linux that is in use.
const TICKS_PER_SECOND: u64 = 100;

/// Longest time until a process exits after its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A process of Satchel that ends when this is dropped.
pub(crate) struct ChildProcess {
    child: Child,
}

impl ChildProcess {
    /// Starts it with standard input and output as pipes.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Ok(Self { child: child.with_context(|| format!("{command:?} could not be started"))? })
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The most memory that it has had, in bytes.
    pub(crate) fn peak_memory(&self) -> Result<u64> {
        self.read_memory_field("status", "VmHWM:")
    }

    /// Its share of the memory that it has now, in bytes.
    pub(crate) fn proportional_memory(&self) -> Result<u64> {
        self.read_memory_field("smaps_rollup", "Pss:")
    }

    /// The time that all its threads have used, in steps of ten milliseconds.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let stat = fs::read_to_string(self.proc_path("stat")).context("the process is gone")?;
        // The name in parentheses may hold anything; utime and stime are the 12th and 13th fields after it.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
    }

    /// Ends its input and waits for its end.
    pub(crate) fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let started_at = Instant::now();
        while started_at.elapsed() < EXIT_TIMEOUT {
            if let Some(status) = self.child.try_wait()? {
                return if status.success() { Ok(()) } else { bail!("the process failed ({status})") };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("the process did not end")
    }

    fn read_memory_field(&self, file: &str, field: &str) -> Result<u64> {
        parse_memory_field(&fs::read_to_string(self.proc_path(file)).context("the process is gone")?, field)
    }

    fn proc_path(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.child.id())
    }
}

/// The memory of this process, in bytes.
pub(crate) struct OwnMemory {
    /// What it has allocated.
    pub(crate) anonymous: u64,
    /// Pages of the files that it has mapped, such as its program.
    pub(crate) file_backed: u64,
    /// The most of both together, since the start or the last reset.
    pub(crate) peak: u64,
}

impl OwnMemory {
    pub(crate) fn read() -> Result<Self> {
        let status = fs::read_to_string("/proc/self/status").context("this process's memory can't be read")?;
        let field = |name| parse_memory_field(&status, name);
        Ok(Self { anonymous: field("RssAnon:")?, file_backed: field("RssFile:")?, peak: field("VmHWM:")? })
    }

    /// Makes the memory of this moment the peak.
    pub(crate) fn reset_peak() -> Result<()> {
        // 5 stands for the peak in proc(5).
        fs::write("/proc/self/clear_refs", "5").context("the peak of this process's memory can't be reset")
    }
}

/// Parses a field of `/proc`, which is in KiB, as bytes.
fn parse_memory_field(text: &str, field: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    Ok(number.with_context(|| format!("`/proc` has no {field}"))? * 1024)
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
