//! One document: streams its bytes to a worker, and checks every message that comes back.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use futures::StreamExt;
use satchel_domain::size::format_bytes;
use satchel_ports::{Blobs, DocumentError, DocumentPage, DocumentRequest, DocumentText};
use satchel_worker_process::{LineRead, WorkerExit, WorkerProcess};
use tokio::time::timeout;

use super::DecoderSettings;
use crate::protocol::{
    DocumentSummary, Failure, FailureKind, FromWorker, MAX_MESSAGE_CHARS, MAX_TEXT_BYTES, PageText, ReadRequest,
};

/// The number of the signal after the limit of processor time.
const SIGNAL_CPU_LIMIT: i32 = 24;

/// A document on its way through a worker.
pub(super) struct Exchange<'a> {
    pub(super) request: &'a DocumentRequest,
    pub(super) settings: &'a DecoderSettings,
    pub(super) blobs: &'a dyn Blobs,
}

/// Why there is no text.
enum ExchangeStop {
    Failed(DocumentError),
    /// The worker sent a message that breaks the protocol.
    ProtocolBroken(&'static str),
    /// The worker closed its output, or its input before it had the document.
    Closed,
}

impl Exchange<'_> {
    /// Reads the document with this worker, which is killed when the call returns or is dropped.
    pub(super) async fn run(&self, mut worker: WorkerProcess) -> Result<DocumentText, DocumentError> {
        let time_limit = self.settings.time_limit;
        let result = match timeout(time_limit, self.exchange(&mut worker)).await {
            Ok(result) => result,
            Err(_) => {
                tracing::warn!(sha256 = %self.request.sha256, ?time_limit, "a document took too long; its worker is killed");
                Err(unreadable(format!("reading it took longer than {} s", time_limit.as_secs_f32())))
            }
        };
        worker.kill().await;
        result
    }

    async fn exchange(&self, worker: &mut WorkerProcess) -> Result<DocumentText, DocumentError> {
        let stop = match self.run_protocol(worker).await {
            Ok(text) => return Ok(text),
            Err(stop) => stop,
        };
        match stop {
            ExchangeStop::Failed(error) => Err(error),
            ExchangeStop::ProtocolBroken(reason) => Err(self.protocol_error(reason)),
            ExchangeStop::Closed => match worker.exit_status().await {
                WorkerExit::StillRunning => Err(self.protocol_error("it closed a pipe and kept running")),
                WorkerExit::Exited { status, complaint } => {
                    tracing::warn!(sha256 = %self.request.sha256, %status, complaint, "a document ended its worker");
                    Err(unreadable(self.exit_reason(status, &complaint)))
                }
            },
        }
    }

    async fn run_protocol(&self, worker: &mut WorkerProcess) -> Result<DocumentText, ExchangeStop> {
        self.send_document(worker).await?;
        let (mut pages, mut room) = (Vec::new(), self.max_text_bytes());
        loop {
            let line = match worker.read_line().await {
                LineRead::Line(line) => line,
                LineRead::TooLong => return Err(ExchangeStop::ProtocolBroken("a line is too long")),
                LineRead::Closed => return Err(ExchangeStop::Closed),
            };
            let message =
                serde_json::from_slice(&line).map_err(|_| ExchangeStop::ProtocolBroken("a line can't be parsed"))?;
            match message {
                FromWorker::Page(page) => {
                    // One character more than requested is legal, or a reader with little room would never come on.
                    room = (room + 4)
                        .checked_sub(page.text.len())
                        .map(|room| room.saturating_sub(4))
                        .ok_or(ExchangeStop::ProtocolBroken("the pages hold more text than was requested"))?;
                    self.check_page(&page, pages.last())?;
                    pages.push(to_document_page(page));
                }
                FromWorker::Done(summary) => return self.check_summary(summary, pages),
                FromWorker::Failed(Failure { kind, message }) => {
                    let printable = message.chars().map(|c| if c.is_control() { ' ' } else { c });
                    let reason = printable.take(MAX_MESSAGE_CHARS).collect();
                    return Err(ExchangeStop::Failed(match kind {
                        FailureKind::Unsupported => DocumentError::Unsupported { reason },
                        FailureKind::Unreadable => DocumentError::Unreadable { reason },
                    }));
                }
                FromWorker::Ready { .. } => return Err(ExchangeStop::ProtocolBroken("it was ready twice")),
            }
        }
    }

    /// Sends the request and the bytes, as they come from the store.
    async fn send_document(&self, worker: &mut WorkerProcess) -> Result<(), ExchangeStop> {
        let DocumentRequest { sha256, bytes, mime, first_page, offset, .. } = self.request;
        let request = ReadRequest {
            mime: mime.chars().take(MAX_MESSAGE_CHARS).collect(),
            bytes: *bytes,
            first_page: *first_page,
            offset: usize::try_from(*offset).unwrap_or(usize::MAX),
            max_text_bytes: self.max_text_bytes(),
            max_pages: self.settings.max_pages,
            // More than the deadline, so that the deadline comes first.
            processor_seconds: self.settings.time_limit.as_secs().saturating_add(2),
        };
        let mut line = serde_json::to_vec(&request).expect("a request can be written as JSON");
        line.push(b'\n');
        if !worker.write(&line).await {
            return Err(ExchangeStop::Closed);
        }
        let lost = |reason: String| ExchangeStop::Failed(unreadable(format!("its bytes can't be read: {reason}")));
        let mut content = self.blobs.open(sha256, None).await.map_err(|error| lost(error.to_string()))?;
        let mut sent = 0_u64;
        while let Some(chunk) = content.next().await {
            let chunk = chunk.map_err(|error| lost(error.to_string()))?;
            sent += chunk.len() as u64;
            if sent > *bytes {
                break;
            }
            if !worker.write(&chunk).await {
                return Err(ExchangeStop::Closed);
            }
        }
        if sent == *bytes { Ok(()) } else { Err(lost(format!("there are not {bytes} of them"))) }
    }

    fn max_text_bytes(&self) -> usize {
        usize::try_from(self.request.max_text_bytes).unwrap_or(usize::MAX).min(MAX_TEXT_BYTES)
    }

    fn check_page(&self, page: &PageText, last: Option<&DocumentPage>) -> Result<(), ExchangeStop> {
        let expected = last.map_or(self.request.first_page.max(1), |last| last.number.saturating_add(1));
        let end = page.offset.saturating_add(page.text.len());
        if page.number != expected || page.number > self.settings.max_pages || end > page.bytes {
            return Err(ExchangeStop::ProtocolBroken("a page is not the next one"));
        }
        Ok(())
    }

    fn check_summary(&self, summary: DocumentSummary, pages: Vec<DocumentPage>) -> Result<DocumentText, ExchangeStop> {
        let DocumentSummary { total_pages, read_pages, empty_pages, is_truncated } = summary;
        let is_sound = read_pages <= total_pages.min(self.settings.max_pages)
            && pages.last().is_none_or(|last| last.number <= read_pages)
            && empty_pages.is_sorted_by(|a, b| a < b)
            && empty_pages.iter().all(|number| (1..=read_pages).contains(number));
        match is_sound {
            true => Ok(DocumentText { pages, total_pages, read_pages, empty_pages, is_truncated }),
            false => Err(ExchangeStop::ProtocolBroken("its numbers of pages contradict each other")),
        }
    }

    fn protocol_error(&self, reason: &str) -> DocumentError {
        tracing::warn!(sha256 = %self.request.sha256, reason, "a document's worker broke the protocol");
        unreadable(format!("its worker broke the protocol ({reason})"))
    }

    /// Explains the exit of a worker. `complaint` is what it wrote on standard error.
    fn exit_reason(&self, status: ExitStatus, complaint: &str) -> String {
        if complaint.contains("memory allocation of") {
            let limit = format_bytes(self.settings.memory_bytes);
            return format!("reading it takes more memory than {limit}");
        }
        if complaint.contains("has overflowed its stack") {
            return "it is nested too deeply".to_owned();
        }
        match (status.signal(), status.code()) {
            (Some(SIGNAL_CPU_LIMIT), _) => "reading it takes too much processor time".to_owned(),
            (Some(signal), _) => format!("it ended the worker that was reading it (signal {signal})"),
            (None, code) => format!("it ended the worker that was reading it (code {})", code.unwrap_or_default()),
        }
    }
}

fn to_document_page(PageText { number, offset, bytes, text }: PageText) -> DocumentPage {
    DocumentPage { number, offset: offset as u64, bytes: bytes as u64, text }
}

fn unreadable(reason: String) -> DocumentError {
    DocumentError::Unreadable { reason }
}
