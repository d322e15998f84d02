//! One worker process: how it is started, heard, told something, and ended.

use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    error,
    framing::{LineRead, LineReader},
};
use crate::protocol::{FromWorker, VERSION};

/// How long a worker may take until it waits for a script.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long what a dead worker has said may still be on its way.
const STDERR_TIMEOUT: Duration = Duration::from_millis(50);

/// How long a worker may live on after it has closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// How long is waited for a killed worker to be gone. One that takes longer is gone soon, and does nothing meanwhile.
const KILL_TIMEOUT: Duration = Duration::from_millis(50);

/// How much of standard error is kept, in bytes: its end.
const COMPLAINT: usize = 4 << 10;

/// How much of its first line is told when a worker doesn't get ready, in characters.
const MAX_REASON_CHARS: usize = 160;

/// Why no worker can be had.
#[derive(Debug, thiserror::Error)]
#[error("the script worker `{}` {reason}", worker.display())]
pub struct ScriptHostError {
    worker: PathBuf,
    reason: String,
}

/// Starts one worker, looks whether it could evaluate scripts, ends it, and returns how long it took to get ready.
///
/// # Errors
/// When it can't be started, or can't be understood.
pub async fn probe(worker: &Path) -> Result<Duration, ScriptHostError> {
    let begun = Instant::now();
    let worker = ScriptWorker::start(worker).await?;
    let took = begun.elapsed();
    worker.kill().await;
    Ok(took)
}

/// A worker that waits for its script, or evaluates it. Dropping it kills it and everything that it has started.
pub(crate) struct ScriptWorker {
    child: Child,
    group: Option<Pid>,
    input: ChildStdin,
    lines: LineReader<ChildStdout>,
    complaint: StderrTail,
}

/// How a worker that says no more has ended.
pub(crate) enum WorkerExit {
    Exited {
        status: ExitStatus,
        /// The end of what it wrote on standard error.
        complaint: String,
    },
    StillRunning,
}

impl ScriptWorker {
    /// Starts one and waits until it is ready.
    pub(crate) async fn start(path: &Path) -> Result<Self, ScriptHostError> {
        let refused = |reason: String| ScriptHostError { worker: path.to_owned(), reason };
        let mut worker = Self::spawn(path).map_err(|error| {
            refused(match error.kind() {
                std::io::ErrorKind::NotFound => "is not there".to_owned(),
                std::io::ErrorKind::PermissionDenied => "may not be run".to_owned(),
                _ => format!("can't be started: {error}"),
            })
        })?;
        let said = match timeout(READY_TIMEOUT, worker.read_line()).await {
            Err(_) => return Err(refused(format!("was not ready within {} s", READY_TIMEOUT.as_secs()))),
            Ok(LineRead::Line(line)) => serde_json::from_slice(&line).ok(),
            Ok(LineRead::TooLong) => None,
            Ok(LineRead::Closed) => match worker.exit_status().await {
                WorkerExit::StillRunning => None,
                WorkerExit::Exited { status, complaint } => {
                    let complaint = complaint.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                    let complaint = error::cut(complaint, MAX_REASON_CHARS);
                    return Err(refused(format!("ended before it was ready ({status}) {complaint}").trim().to_owned()));
                }
            },
        };
        match said {
            Some(FromWorker::Ready { version: VERSION }) => Ok(worker),
            Some(FromWorker::Ready { version }) => Err(refused(format!(
                "belongs to another Satchel: it speaks version {version} of the protocol, and {VERSION} is needed"
            ))),
            _ => Err(refused("doesn't speak as a script worker does".to_owned())),
        }
    }

    fn spawn(path: &Path) -> std::io::Result<Self> {
        // It runs elsewhere than Satchel does; where its program is must not depend on that.
        let mut child = Command::new(std::path::absolute(path)?)
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
        Ok(Self { child, group, input, lines: LineReader::new(output), complaint: StderrTail::spawn(errors) })
    }

    /// What it says next. A call that is dropped loses nothing of it.
    pub(crate) async fn read_line(&mut self) -> LineRead {
        let mut dead = false;
        loop {
            tokio::select! {
                biased;
                heard = self.lines.next() => return heard,
                _ = self.child.wait(), if !dead => dead = true,
                // Something else may hold its output open for ever.
                () = sleep(STDERR_TIMEOUT), if dead => return LineRead::Closed,
            }
            self.end_group();
        }
    }

    /// Whether it has said something that nobody has heard yet.
    pub(crate) fn has_more(&self) -> bool {
        self.lines.has_more()
    }

    /// Tells it something; `false` when it doesn't listen any more.
    pub(crate) async fn write_line(&mut self, line: &[u8]) -> bool {
        let telling = async { self.input.write_all(line).await.is_ok() && self.input.flush().await.is_ok() };
        tokio::select! {
            told = telling => told,
            _ = self.child.wait() => false,
        }
    }

    /// Waits until it is dead.
    pub(crate) async fn wait_exited(&mut self) {
        // That it can't be waited for means that it was waited for.
        let _ended = self.child.wait().await;
        self.end_group();
    }

    /// How it has ended, once it says no more.
    pub(crate) async fn exit_status(&mut self) -> WorkerExit {
        let Ok(Ok(status)) = timeout(EXIT_TIMEOUT, self.child.wait()).await else { return WorkerExit::StillRunning };
        self.end_group();
        WorkerExit::Exited { status, complaint: self.complaint.finish().await }
    }

    /// Kills it and everything that it has started, and waits until it is gone.
    pub(crate) async fn kill(mut self) {
        self.end_group();
        let _killed = self.child.start_kill();
        let _gone = timeout(KILL_TIMEOUT, self.child.wait()).await;
    }

    fn end_group(&mut self) {
        if let Some(group) = self.group.take() {
            // One that has ended already can't be ended, and that is all right.
            let _ended = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for ScriptWorker {
    fn drop(&mut self) {
        self.end_group();
    }
}

/// What a worker writes on standard error. It is read as it comes, or the worker would wait for somebody to read it.
struct StderrTail {
    kept: Arc<Mutex<Vec<u8>>>,
    hearing: JoinHandle<()>,
}

impl StderrTail {
    fn spawn(errors: ChildStderr) -> Self {
        let kept = Arc::<Mutex<Vec<u8>>>::default();
        Self { hearing: tokio::spawn(keep_the_end(errors, Arc::clone(&kept))), kept }
    }

    /// What is kept, once nothing more comes.
    async fn finish(&mut self) -> String {
        let _heard = timeout(STDERR_TIMEOUT, &mut self.hearing).await;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

impl Drop for StderrTail {
    fn drop(&mut self) {
        self.hearing.abort();
    }
}

async fn keep_the_end(mut errors: ChildStderr, kept: Arc<Mutex<Vec<u8>>>) {
    let mut piece = vec![0; COMPLAINT];
    while let Ok(length @ 1..) = errors.read(&mut piece).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&piece[..length]);
        let surplus = kept.len().saturating_sub(COMPLAINT);
        kept.drain(..surplus);
    }
}
