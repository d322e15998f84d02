//! All text that was read from a document, and how it is kept in a file.

use std::{ffi::OsString, ops::RangeInclusive};

use satchel_ports::{DocumentPage, DocumentRequest, DocumentText};
use serde::{Deserialize, Serialize};

use crate::{
    protocol::{MAX_TEXT_BYTES, PROTOCOL_VERSION},
    selection::{SelectedPage, select_pages},
};

/// The longest header of a file, in bytes: more than any number of pages that can be configured needs.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// The text of a document's pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DocumentPages {
    /// The pages that were read.
    pub(super) pages: Vec<String>,
    /// How many there are in all.
    pub(super) total_pages: u32,
    /// Whether text of the read pages is missing.
    pub(super) is_truncated: bool,
    /// The pages that hold no text of their own and were recognised from their picture, with text or without.
    pub(super) recognized: Vec<u32>,
}

/// What a text depends on besides the bytes of its document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TextVersion {
    /// Of the decoder.
    decoder: String,
    mime: String,
    max_pages: u32,
    /// The program that recognises text in pictures, and its arguments.
    recognizer: Vec<OsString>,
}

impl TextVersion {
    pub(super) fn new(mime: &str, max_pages: u32, recognizer: &[OsString]) -> Self {
        let decoder = format!("{}/{PROTOCOL_VERSION}", env!("CARGO_PKG_VERSION"));
        Self { decoder, mime: mime.to_owned(), max_pages, recognizer: recognizer.to_vec() }
    }
}

/// The first line of a file. The text of the pages follows it.
#[derive(Serialize, Deserialize)]
struct Header {
    version: TextVersion,
    /// The length of each page's text in bytes.
    page_bytes: Vec<usize>,
    total_pages: u32,
    is_truncated: bool,
    recognized: Vec<u32>,
}

impl DocumentPages {
    /// The request for all text of the document that another request is about.
    pub(super) fn request_for(request: &DocumentRequest) -> DocumentRequest {
        DocumentRequest {
            first_page: 1,
            last_page: None,
            offset: 0,
            max_text_bytes: MAX_TEXT_BYTES as u64,
            ..request.clone()
        }
    }

    /// The pages of a whole document; `None` if pages are missing.
    pub(super) fn from_whole(text: DocumentText) -> Option<Self> {
        let DocumentText { pages, total_pages, read_pages, is_truncated, .. } = text;
        let is_whole = pages.len() == read_pages as usize
            && pages.iter().all(|page| page.offset == 0 && page.bytes == page.text.len() as u64);
        let pages = pages.into_iter().map(|page| page.text).collect();
        is_whole.then_some(Self { pages, total_pages, is_truncated, recognized: Vec::new() })
    }

    /// The part that was requested.
    pub(super) fn select(&self, request: &DocumentRequest) -> DocumentText {
        let in_memory = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (offset, max_text_bytes) = (in_memory(request.offset), in_memory(request.max_text_bytes));
        let selected = select_pages(&self.pages, request.page_numbers(), offset, max_text_bytes);
        DocumentText {
            pages: selected.into_iter().map(to_document_page).collect(),
            total_pages: self.total_pages,
            read_pages: u32::try_from(self.pages.len()).unwrap_or(u32::MAX),
            empty_pages: self.empty_pages().collect(),
            is_truncated: self.is_truncated,
            recognition_problem: None,
        }
    }

    /// The numbers of the pages without text.
    fn empty_pages(&self) -> impl Iterator<Item = u32> {
        (1..).zip(&self.pages).filter(|(_, text)| text.is_empty()).map(|(number, _)| number)
    }

    /// Those of the pages with these numbers that have no text and were not recognised.
    pub(super) fn unrecognized_pages(&self, numbers: RangeInclusive<u32>) -> impl Iterator<Item = u32> {
        self.empty_pages().filter(move |number| numbers.contains(number) && !self.recognized.contains(number))
    }

    /// Sets what was recognised of a page without text, which may be nothing.
    pub(super) fn set_recognized(&mut self, number: u32, text: String) {
        self.recognized.push(number);
        if let Some(page) = self.pages.get_mut((number as usize).saturating_sub(1)) {
            *page = text;
        }
    }

    /// How many bytes of text the pages from `first` have that come before `end`.
    pub(super) fn bytes_before(&self, first: u32, end: u32) -> u64 {
        let pages = (1..).zip(&self.pages).filter(|(number, _)| (first..end).contains(number));
        pages.map(|(_, text)| text.len() as u64).sum()
    }

    /// How many bytes of text all pages have.
    pub(super) fn bytes(&self) -> usize {
        self.pages.iter().map(String::len).sum()
    }

    /// The content of the file that keeps the text.
    pub(super) fn to_file(&self, version: TextVersion) -> Vec<u8> {
        let header = Header {
            version,
            page_bytes: self.pages.iter().map(String::len).collect(),
            total_pages: self.total_pages,
            is_truncated: self.is_truncated,
            recognized: self.recognized.clone(),
        };
        let mut content = serde_json::to_vec(&header).expect("a header can be written as JSON");
        content.push(b'\n');
        content.extend(self.pages.iter().flat_map(|page| page.bytes()));
        content
    }

    /// The text that a file keeps; `None` if the file is damaged or has another version.
    pub(super) fn from_file(content: &[u8], version: &TextVersion) -> Option<Self> {
        let header_end = content.iter().take(MAX_HEADER_BYTES).position(|byte| *byte == b'\n')?;
        let header: Header = serde_json::from_slice(&content[..header_end]).ok()?;
        let mut rest = std::str::from_utf8(&content[header_end + 1..]).ok()?;
        let mut pages = Vec::with_capacity(header.page_bytes.len());
        for bytes in &header.page_bytes {
            let (page, behind) = rest.split_at_checked(*bytes)?;
            pages.push(page.to_owned());
            rest = behind;
        }
        let Header { total_pages, is_truncated, recognized, .. } = header;
        let is_sound = header.version == *version && rest.is_empty() && pages.len() <= total_pages as usize;
        is_sound.then_some(Self { pages, total_pages, is_truncated, recognized })
    }
}

fn to_document_page(SelectedPage { number, offset, bytes, text }: SelectedPage<'_>) -> DocumentPage {
    DocumentPage { number, offset: offset as u64, bytes: bytes as u64, text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> DocumentPages {
        let pages = ["One\nline", "", "größer"].map(str::to_owned).to_vec();
        DocumentPages { pages, total_pages: 5, is_truncated: true, recognized: vec![3] }
    }

    #[test]
    fn file_keeps_the_text_of_its_version_only() {
        let version = TextVersion::new("application/pdf", 3, &[]);
        let content = document().to_file(version.clone());
        assert_eq!(DocumentPages::from_file(&content, &version), Some(document()));
        for other in [
            TextVersion::new("application/pdf", 4, &[]),
            TextVersion::new("text/html", 3, &[]),
            TextVersion::new("application/pdf", 3, &["ocr".into()]),
        ] {
            assert_eq!(DocumentPages::from_file(&content, &other), None, "{other:?}");
        }
    }

    #[test]
    fn damaged_file_keeps_nothing() {
        let version = TextVersion::new("application/pdf", 3, &[]);
        let content = document().to_file(version.clone());
        for cut in 0..content.len() {
            assert_eq!(DocumentPages::from_file(&content[..cut], &version), None, "{cut}");
        }
        let (longer, zeros) = ([&content[..], b"x"].concat(), vec![0; content.len()]);
        for damaged in [longer, zeros, b"{}\n".to_vec()] {
            assert_eq!(DocumentPages::from_file(&damaged, &version), None);
        }
    }
}
