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

    /// The part that is requested, and whether more of the document is known than before.
    async fn select(
        &self,
        request: &DocumentRequest,
        document: &mut DocumentPages,
        cancel: &CancellationToken,
    ) -> Result<(DocumentText, bool), DocumentError> {
        let Some(recognizer) = &self.recognizer else { return Ok((document.select(request), false)) };
        let recognition = recognizer.recognize(request, document, cancel).await.ok_or(DocumentError::Cancelled)?;
        let Recognition { has_new_pages, problem, pending_page } = recognition;
        let mut text = document.select(request);
        // A page that waits for its turn isn't one without text.
        if let Some(pending) = pending_page {
            text.pages.retain(|page| page.number < pending);
            text.empty_pages.retain(|number| document.recognized.contains(number));
        }
        text.recognition_problem = problem;
        Ok((text, has_new_pages))
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
        let kept = self.texts.load(request.sha256, self.version(&request.mime)).await;
        let is_kept = kept.is_some();
        let mut document = match kept {
            Some(document) => document,
            None => {
                let whole = self.reader.read_text(&DocumentPages::request_for(request), cancel).await?;
                match DocumentPages::from_whole(whole) {
                    Some(document) => document,
                    None => return self.reader.read_text(request, cancel).await,
                }
            }
        };
        let (text, has_new_pages) = self.select(request, &mut document, cancel).await?;
        if has_new_pages || !is_kept {
            self.keep(request, document).await;
        }
        Ok(text)
    }
}
