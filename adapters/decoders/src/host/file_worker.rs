//! A worker that decodes one file, whatever is made of it: sends it the bytes, reads its messages, explains its exit.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use futures::StreamExt;
use satchel_domain::{Sha256, size::format_bytes};
use satchel_ports::ByteStream;
use satchel_worker_process::{LineRead, WorkerExit, WorkerProcess};

use super::error::DecoderError;
use crate::protocol::{FromWorker, WorkerRequest};

/// The number of the signal after the limit of processor time.
const SIGNAL_CPU_LIMIT: i32 = 24;

/// A running worker with its one file.
pub(super) struct FileWorker {
    pub(super) process: WorkerProcess,
    /// What the worker does, for reasons such as "reading it takes too much processor time".
    pub(super) activity: &'static str,
    /// The file, for the log, if it is a stored one.
    pub(super) sha256: Option<Sha256>,
    /// The limit of its memory, for the reason of a file that needs more.
    pub(super) memory_bytes: u64,
}

/// Why there is no further message.
pub(super) enum WorkerStop {
    Failed(DecoderError),
    /// The worker sent a message that breaks the protocol.
    ProtocolBroken(&'static str),
    /// The worker closed its output, or its input before it had the file.
    Closed,
}

impl FileWorker {
    /// Sends the request and the bytes, as they come.
    pub(super) async fn send_file(
        &mut self,
        request: &WorkerRequest,
        mut content: ByteStream,
    ) -> Result<(), WorkerStop> {
        let mut line = serde_json::to_vec(request).expect("a request can be written as JSON");
        line.push(b'\n');
        if !self.process.write(&line).await {
            return Err(WorkerStop::Closed);
        }
        let bytes = request.bytes;
        let mut sent = 0_u64;
        while let Some(chunk) = content.next().await {
            let chunk = chunk.map_err(|error| lost_content(&error))?;
            sent += chunk.len() as u64;
            if sent > bytes {
                break;
            }
            if !self.process.write(&chunk).await {
                return Err(WorkerStop::Closed);
            }
        }
        if sent == bytes { Ok(()) } else { Err(lost_content(&format!("there are not {bytes} of them"))) }
    }

    /// The next message, which is no failure.
    pub(super) async fn next_message(&mut self) -> Result<FromWorker, WorkerStop> {
        let line = match self.process.read_line().await {
            LineRead::Line(line) => line,
            LineRead::TooLong => return Err(WorkerStop::ProtocolBroken("a line is too long")),
            LineRead::Closed => return Err(WorkerStop::Closed),
        };
        match serde_json::from_slice(&line) {
            Err(_) => Err(WorkerStop::ProtocolBroken("a line can't be parsed")),
            Ok(FromWorker::Ready { .. }) => Err(WorkerStop::ProtocolBroken("it was ready twice")),
            Ok(FromWorker::Failed(failure)) => Err(WorkerStop::Failed(DecoderError::from_failure(failure))),
            Ok(message) => Ok(message),
        }
    }

    /// Explains why the worker has no further message.
    pub(super) async fn explain(&mut self, stop: WorkerStop) -> DecoderError {
        match stop {
            WorkerStop::Failed(error) => error,
            WorkerStop::ProtocolBroken(reason) => self.protocol_error(reason),
            WorkerStop::Closed => match self.process.exit_status().await {
                WorkerExit::StillRunning => self.protocol_error("it closed a pipe and kept running"),
                WorkerExit::Exited { status, complaint } => {
                    let sha256 = self.sha256.map(tracing::field::display);
                    tracing::warn!(sha256, %status, complaint, "a file ended its worker");
                    DecoderError::unreadable(self.exit_reason(status, &complaint))
                }
            },
        }
    }

    fn protocol_error(&self, reason: &str) -> DecoderError {
        let sha256 = self.sha256.map(tracing::field::display);
        tracing::warn!(sha256, reason, "a file's worker broke the protocol");
        DecoderError::unreadable(format!("its worker broke the protocol ({reason})"))
    }

    /// Explains the exit of a worker. `complaint` is what it wrote on standard error.
    fn exit_reason(&self, status: ExitStatus, complaint: &str) -> String {
        let activity = self.activity;
        if complaint.contains("memory allocation of") {
            let limit = format_bytes(self.memory_bytes);
            return format!("{activity} it takes more memory than {limit}");
        }
        if complaint.contains("has overflowed its stack") {
            return "it is nested too deeply".to_owned();
        }
        match (status.signal(), status.code()) {
            (Some(SIGNAL_CPU_LIMIT), _) => format!("{activity} it takes too much processor time"),
            (Some(signal), _) => format!("it ended the worker that was {activity} it (signal {signal})"),
            (None, code) => {
                format!("it ended the worker that was {activity} it (code {})", code.unwrap_or_default())
            }
        }
    }
}

/// The failure when the bytes of a file can't be had.
pub(super) fn lost_content(reason: &impl ToString) -> WorkerStop {
    WorkerStop::Failed(DecoderError::Lost { reason: format!("its bytes can't be read: {}", reason.to_string()) })
}
