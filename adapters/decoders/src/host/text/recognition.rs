//! Recognises the text in the pictures of pages, with a program of the operator.

use std::{
    ffi::OsString,
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_domain::size::format_bytes;
use satchel_ports::{DocumentRequest, ImageError, ImageRequest, ImageScaler};
use satchel_worker_process::{collect_output, program_name, run_user_program};
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::pages::DocumentPages;
use crate::protocol::MAX_TEXT_BYTES;

/// The longest side of a picture in pixels: A4 with 300 an inch.
const MAX_SIDE: u32 = 3_508;

/// The largest picture in bytes.
const MAX_PICTURE_BYTES: u64 = 16 << 20;

/// The longest text of a page in bytes: several times a dense page in any script.
const MAX_PAGE_TEXT_BYTES: usize = 64_000;

/// After this time no further page is begun: the reader gets what there is, and asks for more.
const MAX_TURN: Duration = Duration::from_secs(25);

/// How long a document waits for others: such programs use all cores.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);

/// How many chunks of a program's output wait to be read.
const CHANNEL_CAPACITY: usize = 4;

/// A program that recognises text.
#[derive(Debug, Clone)]
pub struct RecognitionSettings {
    /// The program and its arguments. It reads a PNG or JPEG file from its standard input and writes UTF-8 to its
    /// standard output.
    pub command: Vec<OsString>,
    /// The whole environment of the program.
    pub environment: Vec<(OsString, OsString)>,
    /// How long it may take for a page.
    pub time_limit: Duration,
}

/// Recognises text in the pictures of pages.
pub(super) struct PageRecognizer {
    settings: RecognitionSettings,
    images: Arc<dyn ImageScaler>,
    slot: Semaphore,
}

/// What became of the pages without text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recognition {
    /// Whether pages were recognised, with text or without.
    pub(super) has_new_pages: bool,
    /// Why others were not.
    pub(super) problem: Option<String>,
    /// The first page that waits for its turn; what follows it must not be shown.
    pub(super) pending_page: Option<u32>,
}

/// Why a page was not recognised.
enum RecognitionError {
    Cancelled,
    Failed(String),
}

impl PageRecognizer {
    pub(super) fn new(settings: RecognitionSettings, images: Arc<dyn ImageScaler>) -> Self {
        Self { settings, images, slot: Semaphore::new(1) }
    }

    /// The program and its arguments, on which the text depends.
    pub(super) fn command(&self) -> &[OsString] {
        &self.settings.command
    }

    /// Recognises the pages without text that the request wants, in their order, until time or room is used up. `None` if
    /// the call was cancelled.
    pub(super) async fn recognize(
        &self,
        request: &DocumentRequest,
        document: &mut DocumentPages,
        cancel: &CancellationToken,
    ) -> Option<Recognition> {
        let first = request.first_page.max(1);
        let mut result = Recognition::default();
        if request.mime != "application/pdf" || document.next_unrecognized(first).is_none() {
            return Some(result);
        }
        let Ok(_slot) = timeout(QUEUE_TIMEOUT, self.slot.acquire()).await else {
            result.problem = Some("too many pages are being recognised; try again in a moment".to_owned());
            return Some(result);
        };
        let started_at = Instant::now();
        while let Some(page) = document.next_unrecognized(first) {
            if result.has_new_pages && started_at.elapsed() > MAX_TURN {
                let seconds = MAX_TURN.as_secs();
                result.problem = Some(format!("pages from {page} on would take more than {seconds} s; ask again"));
                break;
            }
            if document.bytes_before(first, page) > request.max_text_bytes {
                break;
            }
            let text = match cancel.run_until_cancelled(self.recognize_page(request, page, cancel)).await {
                Some(Ok(text)) => text,
                None | Some(Err(RecognitionError::Cancelled)) => return None,
                Some(Err(RecognitionError::Failed(reason))) => {
                    tracing::warn!(sha256 = %request.sha256, page, reason, "a page was not recognised");
                    result.problem = Some(reason);
                    return Some(result);
                }
            };
            if document.bytes() + text.len() > MAX_TEXT_BYTES {
                result.problem = Some(format!("the document has more than {}", format_bytes(MAX_TEXT_BYTES as u64)));
                return Some(result);
            }
            document.set_recognized(page, text);
            result.has_new_pages = true;
        }
        result.pending_page = document.next_unrecognized(first);
        Some(result)
    }

    async fn recognize_page(
        &self,
        request: &DocumentRequest,
        page: u32,
        cancel: &CancellationToken,
    ) -> Result<String, RecognitionError> {
        let picture_request = ImageRequest {
            sha256: request.sha256,
            bytes: request.bytes,
            mime: request.mime.clone(),
            page: Some(page),
            max_side: MAX_SIDE,
            max_bytes: MAX_PICTURE_BYTES,
        };
        let picture = self.images.scale(&picture_request, cancel).await.map_err(|error| match error {
            ImageError::Cancelled => RecognitionError::Cancelled,
            error => RecognitionError::Failed(format!("page {page} can't be drawn: {error}")),
        })?;
        let RecognitionSettings { command, environment, time_limit } = &self.settings;
        let name = program_name(&command[0]);
        let (out, output) = mpsc::channel(CHANNEL_CAPACITY);
        let run = async {
            tokio::join!(
                run_user_program(command, environment, &picture.content, out),
                collect_output(output, MAX_PAGE_TEXT_BYTES)
            )
        };
        let (ended, output) = timeout(*time_limit, run).await.map_err(|_| {
            let seconds = time_limit.as_secs_f32();
            RecognitionError::Failed(format!("`{name}` took longer than {seconds} s for page {page}"))
        })?;
        ended.map_err(|error| RecognitionError::Failed(format!("page {page}: {error}")))?;
        let limit = format_bytes(MAX_PAGE_TEXT_BYTES as u64);
        let output = output
            .ok_or_else(|| RecognitionError::Failed(format!("`{name}` wrote more than {limit} for page {page}")))?;
        Ok(clean_text(&String::from_utf8_lossy(&output)))
    }
}

/// A text without control characters other than line ends and tabs, and without space around it.
fn clean_text(output: &str) -> String {
    let text: String = output.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned()
}
