//! One worker process: started, read from, written to, and killed.

use std::{
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    framing::{LineRead, LineReader},
    program::WorkerProgram,
};

/// How long the output of a dead worker may still be in flight.
const STDERR_TIMEOUT: Duration = Duration::from_millis(50);

/// How long a worker may run after it has closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait for a killed worker to exit. One that takes longer does nothing meanwhile.
const KILL_TIMEOUT: Duration = Duration::from_millis(50);

/// How much of the end of standard error is kept, in bytes.
const MAX_STDERR_BYTES: usize = 4 << 10;

/// A worker that waits for its work or does it. Dropping it kills it and everything that it has started.
pub struct WorkerProcess {
    child: Child,
    group: Option<Pid>,
    input: ChildStdin,
    lines: LineReader<ChildStdout>,
    complaint: StderrTail,
}

/// How a worker that closed its output has exited.
pub enum WorkerExit {
    Exited {
        status: ExitStatus,
        /// The end of what it wrote on standard error.
        complaint: String,
    },
    StillRunning,
}

impl WorkerProcess {
    /// Starts one.
    pub(crate) fn spawn(program: &WorkerProgram) -> std::io::Result<Self> {
        // It runs in another working directory, so the program's path must be absolute.
        let mut child = Command::new(std::path::absolute(&program.path)?)
            .args(&program.arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that what it starts ends with it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let input = child.stdin.take().expect("standard input is a pipe");
        let output = child.stdout.take().expect("standard output is a pipe");
        let errors = child.stderr.take().expect("standard error is a pipe");
        Ok(Self {
            child,
            group,
            input,
            lines: LineReader::new(output, program.max_line_bytes),
            complaint: StderrTail::spawn(errors),
        })
    }

    /// Reads its next line. Cancel safe: dropping the call loses nothing.
    pub async fn read_line(&mut self) -> LineRead {
        let mut dead = false;
        loop {
            tokio::select! {
                biased;
                line = self.lines.next() => return line,
                _ = self.child.wait(), if !dead => dead = true,
                // Something else may hold its output open for ever.
                () = sleep(STDERR_TIMEOUT), if dead => return LineRead::Closed,
            }
            self.kill_group();
        }
    }

    /// Whether it has sent something that is not read yet.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.lines.has_more()
    }

    /// Writes bytes to it; `false` when it has closed its input or exited.
    pub async fn write(&mut self, bytes: &[u8]) -> bool {
        let write = async { self.input.write_all(bytes).await.is_ok() && self.input.flush().await.is_ok() };
        tokio::select! {
            is_written = write => is_written,
            _ = self.child.wait() => false,
        }
    }

    /// Waits until it has exited.
    pub async fn wait_exited(&mut self) {
        // An error means that it was already waited for.
        let _ended = self.child.wait().await;
        self.kill_group();
    }

    /// Waits for its exit status after it closed its output.
    pub async fn exit_status(&mut self) -> WorkerExit {
        let Ok(Ok(status)) = timeout(EXIT_TIMEOUT, self.child.wait()).await else { return WorkerExit::StillRunning };
        self.kill_group();
        WorkerExit::Exited { status, complaint: self.complaint.finish().await }
    }

    /// Kills it and everything that it has started, and waits until it has exited.
    pub async fn kill(mut self) {
        self.kill_group();
        let _killed = self.child.start_kill();
        let _gone = timeout(KILL_TIMEOUT, self.child.wait()).await;
    }

    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // It may have exited already.
            let _ended = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// The end of a worker's standard error. It is read as it arrives, or the worker would block on a full pipe.
struct StderrTail {
    tail: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl StderrTail {
    fn spawn(errors: ChildStderr) -> Self {
        let tail = Arc::<Mutex<Vec<u8>>>::default();
        Self { reader: tokio::spawn(read_tail(errors, Arc::clone(&tail))), tail }
    }

    /// Returns the end of standard error once the worker has closed it.
    async fn finish(&mut self) -> String {
        let _heard = timeout(STDERR_TIMEOUT, &mut self.reader).await;
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&tail).into_owned()
    }
}

impl Drop for StderrTail {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read_tail(mut errors: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = vec![0; MAX_STDERR_BYTES];
    while let Ok(length @ 1..) = errors.read(&mut chunk).await {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&chunk[..length]);
        let excess = tail.len().saturating_sub(MAX_STDERR_BYTES);
        tail.drain(..excess);
    }
}
