//! Reads each document once, and keeps its text for the next time; implements [`DocumentReader`].

use std::sync::Arc;

use async_trait::async_trait;
use satchel_ports::{BlobError, Blobs, DocumentError, DocumentReader, DocumentRequest, DocumentText, ImageScaler};
use tokio_util::sync::CancellationToken;

use super::{
    cache::TextCache,
    pages::{DocumentPages, TextVersion},
    recognition::{PageRecognizer, Recognition, RecognitionSettings},
};

/// A reader that keeps what another one reads.
pub struct CachedDocumentReader {
    reader: Arc<dyn DocumentReader>,
    /// Where the documents are stored.
    blobs: Arc<dyn Blobs>,
    texts: TextCache,
    max_pages: u32,
    recognizer: Option<PageRecognizer>,
}

impl CachedDocumentReader {
    /// Keeps in `texts` what `reader` reads of documents in `blobs`, of which it reads at most `max_pages` pages.
    #[must_use]
    pub fn new(reader: Arc<dyn DocumentReader>, blobs: Arc<dyn Blobs>, texts: TextCache, max_pages: u32) -> Self {
        Self { reader, blobs, texts, max_pages, recognizer: None }
    }

    /// Lets a program recognise the text of scanned pages, which `images` draws.
    #[must_use]
    pub fn with_recognition(mut self, settings: RecognitionSettings, images: Arc<dyn ImageScaler>) -> Self {
        self.recognizer = Some(PageRecognizer::new(settings, images));
        self
    }

    fn version(&self, mime: &str) -> TextVersion {
        let recognizer = self.recognizer.as_ref().map_or(&[][..], PageRecognizer::command);
        TextVersion::new(mime, self.max_pages, recognizer)
    }

    /// All text that the document has of its own, kept from now on; `None` if it can't be had as a whole.
    async fn load(
        &self,
        request: &DocumentRequest,
        cancel: &CancellationToken,
    ) -> Result<Option<DocumentPages>, DocumentError> {
        if let Some(document) = self.texts.load(request.sha256, self.version(&request.mime)).await {
            return Ok(Some(document));
        }
        let whole = self.reader.read_text(&DocumentPages::request_for(request), cancel).await?;
        let document = DocumentPages::from_whole(whole);
        if let Some(document) = &document {
            self.keep(request, document.clone()).await;
        }
        Ok(document)
    }

    /// The part that is requested, with the text of its scanned pages.
    async fn recognize(
        &self,
        recognizer: &PageRecognizer,
        request: &DocumentRequest,
        mut document: DocumentPages,
        cancel: &CancellationToken,
    ) -> Result<DocumentText, DocumentError> {
        let mut recognition = Recognition::default();
        if document.unrecognized_pages(request.page_numbers()).next().is_some() {
            match recognizer.acquire(request.work_share.as_ref(), cancel).await? {
                Some(_slot) => {
                    // Whoever had the slot before may have recognised the same document.
                    if let Some(newer) = self.texts.load(request.sha256, self.version(&request.mime)).await {
                        document = newer;
                    }
                    let keep = |document| self.keep(request, document);
                    recognition = recognizer.recognize(request, &mut document, cancel, keep).await?;
                }
                None => {
                    let reason = "too many pages are being recognised; try again in a moment";
                    recognition.problem = Some(reason.to_owned());
                }
            }
        }
        let mut text = document.select(request);
        // A page that waits for its turn isn't one without text.
        if let Some(pending) = recognition.pending_page(&document, request) {
            text.pages.retain(|page| page.number < pending.max(request.first_page + 1));
        }
        text.empty_pages.retain(|page| recognition.was_tried(&document, *page));
        text.recognition_problem = recognition.problem;
        Ok(text)
    }

    async fn keep(&self, request: &DocumentRequest, pages: DocumentPages) {
        let DocumentRequest { sha256, mime, .. } = request;
        self.texts.store(*sha256, self.version(mime), pages).await;
        // Its last attachment may have been removed meanwhile, and with it the text that was not kept yet.
        if matches!(self.blobs.open(sha256, Some(0..0)).await, Err(BlobError::Missing(_)))
            && let Err(error) = self.texts.remove(&[*sha256]).await
        {
            tracing::warn!(%sha256, %error, "the text of a removed document can't be removed");
        }
    }
}

#[async_trait]
impl DocumentReader for CachedDocumentReader {
    async fn read_text(
        &self,
        request: &DocumentRequest,
        cancel: &CancellationToken,
    ) -> Result<DocumentText, DocumentError> {
        let Some(document) = self.load(request, cancel).await? else {
            return self.reader.read_text(request, cancel).await;
        };
        match &self.recognizer {
            Some(recognizer) if PageRecognizer::can_draw(request) => {
                self.recognize(recognizer, request, document, cancel).await
            }
            _ => Ok(document.select(request)),
        }
    }
}
