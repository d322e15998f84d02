//! Collects the text of a document page by page, and bounds it.

use satchel_decoders::protocol::MAX_TEXT_BYTES;

/// How long a page of a text without pages is, in characters: it ends with the paragraph that reaches this length.
const FLOW_PAGE_CHARS: usize = 3_000;

/// A paragraph that is longer than this is cut, in characters.
const MAX_FLOW_PAGE_CHARS: usize = 2 * FLOW_PAGE_CHARS;

/// The text of a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecodedDocument {
    /// The pages that were read.
    pub(crate) pages: Vec<String>,
    /// How many there are in all.
    pub(crate) total_pages: usize,
    /// Whether text of the read pages is missing.
    pub(crate) is_truncated: bool,
}

/// Collects text: no more than [`MAX_TEXT_BYTES`], and no more than so many pages.
pub(crate) struct PageWriter {
    pages: Vec<String>,
    /// The page that is being written.
    text: String,
    /// Where the current cell of a table starts; its line ends give way to a tab, but not those before it.
    cell_start: usize,
    room: usize,
    max_pages: usize,
    unread_pages: usize,
    is_truncated: bool,
}

impl PageWriter {
    pub(crate) fn new(max_pages: u32) -> Self {
        Self {
            pages: Vec::new(),
            text: String::new(),
            cell_start: 0,
            room: MAX_TEXT_BYTES,
            max_pages: usize::try_from(max_pages).unwrap_or(usize::MAX),
            unread_pages: 0,
            is_truncated: false,
        }
    }

    /// Whether everything that follows would be dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.is_truncated
    }

    /// Whether there is room for another page.
    pub(crate) fn has_free_page(&self) -> bool {
        self.pages.len() < self.max_pages
    }

    /// Adds text. Control characters other than line ends and tabs are dropped.
    pub(crate) fn push_str(&mut self, text: &str) {
        for c in text.chars() {
            self.push(c);
        }
    }

    pub(crate) fn push(&mut self, c: char) {
        if c.is_control() && !matches!(c, '\n' | '\t') || c == '\u{feff}' {
            return;
        }
        match self.room.checked_sub(c.len_utf8()) {
            Some(room) if !self.is_truncated => {
                self.room = room;
                self.text.push(c);
            }
            _ => self.is_truncated = true,
        }
    }

    pub(crate) fn push_line_end(&mut self) {
        self.push('\n');
    }

    /// Whether the line holds something before this place.
    pub(crate) fn is_inside_line(&self) -> bool {
        !self.text.is_empty() && !self.text.ends_with(['\n', '\t', ' '])
    }

    /// Whether a cell of a table or an item of a list has just started.
    pub(crate) fn is_at_item_start(&self) -> bool {
        self.text.ends_with(['\t', ' '])
    }

    /// Ends the line, unless it is empty.
    pub(crate) fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.push('\n');
        }
    }

    /// Leaves an empty line, unless there is one.
    pub(crate) fn end_paragraph(&mut self) {
        self.end_line();
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.push('\n');
        }
    }

    /// Ends a cell of a table: the line ends of its paragraphs give way to a tab.
    pub(crate) fn end_cell(&mut self) {
        while self.text.len() > self.cell_start && self.text.ends_with('\n') {
            self.text.pop();
            self.room += 1;
        }
        self.push('\t');
        self.cell_start = self.text.len();
    }

    /// Ends a row of a table, or what stands before the table.
    pub(crate) fn end_row(&mut self) {
        self.end_line();
        self.cell_start = self.text.len();
    }

    /// Ends the page.
    pub(crate) fn end_page(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.cell_start = 0;
        match self.has_free_page() {
            true => self.pages.push(normalize(&text)),
            false => self.unread_pages += 1,
        }
    }

    /// Counts pages that are not read.
    pub(crate) fn skip_pages(&mut self, count: usize) {
        self.unread_pages += count;
    }

    /// The document of the pages that were ended.
    pub(crate) fn into_paged(self) -> DecodedDocument {
        let total_pages = self.pages.len() + self.unread_pages;
        DecodedDocument { pages: self.pages, total_pages, is_truncated: self.is_truncated }
    }

    /// The document of a text without pages, which is cut into some.
    pub(crate) fn into_flow(mut self) -> DecodedDocument {
        let text = normalize(&self.text);
        self.text.clear();
        let mut page_count = 0;
        for page in cut_into_pages(&text) {
            page_count += 1;
            if self.pages.len() < self.max_pages {
                self.pages.push(page.to_owned());
            }
        }
        DecodedDocument { pages: self.pages, total_pages: page_count, is_truncated: self.is_truncated }
    }
}

/// Cuts a text behind paragraphs; an empty text is one empty page.
fn cut_into_pages(text: &str) -> Vec<&str> {
    let (mut pages, mut start, mut chars) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        chars += 1;
        let end = at + c.len_utf8();
        if chars >= FLOW_PAGE_CHARS && c == '\n'
            || chars >= MAX_FLOW_PAGE_CHARS && c.is_whitespace()
            || chars >= 2 * MAX_FLOW_PAGE_CHARS
        {
            pages.push(text[start..end].trim_end());
            (start, chars) = (end, 0);
        }
    }
    if start < text.len() || pages.is_empty() {
        pages.push(text[start..].trim_end());
    }
    pages
}

/// Removes space at the end of lines, and all but one of successive empty lines.
fn normalize(text: &str) -> String {
    let mut normalized = String::with_capacity(text.len());
    let mut empty_lines = 0;
    for line in text.lines().map(str::trim_end) {
        match line.is_empty() {
            true => empty_lines += 1,
            false => {
                if !normalized.is_empty() {
                    normalized.push_str(if empty_lines > 0 { "\n\n" } else { "\n" });
                }
                normalized.push_str(line);
                empty_lines = 0;
            }
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_pages_is_cut_behind_paragraphs() {
        let paragraph = format!("{}\n", "word ".repeat(200));
        let mut writer = PageWriter::new(2);
        writer.push_str(&paragraph.repeat(10));
        let document = writer.into_flow();
        assert_eq!((document.pages.len(), document.total_pages, document.is_truncated), (2, 4, false));
        assert_eq!(document.pages[0].lines().count(), 3, "the paragraph that reaches the length belongs to the page");
        assert_eq!(cut_into_pages(&"й".repeat(30_000)).len(), 3, "a text without any end is cut anyway");
        assert_eq!(cut_into_pages(""), [""]);
    }

    #[test]
    fn text_beyond_the_limit_is_dropped() {
        let mut writer = PageWriter::new(5);
        writer.push_str(&"x".repeat(MAX_TEXT_BYTES - 1));
        assert!(!writer.is_full());
        writer.push('й');
        writer.push('y');
        assert!(writer.is_full());
        writer.end_page();
        let document = writer.into_paged();
        assert_eq!((document.pages[0].len(), document.is_truncated), (MAX_TEXT_BYTES - 1, true));
    }

    #[test]
    fn pages_beyond_the_limit_are_counted() {
        let mut writer = PageWriter::new(1);
        for page in ["one\r\n\u{0}\n\n\ntwo  \n", "three"] {
            writer.push_str(page);
            writer.end_page();
        }
        writer.skip_pages(3);
        let document = writer.into_paged();
        assert_eq!((document.pages.as_slice(), document.total_pages), (&["one\n\ntwo".to_owned()][..], 5));
    }
}
