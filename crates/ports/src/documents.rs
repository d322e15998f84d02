//! The port that reads the text of documents.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use satchel_domain::{Sha256, WorkShare};
use tokio_util::sync::CancellationToken;

/// A stored document, and which of its pages are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentRequest {
    /// The address of its bytes.
    pub sha256: Sha256,
    /// Their number.
    pub bytes: u64,
    /// What the bytes were found to be, such as `application/pdf`.
    pub mime: String,
    /// The first page that is wanted, from 1.
    pub first_page: u32,
    /// The last page that is wanted; `None` for as many as fit.
    pub last_page: Option<u32>,
    /// Where in the text of the first page to start, in bytes.
    pub offset: u64,
    /// The most bytes of text that are wanted.
    pub max_text_bytes: u64,
    /// For whom, so that one person's files don't keep those of others waiting; `None` where nobody knows.
    pub work_share: Option<WorkShare>,
}

impl DocumentRequest {
    /// The numbers of the pages that are wanted, as far as they fit.
    #[must_use]
    pub fn page_numbers(&self) -> RangeInclusive<u32> {
        self.first_page.max(1)..=self.last_page.unwrap_or(u32::MAX)
    }
}

/// Text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentText {
    /// The pages that were wanted, as far as they fit.
    pub pages: Vec<DocumentPage>,
    /// How many pages the document has.
    pub total_pages: u32,
    /// How many of them were read; the others are beyond the operator's limit.
    pub read_pages: u32,
    /// Those read pages that hold no text, in their order: pictures, or nothing.
    pub empty_pages: Vec<u32>,
    /// Whether the document has more text than is read from any, so that text of the last pages is missing.
    pub is_truncated: bool,
    /// Why text in the pictures of some pages was not recognised, for the model; `None` if it was, if there are no such
    /// pages, or if no text is recognised at all.
    pub recognition_problem: Option<String>,
}

/// The text of a page, or a part of it.
///
/// A page is one of a PDF, a slide, a sheet of a workbook, or else some 3,000 characters up to the end of a paragraph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentPage {
    /// Its number, from 1.
    pub number: u32,
    /// Where the text starts in that of the whole page, in bytes.
    pub offset: u64,
    /// How many bytes the text of the whole page has.
    pub bytes: u64,
    /// The text, which holds no control characters other than line ends and tabs.
    pub text: String,
}

/// Why a document has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is nothing that could be read as text.
    #[error("{reason}")]
    Unsupported {
        /// What it is, for the model.
        reason: String,
    },
    /// It is protected, damaged, too large, or takes too long.
    #[error("{reason}")]
    Unreadable {
        /// Why, for the model.
        reason: String,
    },
    /// Documents can't be read at all now.
    #[error("{reason}")]
    Unavailable {
        /// What is missing, for the model and the operator.
        reason: String,
    },
    /// The call was cancelled.
    #[error("reading was cancelled")]
    Cancelled,
}

/// Reads the text of documents, none of which can harm the calling process.
///
/// # Contract
/// - Whatever a document holds, `read_text` ends within its time limit, and the caller's memory holds no more than the
///   text of its pages, of which a few megabytes are read at most. Waiting for a free worker comes before that, and is
///   bounded.
/// - Requesters share the workers fairly: new work waits behind one piece of each at most.
/// - `read_text` returns after its last effect: nothing of it continues. One that is dropped is stopped.
/// - The same request of the same bytes yields the same text, as far as recognising text in pictures doesn't fail.
/// - At least one page is returned if there is one from the first wanted on, and of its text at least one character.
/// - A failure concerns the one document.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait DocumentReader: Send + Sync {
    /// Reads text.
    async fn read_text(
        &self,
        request: &DocumentRequest,
        cancel: &CancellationToken,
    ) -> Result<DocumentText, DocumentError>;
}
