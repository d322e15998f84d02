//! The messages between Satchel and the decoder worker.
//!
//! A worker sends [`FromWorker::Ready`] and waits. The host sends one [`ReadRequest`] as a line of JSON, and after it
//! exactly the bytes of the document. The worker answers with one JSON value per line: the requested pages in their
//! order, then [`FromWorker::Done`], or [`FromWorker::Failed`] instead of all. A worker reads one document and exits.
//! The host doesn't trust the worker: any other message gets it killed.

use serde::{Deserialize, Serialize};

/// The version of the protocol; a worker with another one is not used.
pub const PROTOCOL_VERSION: u32 = 1;

/// The most bytes of text that a worker takes from a document, and that one answer holds.
pub const MAX_TEXT_BYTES: usize = 8 << 20;

/// The longest line of a worker in bytes, without its end. JSON escapes quotes and line ends as two bytes; other control
/// characters never leave a worker.
pub const MAX_LINE_BYTES: usize = 2 * MAX_TEXT_BYTES + (4 << 10);

/// The longest [`ReadRequest`] in bytes, as a line with its end.
pub const MAX_REQUEST_BYTES: usize = 4 << 10;

/// The longest message of a [`Failure`], in characters.
pub const MAX_MESSAGE_CHARS: usize = 200;

/// The option of the worker that sets its memory in bytes.
pub const MEMORY_OPTION: &str = "--memory";

/// A document to be read, and which of its pages are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// Its type, as it was detected from its bytes.
    pub mime: String,
    /// How many bytes follow.
    pub bytes: u64,
    /// The first page that is wanted, from 1.
    pub first_page: u32,
    /// Where in the text of that page to start, in bytes.
    pub offset: usize,
    /// The most bytes of text that are wanted.
    pub max_text_bytes: usize,
    /// How many pages are read at most.
    pub max_pages: u32,
    /// How many seconds of processor time the worker may use: the last limit, after the host's own clock.
    pub processor_seconds: u64,
}

/// A message of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromWorker {
    /// It waits for a document.
    Ready {
        /// Its [`PROTOCOL_VERSION`].
        version: u32,
    },
    Page(PageText),
    /// All requested pages were sent.
    Done(DocumentSummary),
    Failed(Failure),
}

/// The text of a page, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageText {
    /// Its number, from 1.
    pub number: u32,
    /// Where the text starts in that of the page, in bytes.
    pub offset: usize,
    /// How many bytes the text of the whole page has.
    pub bytes: usize,
    pub text: String,
}

/// What is known of the whole document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentSummary {
    /// How many pages it has.
    pub total_pages: u32,
    /// How many of them were read.
    pub read_pages: u32,
    /// Those read pages that hold no text.
    pub empty_pages: Vec<u32>,
    /// Whether the text of the read pages ended at [`MAX_TEXT_BYTES`].
    pub is_truncated: bool,
}

/// Why a document has no text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub kind: FailureKind,
    /// The reason, for the model.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It is no document that a worker reads.
    Unsupported,
    /// It is protected, damaged or too large.
    Unreadable,
}
