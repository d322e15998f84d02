//! One file: streams its bytes to a worker, and checks every message that comes back.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use futures::StreamExt;
use satchel_domain::{Sha256, size::format_bytes};
use satchel_ports::Blobs;
use satchel_worker_process::{LineRead, WorkerExit, WorkerProcess};
use tokio::time::timeout;

use super::{DecoderSettings, error::DecoderError};
use crate::protocol::{FromWorker, MAX_MESSAGE_CHARS, RequestedOutput, WorkerRequest};

/// The number of the signal after the limit of processor time.
const SIGNAL_CPU_LIMIT: i32 = 24;

/// A stored file that is to be decoded.
#[derive(Clone, Copy)]
pub(super) struct DecoderInput<'a> {
    pub(super) sha256: &'a Sha256,
    pub(super) bytes: u64,
    pub(super) mime: &'a str,
}

/// Collects what a worker makes of a file, and checks each message of it.
pub(super) trait OutputCollector {
    type Output;

    /// What the worker does, for reasons such as "reading it takes too much processor time".
    const ACTIVITY: &'static str;

    /// The longest line of the worker in bytes.
    const MAX_LINE_BYTES: usize;

    fn requested_output(&self) -> RequestedOutput;

    /// Explains that only files up to this size are decoded.
    fn size_reason(limit: &str) -> String;

    /// Adds a message, and returns the output if it was the last. An error says how the worker broke the protocol.
    fn add_message(&mut self, message: FromWorker) -> Result<Option<Self::Output>, &'static str>;
}

/// A file on its way through a worker.
pub(super) struct Exchange<'a, C> {
    pub(super) input: DecoderInput<'a>,
    pub(super) collector: C,
    pub(super) settings: &'a DecoderSettings,
    pub(super) blobs: &'a dyn Blobs,
}

/// Why there is no output.
enum ExchangeStop {
    Failed(DecoderError),
    /// The worker sent a message that breaks the protocol.
    ProtocolBroken(&'static str),
    /// The worker closed its output, or its input before it had the file.
    Closed,
}

impl<C: OutputCollector> Exchange<'_, C> {
    /// Decodes the file with this worker, which is killed when the call returns or is dropped.
    pub(super) async fn run(mut self, mut worker: WorkerProcess) -> Result<C::Output, DecoderError> {
        let time_limit = self.settings.time_limit;
        let result = match timeout(time_limit, self.exchange(&mut worker)).await {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!(sha256 = %self.input.sha256, ?time_limit, "a file took too long; its worker is killed");
                let (activity, seconds) = (C::ACTIVITY, time_limit.as_secs_f32());
                Err(DecoderError::unreadable(format!("{activity} it took longer than {seconds} s")))
            }
        };
        worker.kill().await;
        result
    }

    async fn exchange(&mut self, worker: &mut WorkerProcess) -> Result<C::Output, DecoderError> {
        let stop = match self.run_protocol(worker).await {
            Ok(output) => return Ok(output),
            Err(stop) => stop,
        };
        match stop {
            ExchangeStop::Failed(error) => Err(error),
            ExchangeStop::ProtocolBroken(reason) => Err(self.protocol_error(reason)),
            ExchangeStop::Closed => match worker.exit_status().await {
                WorkerExit::StillRunning => Err(self.protocol_error("it closed a pipe and kept running")),
                WorkerExit::Exited { status, complaint } => {
                    tracing::warn!(sha256 = %self.input.sha256, %status, complaint, "a file ended its worker");
                    Err(DecoderError::unreadable(self.exit_reason(status, &complaint)))
                }
            },
        }
    }

    async fn run_protocol(&mut self, worker: &mut WorkerProcess) -> Result<C::Output, ExchangeStop> {
        self.send_file(worker).await?;
        loop {
            let line = match worker.read_line().await {
                LineRead::Line(line) => line,
                LineRead::TooLong => return Err(ExchangeStop::ProtocolBroken("a line is too long")),
                LineRead::Closed => return Err(ExchangeStop::Closed),
            };
            let message =
                serde_json::from_slice(&line).map_err(|_| ExchangeStop::ProtocolBroken("a line can't be parsed"))?;
            match message {
                FromWorker::Ready { .. } => return Err(ExchangeStop::ProtocolBroken("it was ready twice")),
                FromWorker::Failed(failure) => return Err(ExchangeStop::Failed(DecoderError::from_failure(failure))),
                message => {
                    if let Some(output) = self.collector.add_message(message).map_err(ExchangeStop::ProtocolBroken)? {
                        return Ok(output);
                    }
                }
            }
        }
    }

    /// Sends the request and the bytes, as they come from the store.
    async fn send_file(&self, worker: &mut WorkerProcess) -> Result<(), ExchangeStop> {
        let DecoderInput { sha256, bytes, mime } = self.input;
        let request = WorkerRequest {
            mime: mime.chars().take(MAX_MESSAGE_CHARS).collect(),
            bytes,
            // More than the deadline, so that the deadline comes first.
            processor_seconds: self.settings.time_limit.as_secs().saturating_add(2),
            output: self.collector.requested_output(),
        };
        let mut line = serde_json::to_vec(&request).expect("a request can be written as JSON");
        line.push(b'\n');
        if !worker.write(&line).await {
            return Err(ExchangeStop::Closed);
        }
        let lost = |reason: String| {
            ExchangeStop::Failed(DecoderError::unreadable(format!("its bytes can't be read: {reason}")))
        };
        let mut content = self.blobs.open(sha256, None).await.map_err(|error| lost(error.to_string()))?;
        let mut sent = 0_u64;
        while let Some(chunk) = content.next().await {
            let chunk = chunk.map_err(|error| lost(error.to_string()))?;
            sent += chunk.len() as u64;
            if sent > bytes {
                break;
            }
            if !worker.write(&chunk).await {
                return Err(ExchangeStop::Closed);
            }
        }
        if sent == bytes { Ok(()) } else { Err(lost(format!("there are not {bytes} of them"))) }
    }

    fn protocol_error(&self, reason: &str) -> DecoderError {
        tracing::warn!(sha256 = %self.input.sha256, reason, "a file's worker broke the protocol");
        DecoderError::unreadable(format!("its worker broke the protocol ({reason})"))
    }

    /// Explains the exit of a worker. `complaint` is what it wrote on standard error.
    fn exit_reason(&self, status: ExitStatus, complaint: &str) -> String {
        let activity = C::ACTIVITY;
        if complaint.contains("memory allocation of") {
            let limit = format_bytes(self.settings.memory_bytes);
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
