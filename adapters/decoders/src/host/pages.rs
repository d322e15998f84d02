//! The text of a document, collected page by page; implements [`DocumentReader`].

use async_trait::async_trait;
use futures::TryStreamExt;
use satchel_ports::{DocumentError, DocumentPage, DocumentReader, DocumentRequest, DocumentText};
use tokio_util::sync::CancellationToken;

use super::{
    DecoderWorkers,
    error::DecoderError,
    exchange::{DecoderInput, OutputCollector},
};
use crate::{
    document_head::{HEAD_BYTES, may_be_document, no_text_reason},
    protocol::{
        DocumentSummary, FromWorker, MAX_TEXT_BYTES, MAX_TEXT_LINE_BYTES, PageText, RequestedOutput, TextRange,
    },
};

#[async_trait]
impl DocumentReader for DecoderWorkers {
    async fn read_text(
        &self,
        request: &DocumentRequest,
        cancel: &CancellationToken,
    ) -> Result<DocumentText, DocumentError> {
        let DocumentRequest { sha256, bytes, mime, offset, max_text_bytes, work_share, .. } = request;
        if !may_be_document(&self.head(request).await, *bytes, mime) {
            return Err(DecoderError::Unsupported { reason: no_text_reason(mime) }.into());
        }
        let (first_page, last_page) = request.page_numbers().into_inner();
        let range = TextRange {
            first_page,
            last_page,
            offset: usize::try_from(*offset).unwrap_or(usize::MAX),
            max_text_bytes: usize::try_from(*max_text_bytes).unwrap_or(usize::MAX).min(MAX_TEXT_BYTES),
            max_pages: self.settings.max_pages,
        };
        let input = DecoderInput { sha256, bytes: *bytes, mime, work_share: work_share.as_ref() };
        Ok(self.decode(&self.document_slots, input, PageCollector::new(range), cancel).await?)
    }
}

impl DecoderWorkers {
    /// The first bytes of a file. Without any, where they can't be had: the worker's turn then says why.
    async fn head(&self, request: &DocumentRequest) -> Vec<u8> {
        let mut head = Vec::new();
        if let Ok(mut content) = self.blobs.open(&request.sha256, Some(0..HEAD_BYTES)).await {
            while let Ok(Some(chunk)) = content.try_next().await {
                head.extend_from_slice(&chunk);
            }
        }
        head.truncate(HEAD_BYTES as usize);
        head
    }
}

/// The pages that have arrived.
struct PageCollector {
    range: TextRange,
    pages: Vec<DocumentPage>,
    /// How many bytes of text may still come.
    room: usize,
}

impl PageCollector {
    fn new(range: TextRange) -> Self {
        Self { room: range.max_text_bytes, pages: Vec::new(), range }
    }

    fn add_page(&mut self, page: PageText) -> Result<(), &'static str> {
        // One character more than requested is legal, or a reader with little room would never come on.
        self.room = (self.room + 4)
            .checked_sub(page.text.len())
            .map(|room| room.saturating_sub(4))
            .ok_or("the pages hold more text than was requested")?;
        let TextRange { first_page, last_page, max_pages, .. } = self.range;
        let expected = self.pages.last().map_or(first_page, |last| last.number.saturating_add(1));
        let end = page.offset.saturating_add(page.text.len());
        if page.number != expected || page.number > last_page.min(max_pages) || end > page.bytes {
            return Err("a page is not the next one");
        }
        self.pages.push(to_document_page(page));
        Ok(())
    }

    fn finish(&mut self, summary: DocumentSummary) -> Result<DocumentText, &'static str> {
        let DocumentSummary { total_pages, read_pages, empty_pages, is_truncated } = summary;
        let pages = std::mem::take(&mut self.pages);
        let is_sound = read_pages <= total_pages.min(self.range.max_pages)
            && pages.last().is_none_or(|last| last.number <= read_pages)
            && empty_pages.is_sorted_by(|a, b| a < b)
            && empty_pages.iter().all(|number| (1..=read_pages).contains(number));
        match is_sound {
            true => Ok(DocumentText {
                pages,
                total_pages,
                read_pages,
                empty_pages,
                is_truncated,
                recognition_problem: None,
            }),
            false => Err("its numbers of pages contradict each other"),
        }
    }
}

impl OutputCollector for PageCollector {
    type Output = DocumentText;

    const ACTIVITY: &'static str = "reading";
    const MAX_LINE_BYTES: usize = MAX_TEXT_LINE_BYTES;

    fn size_reason(limit: &str) -> String {
        format!("a document of at most {limit} can be read as text")
    }

    fn requested_output(&self) -> RequestedOutput {
        RequestedOutput::Text(self.range.clone())
    }

    fn add_message(&mut self, message: FromWorker) -> Result<Option<DocumentText>, &'static str> {
        match message {
            FromWorker::Page(page) => self.add_page(page).map(|()| None),
            FromWorker::Done(summary) => self.finish(summary).map(Some),
            _ => Err("a message is not about text"),
        }
    }
}

fn to_document_page(PageText { number, offset, bytes, text }: PageText) -> DocumentPage {
    DocumentPage { number, offset: offset as u64, bytes: bytes as u64, text }
}
