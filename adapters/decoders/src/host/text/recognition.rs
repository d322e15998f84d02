//! Recognises the text in the pictures of pages, with a program of the operator.

use std::{
    ffi::OsString,
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_domain::{WorkShare, size::format_bytes};
use satchel_ports::{DocumentError, DocumentRequest, ImageError, ImageRequest, ImageScaler};
use satchel_worker_process::{SlotPermit, SlotPool, collect_output, program_name, run_user_program};
use tokio::{sync::mpsc, time::timeout};
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

/// After so many pages that fail, a call tries no further ones.
const MAX_FAILURES: usize = 3;

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
    /// One slot, in turns between people.
    slots: Arc<SlotPool>,
}

/// What became of the pages without text that a request wants.
#[derive(Debug, Default)]
pub(super) struct Recognition {
    /// The pages that were tried in vain.
    failed_pages: Vec<u32>,
    /// Why the first of them failed, or why others were not tried.
    pub(super) problem: Option<String>,
}

/// Why a page was not recognised.
enum RecognitionError {
    Cancelled,
    Failed(String),
}

impl Recognition {
    /// The first wanted page without text that was not tried; what follows it must not be shown.
    pub(super) fn pending_page(&self, document: &DocumentPages, request: &DocumentRequest) -> Option<u32> {
        document.unrecognized_pages(request.page_numbers()).find(|page| !self.failed_pages.contains(page))
    }

    /// Whether the picture of a page was tried, now or before.
    pub(super) fn was_tried(&self, document: &DocumentPages, page: u32) -> bool {
        document.recognized.contains(&page) || self.failed_pages.contains(&page)
    }

    fn add_failure(&mut self, page: u32, reason: String) {
        self.failed_pages.push(page);
        self.problem.get_or_insert(reason);
    }
}

impl PageRecognizer {
    pub(super) fn new(settings: RecognitionSettings, images: Arc<dyn ImageScaler>) -> Self {
        Self { settings, images, slots: SlotPool::new(1, 1) }
    }

    /// The program and its arguments, on which the text depends.
    pub(super) fn command(&self) -> &[OsString] {
        &self.settings.command
    }

    /// Whether a document has pages that can be drawn.
    pub(super) fn can_draw(request: &DocumentRequest) -> bool {
        request.mime == "application/pdf"
    }

    /// Waits until no other document is recognised. `Ok(None)` if that takes too long.
    pub(super) async fn acquire(
        &self,
        work_share: Option<&WorkShare>,
        cancel: &CancellationToken,
    ) -> Result<Option<SlotPermit>, DocumentError> {
        let acquire = timeout(QUEUE_TIMEOUT, self.slots.acquire(work_share));
        let permit = cancel.run_until_cancelled(acquire).await.ok_or(DocumentError::Cancelled)?;
        Ok(permit.ok())
    }

    /// Recognises the pages without text that the request wants, in their order, until time or room is used up. `keep`
    /// is given the document after each page, so that nothing is done twice however the call ends.
    pub(super) async fn recognize<F: Future<Output = ()>>(
        &self,
        request: &DocumentRequest,
        document: &mut DocumentPages,
        cancel: &CancellationToken,
        keep: impl Fn(DocumentPages) -> F,
    ) -> Result<Recognition, DocumentError> {
        let first = request.first_page.max(1);
        let mut recognition = Recognition::default();
        let started_at = Instant::now();
        let mut is_first_page = true;
        while let Some(page) = recognition.pending_page(document, request) {
            if !is_first_page && started_at.elapsed() > MAX_TURN {
                let seconds = MAX_TURN.as_secs();
                let reason = format!("pages from {page} on would take more than {seconds} s together");
                recognition.problem.get_or_insert(reason);
                break;
            }
            is_first_page = false;
            let has_failed_often = recognition.failed_pages.len() >= MAX_FAILURES;
            if has_failed_often || document.bytes_before(first, page) > request.max_text_bytes {
                break;
            }
            let recognized = cancel.run_until_cancelled(self.recognize_page(request, page, cancel)).await;
            match recognized.unwrap_or(Err(RecognitionError::Cancelled)) {
                Ok(text) if document.bytes() + text.len() <= MAX_TEXT_BYTES => {
                    document.set_recognized(page, text);
                    keep(document.clone()).await;
                }
                Ok(_) => {
                    let limit = format_bytes(MAX_TEXT_BYTES as u64);
                    recognition.add_failure(page, format!("the document has more text than {limit}"));
                }
                Err(RecognitionError::Cancelled) => return Err(DocumentError::Cancelled),
                Err(RecognitionError::Failed(reason)) => {
                    tracing::warn!(sha256 = %request.sha256, page, reason, "a page was not recognised");
                    recognition.add_failure(page, reason);
                }
            }
        }
        Ok(recognition)
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
            work_share: request.work_share.clone(),
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
