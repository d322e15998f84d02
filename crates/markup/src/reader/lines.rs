//! The lines of a passage and what each is part of: paragraphs, tables, code.
//!
//! It needn't be right about everything, because the parser decides what is code. Where it is wrong, a mark may be read
//! as one that was not meant, and no character is lost.

use std::ops::Range;

use super::{
    html::{HtmlEnd, html_block},
    prefix::{LinePrefix, is_rule, read_prefix},
    tables::is_delimiter_row,
};

/// A line without its line break.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// Where it begins.
    pub(super) start: usize,
    /// Where its text begins, behind marks of quotations and lists.
    pub(super) text: usize,
    /// Where it ends.
    pub(super) end: usize,
    /// What it is.
    pub(super) kind: LineKind,
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineKind {
    /// Nothing but blanks and marks of quotations.
    Blank,
    /// Code, a fence, HTML, a rule: nothing in it is looked at.
    Opaque,
    /// The first line of a paragraph or an item, or a heading.
    First,
    /// A further line of the paragraph.
    Further,
    /// The headings of a table.
    TableHead,
    /// The line of dashes below them.
    TableDelimiter,
    /// A row of a table.
    TableRow,
}

/// The lines of a passage.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
    /// Where a block ends though CommonMark would continue it: before a table in a paragraph, before text behind a table
    /// or a quotation.
    pub(super) boundaries: Vec<usize>,
    /// Where everything to the end of the text is quoted.
    pub(super) quote_to_end: Option<usize>,
}

/// Code or HTML that is open: only a line that ends it, or what it is in, ends it.
struct OpenBlock {
    end: BlockEnd,
    quotes: usize,
    /// The column below which a line ends the list item that it is in.
    item_column: usize,
}

/// What ends it.
#[derive(Clone, Copy)]
enum BlockEnd {
    /// At least so many of the mark.
    Fence {
        mark: u8,
        length: usize,
    },
    Html(HtmlEnd),
}

struct LineReader<'text> {
    text: &'text str,
    lines: Lines,
    open: Option<OpenBlock>,
    /// The line before.
    previous: LinePrefix,
    /// The column of the text of the list item that a line may be in.
    item_column: usize,
    may_quote_to_end: bool,
}

/// Reads the lines of a passage, which must begin where no block is open.
pub(super) fn read_lines(text: &str, passage: Range<usize>, may_quote_to_end: bool) -> Lines {
    let mut reader = LineReader {
        text,
        lines: Lines::default(),
        open: None,
        previous: LinePrefix::default(),
        item_column: 0,
        may_quote_to_end,
    };
    let mut start = passage.start;
    while start < passage.end && reader.lines.quote_to_end.is_none() {
        let end = line_end(text, start, passage.end);
        reader.read_line(start, end, passage.end);
        start = end + 1;
    }
    reader.lines
}

/// Where the line that begins at `start` ends, without its line break.
fn line_end(text: &str, start: usize, end: usize) -> usize {
    text.as_bytes()[start..end].iter().position(|byte| *byte == b'\n').map_or(end, |newline| start + newline)
}

impl LineReader<'_> {
    fn read_line(&mut self, start: usize, end: usize, passage_end: usize) {
        let line = self.text[start..end].trim_end_matches('\r').as_bytes();
        if self.continues_open_block(start, line, end) {
            return;
        }
        let prefix = read_prefix(line);
        let text = &line[prefix.bytes..];
        if text.is_empty() && !prefix.has_item {
            return self.push(start, end, LineKind::Blank, prefix);
        }
        let is_continued = self.is_in(&[LineKind::First, LineKind::Further]) && !prefix.has_item;
        let is_unquoted = is_continued && self.previous.begins_with_quote && prefix.quotes < self.previous.quotes;
        if self.may_quote_to_end && line.starts_with(b">>> ") {
            self.lines.quote_to_end = Some(start);
            return self.lines.boundaries.push(start);
        }
        if prefix.has_item {
            self.item_column = prefix.item_column;
        } else if prefix.indent < self.item_column && !is_continued {
            self.item_column = 0;
        }
        if prefix.indent >= self.item_column + 4 {
            // Only text continues here, and what continues none is code.
            let kind = if is_continued { LineKind::Further } else { LineKind::Opaque };
            return self.push(start, end, kind, prefix);
        }
        let opened = opening_fence(text).or_else(|| html_block(text, is_continued).map(BlockEnd::Html));
        if let Some(block_end) = opened {
            let is_in_item = prefix.has_item || prefix.indent >= self.item_column;
            let item_column = if is_in_item { self.item_column } else { 0 };
            let is_closed = matches!(block_end, BlockEnd::Html(html) if html.is_in(text));
            self.open = (!is_closed).then_some(OpenBlock { end: block_end, quotes: prefix.quotes, item_column });
            return self.push(start, end, LineKind::Opaque, prefix);
        }
        if is_rule(text) && !(is_continued && is_heading_underline(text)) {
            return self.push(start, end, LineKind::Opaque, prefix);
        }
        let is_heading = is_heading(text);
        let in_table = self.is_in(&[LineKind::TableDelimiter, LineKind::TableRow]);
        if in_table && !prefix.has_item && !is_heading && prefix.quotes == self.previous.quotes {
            if text.contains(&b'|') {
                return self.push(start, end, LineKind::TableRow, prefix);
            }
            self.lines.boundaries.push(start);
        } else if self.is_table_head(text, &prefix, end, passage_end) {
            if is_continued && prefix.indent < 4 {
                self.lines.boundaries.push(start);
            }
            return self.push(start, end, LineKind::TableHead, prefix);
        } else if self.is_in(&[LineKind::TableHead]) {
            return self.push(start, end, LineKind::TableDelimiter, prefix);
        } else if is_unquoted && !is_heading {
            self.lines.boundaries.push(start);
        }
        let continues = is_continued && !is_heading && !self.after_heading() && prefix.quotes == self.previous.quotes;
        self.push(start, end, if continues { LineKind::Further } else { LineKind::First }, prefix);
    }

    fn push(&mut self, start: usize, end: usize, kind: LineKind, prefix: LinePrefix) {
        self.lines.lines.push(Line { start, text: start + prefix.bytes, end, kind });
        self.previous = prefix;
    }

    /// Whether the line before is of one of these kinds.
    fn is_in(&self, kinds: &[LineKind]) -> bool {
        self.lines.lines.last().is_some_and(|line| kinds.contains(&line.kind))
    }

    fn after_heading(&self) -> bool {
        self.lines.lines.last().is_some_and(|line| is_heading(&self.text.as_bytes()[line.text..line.end]))
    }

    /// Whether a line is part of the code or HTML that is open.
    fn continues_open_block(&mut self, start: usize, line: &[u8], end: usize) -> bool {
        let Some(open) = &self.open else { return false };
        let (mut at, mut quotes, mut column) = (0, 0, 0);
        while let Some(byte) = line.get(at).filter(|byte| matches!(byte, b' ' | b'\t' | b'>')) {
            match byte {
                b'>' if quotes < open.quotes => (quotes, column) = (quotes + 1, 0),
                b'>' => break,
                b'\t' => column += 4 - column % 4,
                _ => column += 1,
            }
            at += 1;
        }
        let text = &line[at..];
        let is_blank = text.is_empty();
        if quotes < open.quotes || (!is_blank && column < open.item_column && open.quotes == 0) {
            self.open = None;
            return false;
        }
        let ends = match open.end {
            BlockEnd::Fence { mark, length } => {
                let marks = text.iter().take_while(|byte| **byte == mark).count();
                marks >= length && text[marks..].iter().all(|byte| matches!(byte, b' ' | b'\t'))
            }
            BlockEnd::Html(HtmlEnd::BlankLine) => is_blank,
            BlockEnd::Html(html) => html.is_in(text),
        };
        if ends {
            self.open = None;
        }
        self.lines.lines.push(Line { start, text: start + at, end, kind: LineKind::Opaque });
        true
    }

    /// Whether a line has the headings of a table: the next line consists of dashes.
    fn is_table_head(&self, text: &[u8], prefix: &LinePrefix, end: usize, passage_end: usize) -> bool {
        if end + 1 >= passage_end || !text.contains(&b'|') || is_delimiter_row(text) {
            return false;
        }
        let next = line_end(self.text, end + 1, passage_end);
        let line = self.text[end + 1..next].trim_end_matches('\r').as_bytes();
        let below = read_prefix(line);
        below.quotes == prefix.quotes && !below.has_item && is_delimiter_row(&line[below.bytes..])
    }
}

fn opening_fence(text: &[u8]) -> Option<BlockEnd> {
    let mark = *text.first().filter(|mark| matches!(mark, b'`' | b'~'))?;
    let length = text.iter().take_while(|byte| **byte == mark).count();
    let is_fence = length >= 3 && (mark == b'~' || !text[length..].contains(&b'`'));
    is_fence.then_some(BlockEnd::Fence { mark, length })
}

fn is_heading(text: &[u8]) -> bool {
    let marks = text.iter().take(7).take_while(|byte| **byte == b'#').count();
    (1..7).contains(&marks) && text.get(marks).is_none_or(|byte| matches!(byte, b' ' | b'\t'))
}

fn is_heading_underline(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    text.first().is_some_and(|mark| matches!(mark, b'=' | b'-') && text.iter().all(|byte| byte == mark))
}
