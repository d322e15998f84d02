//! The text of documents for `attachment.read`: which files are documents, and how their pages are shown.

use satchel_domain::{Attachment, ToolOutcome, size::format_bytes};
use satchel_ports::{
    DocumentError, DocumentPage, DocumentReader, DocumentRequest, DocumentText, OutcomeReader, ToolContext, ToolError,
};
use serde_json::json;

use crate::error;

/// The beginnings of the types that are documents: they have text, but not as bytes.
const DOCUMENT_MIMES: [&str; 9] = [
    "application/pdf",
    "application/rtf",
    "application/epub+zip",
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
    "application/vnd.ms-",
    "application/msword",
    "application/x-ole-storage",
    "message/rfc822",
];

/// How many ranges of pages without text are named.
const MAX_NAMED_RANGES: usize = 20;

/// Whether a file is read as a document unless its bytes are asked for.
pub(crate) fn is_document(attachment: &Attachment) -> bool {
    DOCUMENT_MIMES.iter().any(|mime| attachment.mime.starts_with(mime))
}

/// The text that a call wants.
pub(crate) struct PageSelection {
    /// The first page, from 1.
    pub(crate) page: u32,
    /// The last page; `None` for as many as fit.
    pub(crate) last_page: Option<u32>,
    /// Where in its text to start, in bytes.
    pub(crate) offset: u64,
    /// The most bytes of text.
    pub(crate) max_bytes: u64,
    /// Whether the call named that number, so that a part is what it wants.
    pub(crate) is_limited: bool,
}

/// Reads pages of a document and shows them to the reader of the outcome.
pub(crate) async fn read_pages(
    reader: &dyn DocumentReader,
    attachment: &Attachment,
    selection: &PageSelection,
    context: &ToolContext,
) -> Result<ToolOutcome, DocumentReadError> {
    if selection.page == 0 {
        return Err(error::tool_error("argument `page`: 0 is not allowed; pages are counted from 1").into());
    }
    let request = DocumentRequest {
        sha256: attachment.sha256,
        bytes: attachment.bytes,
        mime: attachment.mime.clone(),
        first_page: selection.page,
        last_page: selection.last_page,
        offset: selection.offset,
        max_text_bytes: selection.max_bytes,
        work_share: Some(context.work_share.clone()),
    };
    let text = reader.read_text(&request, &context.cancel).await.map_err(|error| read_error(attachment, error))?;
    check_selection(attachment, selection, &text)?;
    // A program can't tell a page that wasn't recognised from one without text.
    if let (OutcomeReader::Program, Some(problem)) = (context.reader, &text.recognition_problem) {
        let message = format!("not all scanned pages of {} were recognised: {problem}", attachment.filename);
        return Err(error::tool_error(message).into());
    }
    Ok(ToolOutcome::from_text(match context.reader {
        OutcomeReader::Program if selection.is_limited => join_pages(&text),
        OutcomeReader::Program => whole_text(attachment, &text)?,
        OutcomeReader::Model | OutcomeReader::Person => format_pages(attachment, &text),
    }))
}

/// Why a document was not read.
pub(crate) enum DocumentReadError {
    /// It is nothing that could be read as text.
    Unsupported,
    Tool(ToolError),
}

impl From<ToolError> for DocumentReadError {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

fn read_error(attachment: &Attachment, error: DocumentError) -> DocumentReadError {
    let filename = &attachment.filename;
    let message = match error {
        DocumentError::Unsupported { .. } => return DocumentReadError::Unsupported,
        DocumentError::Unreadable { reason } => format!("the text of {filename} can't be read: {reason}"),
        DocumentError::Unavailable { reason } => format!("documents such as {filename} can't be read now: {reason}"),
        DocumentError::Cancelled => format!("reading {filename} was cancelled"),
    };
    DocumentReadError::Tool(error::tool_error(message))
}

/// Checks that there is what was asked for.
fn check_selection(attachment: &Attachment, selection: &PageSelection, text: &DocumentText) -> Result<(), ToolError> {
    let (filename, page) = (&attachment.filename, selection.page);
    let DocumentText { total_pages, read_pages, pages, .. } = text;
    if page > *total_pages && *total_pages > 0 {
        let message =
            format!("argument `page`: {page} is behind the end; {filename} has {}", count_pages(*total_pages));
        return Err(error::tool_error(message));
    }
    if page > *read_pages && *total_pages > 0 {
        let message = format!(
            "argument `page`: of {filename} only pages 1 to {read_pages} are read; `documents.max_pages` sets the limit"
        );
        return Err(error::tool_error(message));
    }
    match pages.first() {
        Some(first) if selection.offset > 0 && selection.offset >= first.bytes => Err(error::tool_error(format!(
            "argument `offset`: {} is behind the end; the text of page {page} has {} bytes",
            selection.offset, first.bytes
        ))),
        _ => Ok(()),
    }
}

/// The text for a program: all of it, pages apart by a form feed.
fn whole_text(attachment: &Attachment, text: &DocumentText) -> Result<String, ToolError> {
    if next_position(text).is_some() || text.is_truncated {
        let limit = format_bytes(OutcomeReader::MAX_PROGRAM_BYTES);
        let message = format!(
            "the text of {} has more than {limit}; a script is given at most {limit} at once",
            attachment.filename
        );
        return Err(error::tool_error(message));
    }
    if text.read_pages < text.total_pages {
        let message = format!(
            "{} has {}, of which {} are read: `documents.max_pages` sets the limit",
            attachment.filename,
            count_pages(text.total_pages),
            text.read_pages
        );
        return Err(error::tool_error(message));
    }
    Ok(join_pages(text))
}

fn join_pages(text: &DocumentText) -> String {
    text.pages.iter().map(|page| page.text.as_str()).collect::<Vec<_>>().join("\u{c}")
}

/// Where the text continues behind the pages: a page, and an offset in its text.
fn next_position(text: &DocumentText) -> Option<(u32, u64)> {
    let last = text.pages.last()?;
    let end = last.offset + last.text.len() as u64;
    match last.number < text.read_pages {
        _ if end < last.bytes => Some((last.number, end)),
        true => Some((last.number + 1, 0)),
        false => None,
    }
}

fn format_pages(attachment: &Attachment, text: &DocumentText) -> String {
    let (Some(first), Some(last)) = (text.pages.first(), text.pages.last()) else {
        return format!("#{} {} has no pages", attachment.number, attachment.filename);
    };
    let range = format_range(first.number, last.number);
    let mut shown = format!("#{} {}, {range} of {}", attachment.number, attachment.filename, text.total_pages);
    for page in &text.pages {
        shown.push_str(&format!("\n[{}]\n{}", page_heading(page), page.text));
    }
    for note in notes(attachment, text) {
        shown.push_str(&format!("\n[{note}]"));
    }
    shown
}

fn page_heading(page: &DocumentPage) -> String {
    let DocumentPage { number, offset, bytes, text } = page;
    let end = offset + text.len() as u64;
    match (*bytes, end - offset) {
        (0, _) => format!("page {number}: no text"),
        (bytes, part) if part < bytes => format!("page {number}, bytes {offset} to {end} of {bytes}"),
        _ => format!("page {number}"),
    }
}

/// What a reader must know besides the text: what is missing, and how to read on.
fn notes(attachment: &Attachment, text: &DocumentText) -> Vec<String> {
    let mut notes = Vec::new();
    if !text.empty_pages.is_empty() {
        let look = match attachment.mime == "application/pdf" {
            true => "; they may be scanned, and attachment.view shows any of them",
            false => "",
        };
        notes.push(format!("without text: {}{look}", format_ranges(&text.empty_pages)));
    }
    if let Some(problem) = &text.recognition_problem {
        notes.push(format!("not all scanned pages were recognised: {problem}"));
    }
    if text.read_pages < text.total_pages && !text.is_truncated {
        let range = format_range(text.read_pages + 1, text.total_pages);
        notes.push(format!("not read: {range}; `documents.max_pages` sets the limit"));
    }
    if text.is_truncated {
        notes.push("the document holds more text than is read from any; the rest is missing".to_owned());
    }
    if let Some((page, offset)) = next_position(text) {
        let arguments = match offset {
            0 => json!({ "id": attachment.id, "page": page }),
            offset => json!({ "id": attachment.id, "page": page, "offset": offset }),
        };
        notes.push(format!("read on with attachment.read {arguments}"));
    }
    notes
}

fn format_range(first: u32, last: u32) -> String {
    if first == last { format!("page {first}") } else { format!("pages {first}–{last}") }
}

fn format_ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let mut shown: Vec<String> = ranges
        .iter()
        .take(MAX_NAMED_RANGES)
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}–{last}") })
        .collect();
    if ranges.len() > MAX_NAMED_RANGES {
        shown.push("and more".to_owned());
    }
    let word = if numbers.len() == 1 { "page" } else { "pages" };
    format!("{word} {}", shown.join(", "))
}

fn count_pages(count: u32) -> String {
    if count == 1 { "1 page".to_owned() } else { format!("{count} pages") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use satchel_ports::MockDocumentReader;
    use serde_json::Value;

    use super::*;
    use crate::fakes::{ToolHarness, attachment};

    const DOCX: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

    fn page(number: u32, text: &str) -> DocumentPage {
        DocumentPage { number, offset: 0, bytes: text.len() as u64, text: text.to_owned() }
    }

    fn document(pages: Vec<DocumentPage>, total_pages: u32) -> DocumentText {
        DocumentText {
            pages,
            total_pages,
            read_pages: total_pages,
            empty_pages: Vec::new(),
            is_truncated: false,
            recognition_problem: None,
        }
    }

    /// A conversation with the file 4, whose reader gives this answer.
    fn world_with(filename: &str, mime: &str, answer: Result<DocumentText, DocumentError>) -> (ToolHarness, Value) {
        let mut reader = MockDocumentReader::new();
        reader.expect_read_text().returning(move |_, _| answer.clone());
        let mut world = ToolHarness::new();
        world.documents = Some(Arc::new(reader));
        let file = attachment(4, filename, mime, b"\xff\x00");
        world.store(b"\xff\x00");
        world.add_record(file.clone());
        (world, json!(file.id))
    }

    #[tokio::test]
    async fn pages_are_shown_with_what_is_missing() {
        let pages = vec![page(1, "first\nline"), page(2, ""), page(3, "third")];
        let text = DocumentText { empty_pages: vec![2, 5, 6, 7, 9], read_pages: 10, ..document(pages, 12) };
        let (world, id) = world_with("scan.pdf", "application/pdf", Ok(text));
        let read = world.call("attachment.read", json!({"id": id})).await.unwrap().text.unwrap();
        assert_eq!(
            read,
            format!(
                "#4 scan.pdf, pages 1–3 of 12\n[page 1]\nfirst\nline\n[page 2: no text]\n\n[page 3]\nthird\n\
                 [without text: pages 2, 5–7, 9; they may be scanned, and attachment.view shows any of them]\n\
                 [not read: pages 11–12; `documents.max_pages` sets the limit]\n\
                 [read on with attachment.read {{\"id\":{id},\"page\":4}}]"
            )
        );
    }

    #[tokio::test]
    async fn scanned_pages_that_were_not_recognised_are_explained() {
        let problem = Some("page 2: `ocr` ended with 3".to_owned());
        let text = DocumentText {
            empty_pages: vec![2],
            recognition_problem: problem,
            ..document(vec![page(1, "first"), page(2, "")], 2)
        };
        let (world, id) = world_with("scan.pdf", "application/pdf", Ok(text));
        let read = world.call("attachment.read", json!({"id": id})).await.unwrap().text.unwrap();
        let expected = "[not all scanned pages were recognised: page 2: `ocr` ended with 3]";
        assert!(read.ends_with(expected), "{read}");
        for arguments in [json!({"id": id}), json!({"id": id, "limit": 100})] {
            let error = world.call_for_program("attachment.read", arguments).await.unwrap_err().0;
            assert_eq!(error, "not all scanned pages of scan.pdf were recognised: page 2: `ocr` ended with 3");
        }
    }

    #[tokio::test]
    async fn part_of_page_says_where_it_continues() {
        let part = DocumentPage { number: 2, offset: 100, bytes: 300, text: "x".repeat(50) };
        let (world, id) = world_with("a.docx", DOCX, Ok(document(vec![part], 2)));
        let read = world.call("attachment.read", json!({"id": id, "page": 2, "offset": 100})).await.unwrap();
        let expected = format!(
            "#4 a.docx, page 2 of 2\n[page 2, bytes 100 to 150 of 300]\n{}\n\
             [read on with attachment.read {{\"id\":{id},\"page\":2,\"offset\":150}}]",
            "x".repeat(50)
        );
        assert_eq!(read.text, Some(expected));
    }

    #[tokio::test]
    async fn request_names_the_stored_bytes() {
        let mut reader = MockDocumentReader::new();
        reader.expect_read_text().times(1).returning(|request, _| {
            let DocumentRequest { bytes, mime, first_page, offset, max_text_bytes, .. } = request;
            assert_eq!((*bytes, mime.as_str(), *first_page, *offset, *max_text_bytes), (2, DOCX, 3, 0, 1_000));
            Ok(document(vec![page(3, "text")], 3))
        });
        let mut world = ToolHarness::new();
        world.documents = Some(Arc::new(reader));
        let file = attachment(4, "a.docx", DOCX, b"\xff\x00");
        world.add_record(file.clone());
        world.call("attachment.read", json!({"id": file.id, "page": 3, "limit": 1_000})).await.unwrap();
    }

    #[tokio::test]
    async fn program_gets_all_text_or_an_error() {
        let whole = document(vec![page(1, "one"), page(2, "two")], 2);
        let (world, id) = world_with("a.docx", DOCX, Ok(whole.clone()));
        let read = world.call_for_program("attachment.read", json!({"id": id})).await.unwrap();
        assert_eq!(read.text.as_deref(), Some("one\u{c}two"));
        for (text, expected) in [
            (DocumentText { read_pages: 3, total_pages: 3, ..whole.clone() }, "has more than 8.3 MB"),
            (DocumentText { is_truncated: true, ..whole.clone() }, "has more than 8.3 MB"),
            (DocumentText { total_pages: 9, ..whole }, "a.docx has 9 pages, of which 2 are read"),
        ] {
            let (world, id) = world_with("a.docx", DOCX, Ok(text));
            let error = world.call_for_program("attachment.read", json!({"id": id})).await.unwrap_err().0;
            assert!(error.contains(expected), "{error}");
            let part = world.call_for_program("attachment.read", json!({"id": id, "limit": 100})).await.unwrap();
            assert_eq!(part.text.as_deref(), Some("one\u{c}two"));
        }
    }

    #[tokio::test]
    async fn failures_are_explained() {
        let reason = || "it is protected with a password".to_owned();
        for (answer, expected) in [
            (
                Err(DocumentError::Unreadable { reason: reason() }),
                "the text of a.docx can't be read: it is protected with a password",
            ),
            (
                Err(DocumentError::Unavailable { reason: "the worker is missing".to_owned() }),
                "documents such as a.docx can't be read now: the worker is missing",
            ),
            (Err(DocumentError::Unsupported { reason: reason() }), "a.docx is not text: it is application/vnd"),
            (Err(DocumentError::Cancelled), "reading a.docx was cancelled"),
            (Ok(document(Vec::new(), 2)), "argument `page`: 3 is behind the end; a.docx has 2 pages"),
            (
                Ok(DocumentText { read_pages: 2, ..document(Vec::new(), 9) }),
                "argument `page`: of a.docx only pages 1 to 2 are read; `documents.max_pages` sets the limit",
            ),
            (
                Ok(document(vec![page(3, "text")], 3)),
                "argument `offset`: 4 is behind the end; the text of page 3 has 4 bytes",
            ),
        ] {
            let (world, id) = world_with("a.docx", DOCX, answer);
            let error = world.error("attachment.read", json!({"id": id, "page": 3, "offset": 4})).await;
            assert!(error.starts_with(expected), "{error}");
        }
        let (world, id) = world_with("a.docx", DOCX, Ok(document(Vec::new(), 1)));
        let error = world.error("attachment.read", json!({"id": id, "page": 0})).await;
        assert_eq!(error, "argument `page`: 0 is not allowed; pages are counted from 1");
    }

    /// Text in an old encoding is no UTF-8; a page of HTML is read as its source unless a page is asked for.
    #[tokio::test]
    async fn other_files_are_documents_where_bytes_are_no_text() {
        let read = || Ok(document(vec![page(1, "read")], 1));
        for (mime, arguments, expected) in [
            ("text/plain", json!({}), "#4 a, page 1 of 1\n[page 1]\nread"),
            ("application/octet-stream", json!({}), "#4 a, page 1 of 1\n[page 1]\nread"),
            ("text/html", json!({"page": 1}), "#4 a, page 1 of 1\n[page 1]\nread"),
        ] {
            let (world, id) = world_with("a", mime, read());
            let mut arguments = arguments;
            arguments["id"] = id;
            let text = world.call("attachment.read", arguments).await.unwrap().text;
            assert_eq!(text.as_deref(), Some(expected), "{mime}");
        }
        let (world, id) = world_with("a.jpg", "image/jpeg", read());
        let error = world.error("attachment.read", json!({"id": id})).await;
        assert!(error.starts_with("a.jpg is not text: it is image/jpeg"), "{error}");
    }

    #[test]
    fn ranges_are_joined_and_limited() {
        assert_eq!(format_ranges(&[7]), "page 7");
        assert_eq!(format_ranges(&[1, 2, 3, 5, 8, 9]), "pages 1–3, 5, 8–9");
        let odd: Vec<u32> = (0..100).map(|index| 2 * index + 1).collect();
        assert!(format_ranges(&odd).ends_with("37, 39, and more"));
    }
}
