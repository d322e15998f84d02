//! A worker's program: where it is, and how one process of it is started and recognised.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use serde::Deserialize;
use tokio::time::{sleep, timeout};

use crate::{
    EXIT_UNCONFINED,
    framing::LineRead,
    process::{WorkerExit, WorkerProcess},
};

/// How long a worker may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a program that doesn't exist yet is looked for.
const PROGRAM_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// How much of its first line is reported when a worker doesn't get ready, in characters.
const MAX_REASON_CHARS: usize = 160;

/// The program of one kind of worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerProgram {
    pub path: PathBuf,
    pub arguments: Vec<String>,
    /// What it is called in errors, such as `script worker`.
    pub name: &'static str,
    /// The version of the protocol that it must speak.
    pub protocol_version: u32,
    /// The longest line that is read from it, in bytes.
    pub max_line_bytes: usize,
}

/// Why a worker can't be started.
#[derive(Debug, thiserror::Error)]
#[error("the {name} `{}` {reason}", path.display())]
pub struct WorkerStartError {
    name: &'static str,
    path: PathBuf,
    reason: String,
    is_forbidden: bool,
}

impl WorkerStartError {
    /// Whether the program was started and the system forbade it what it needs, so that another program would not help.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.is_forbidden
    }
}

/// The first line of every worker.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum FirstLine {
    Ready(ReadyReport),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyReport {
    version: u32,
}

impl WorkerProgram {
    /// Starts a process and waits until it is ready.
    ///
    /// # Errors
    /// When it can't be started, or speaks another protocol.
    pub async fn start(&self) -> Result<WorkerProcess, WorkerStartError> {
        let mut worker = WorkerProcess::spawn(self).map_err(|error| {
            self.start_error(match error.kind() {
                std::io::ErrorKind::NotFound => "is not there".to_owned(),
                std::io::ErrorKind::PermissionDenied => "may not be run".to_owned(),
                _ => format!("can't be started: {error}"),
            })
        })?;
        let first_line = match timeout(READY_TIMEOUT, worker.read_line()).await {
            Err(_) => return Err(self.start_error(format!("was not ready within {} s", READY_TIMEOUT.as_secs()))),
            Ok(LineRead::Line(line)) => serde_json::from_slice(&line).ok(),
            Ok(LineRead::TooLong) => None,
            Ok(LineRead::Closed) => match worker.exit_status().await {
                WorkerExit::StillRunning => None,
                WorkerExit::Exited { status, complaint } => {
                    let complaint = complaint.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                    let complaint: String = complaint.chars().take(MAX_REASON_CHARS).collect();
                    if status.code() == Some(i32::from(EXIT_UNCONFINED)) {
                        let reason = format!("is there, but the system forbids what it needs: {complaint}");
                        return Err(WorkerStartError { is_forbidden: true, ..self.start_error(reason) });
                    }
                    return Err(
                        self.start_error(format!("ended before it was ready ({status}) {complaint}").trim().to_owned())
                    );
                }
            },
        };
        match first_line {
            Some(FirstLine::Ready(ReadyReport { version })) if version == self.protocol_version => Ok(worker),
            Some(FirstLine::Ready(ReadyReport { version })) => Err(self.start_error(format!(
                "belongs to another Satchel: it speaks version {version} of the protocol, and {} is needed",
                self.protocol_version
            ))),
            None => Err(self.start_error(format!("doesn't speak as a {} does", self.name))),
        }
    }

    /// Starts one process, kills it, and returns how long it took to get ready.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn probe(&self) -> Result<Duration, WorkerStartError> {
        let started = Instant::now();
        let worker = self.start().await?;
        let elapsed = started.elapsed();
        worker.kill().await;
        Ok(elapsed)
    }

    /// Whether there is such a file.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.path.is_file()
    }

    /// Waits until there is such a file: the program may still be being built.
    pub async fn wait_until_exists(&self) {
        while !self.exists() {
            sleep(PROGRAM_POLL_INTERVAL).await;
        }
    }

    fn start_error(&self, reason: String) -> WorkerStartError {
        WorkerStartError { name: self.name, path: self.path.clone(), reason, is_forbidden: false }
    }
}
