//! The text of a document, for a model that doesn't take the document itself.

use std::fmt::Write;

use satchel_domain::{Attachment, StoredBlob, WorkShare, filename::is_unsafe_char, size};
use satchel_ports::{DocumentError, DocumentReader, DocumentRequest, DocumentText};
use tokio_util::sync::CancellationToken;

/// Why a document is text.
pub const NOT_TAKEN: &str = "because you can't take the file itself";

/// How many characters of a name are shown.
const MAX_NAME_CHARS: usize = 150;

/// Whether a file may be a document, by its type alone.
#[must_use]
pub fn may_have_text(mime: &str, bytes: u64) -> bool {
    !matches!(mime.split('/').next().unwrap_or_default(), "image" | "audio" | "video" | "font") && bytes > 0
}

/// Reads the beginning of a document, as far as its text fits and up to the last page that is wanted.
///
/// # Errors
/// When nothing reads it.
pub async fn read_document(
    reader: &dyn DocumentReader,
    file: &StoredBlob,
    work_share: Option<&WorkShare>,
    last_page: Option<u32>,
    max_text_bytes: usize,
) -> Result<DocumentText, DocumentError> {
    let request = DocumentRequest {
        sha256: file.sha256,
        bytes: file.bytes,
        mime: file.mime.clone(),
        first_page: 1,
        last_page,
        offset: 0,
        max_text_bytes: max_text_bytes as u64,
        work_share: work_share.cloned(),
    };
    // Dropping the future stops the worker, so nothing else needs to cancel it.
    reader.read_text(&request, &CancellationToken::new()).await
}

/// Which document it is, why it is text, which of its pages were read, and what is missing of them.
#[must_use]
pub fn describe_pages(name: &str, document: &DocumentText, why: &str) -> String {
    let DocumentText { pages, total_pages, empty_pages, recognition_problem, .. } = document;
    let mut text = format!("{name}, as text, {why}");
    let (first, last) = (pages.first().map_or(1, |page| page.number), pages.last().map_or(0, |page| page.number));
    let _ = match (first, last) {
        (_, 0) => write!(text, "; it has no text"),
        (first, last) if first == last => write!(text, "; page {first} of {total_pages}"),
        (first, last) => write!(text, "; pages {first}–{last} of {total_pages}"),
    };
    if pages.last().is_some_and(|page| page.offset + (page.text.len() as u64) < page.bytes) {
        text.push_str("; the last of them is cut");
    }
    let empty: Vec<String> = empty_pages.iter().filter(|page| **page <= last).map(u32::to_string).collect();
    if !empty.is_empty() {
        let _ = write!(text, "; no text on page {}", empty.join(", "));
    }
    if let Some(problem) = recognition_problem {
        let _ = write!(text, "; not all scanned pages were recognised: {problem}");
    }
    text
}

/// The text of the pages, each under its number if there are several.
#[must_use]
pub fn join_pages(document: &DocumentText) -> String {
    let mut text = String::new();
    for page in &document.pages {
        if document.total_pages > 1 {
            let _ = write!(text, "\n[page {}]", page.number);
        }
        text.push('\n');
        text.push_str(&page.text);
    }
    text
}

/// Names a file of the conversation: `#4 "contract.docx" (application/pdf, 12 KB)`. The name is the sender's choice.
#[must_use]
pub fn name_file(file: &Attachment) -> String {
    let name: String = file.filename.as_str().chars().filter(|c| !is_unsafe_char(*c)).take(MAX_NAME_CHARS).collect();
    format!("#{} {name:?} ({}, {})", file.number, file.mime, size::format_bytes(file.bytes))
}
