//! The lines of a passage and what each is part of: paragraphs, tables, code.
//!
//! It needn't be right about everything, because the parser decides what is code. Where it is wrong, a mark may be read
//! as one that was not meant, and no character is lost.

use std::ops::Range;

use super::{
    html::{HtmlEnd, html_block},
    inlines::DELIMITERS,
    prefix::{LinePrefix, indent_in_item, is_rule, read_prefix},
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
    /// Whether a mark may be in it.
    pub(super) has_marks: bool,
    /// How many quotations it is in.
    pub(super) quotes: usize,
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
    /// What may be the line below a heading; or else it is part of a formula.
    Underline,
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

struct LineScanner<'text> {
    text: &'text str,
    lines: Lines,
    open: Option<OpenBlock>,
    /// The line before.
    previous: LinePrefix,
    /// The columns of the texts of the items that a line may be in, outermost first.
    items: Vec<usize>,
    may_quote_to_end: bool,
    /// The end of the line that is read.
    found: LineEnd,
}

/// Reads the lines of a passage, which must begin where no block is open.
pub(super) fn read_lines(text: &str, passage: Range<usize>, may_quote_to_end: bool) -> Lines {
    let mut reader = LineScanner {
        text,
        lines: Lines::default(),
        open: None,
        previous: LinePrefix::default(),
        items: Vec::new(),
        may_quote_to_end,
        found: LineEnd::default(),
    };
    let mut start = passage.start;
    while start < passage.end && reader.lines.quote_to_end.is_none() {
        reader.found = find_line_end(text, start, passage.end);
        let end = reader.found.end;
        reader.read_line(start, end, passage.end);
        start = end + 1;
    }
    reader.lines
}

/// Where a line ends, and what is in it.
#[derive(Debug, Clone, Copy, Default)]
struct LineEnd {
    /// Without its line break.
    end: usize,
    has_marks: bool,
    has_pipe: bool,
}

/// What a byte may be: the mark of a span, a pipe, or the end of a line.
const BYTE_CLASSES: [u8; 256] = byte_classes();
const MARK: u8 = 1;
const PIPE: u8 = 2;
const NEWLINE: u8 = 4;

const fn byte_classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut index = 0;
    while index < DELIMITERS.len() {
        classes[DELIMITERS[index] as usize] = MARK;
        index += 1;
    }
    classes[b'|' as usize] = MARK | PIPE;
    classes[b'\n' as usize] = NEWLINE;
    classes
}

fn find_line_end(text: &str, start: usize, end: usize) -> LineEnd {
    let mut classes = 0;
    let newline = text.as_bytes()[start..end].iter().position(|byte| {
        classes |= BYTE_CLASSES[usize::from(*byte)];
        classes & NEWLINE != 0
    });
    LineEnd {
        end: newline.map_or(end, |newline| start + newline),
        has_marks: classes & MARK != 0,
        has_pipe: classes & PIPE != 0,
    }
}

impl LineScanner<'_> {
    fn read_line(&mut self, start: usize, end: usize, passage_end: usize) {
        let line = self.text[start..end].trim_end_matches('\r').as_bytes();
        if self.continues_open_block(start, line, end) {
            return;
        }
        let prefix = read_prefix(line, &self.items);
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
            self.enter_items(&prefix);
        } else if !is_continued {
            self.leave_item(&prefix);
        }
        if !prefix.has_item && indent_in_item(prefix.indent, &self.items) >= 4 {
            // Only text continues here, and what continues none is code.
            let kind = match self.lines.lines.last().map(|line| line.kind) {
                Some(LineKind::TableDelimiter | LineKind::TableRow) if !prefix.has_item => LineKind::TableRow,
                _ if is_continued => LineKind::Further,
                _ => LineKind::Opaque,
            };
            return self.push(start, end, kind, prefix);
        }
        let html = || html_block(text, is_continued).filter(|_| !is_line_break(text));
        let opened = opening_fence(text).or_else(|| html().map(BlockEnd::Html));
        if let Some(block_end) = opened {
            if matches!(block_end, BlockEnd::Html(_)) && self.is_in(&[LineKind::TableDelimiter, LineKind::TableRow]) {
                // The parser would take some tags for a row.
                self.lines.boundaries.push(start);
            }
            self.leave_item(&prefix);
            let item_column = self.items.last().copied().unwrap_or(0);
            let is_closed = matches!(block_end, BlockEnd::Html(html) if html.is_in(text));
            self.open = (!is_closed).then_some(OpenBlock { end: block_end, quotes: prefix.quotes, item_column });
            return self.push(start, end, LineKind::Opaque, prefix);
        }
        if is_line_break(text) && !is_continued {
            // CommonMark would take what is behind it for HTML, and a table would take it for a row.
            if self.is_in(&[LineKind::TableDelimiter, LineKind::TableRow]) {
                self.lines.boundaries.push(start);
            }
            if end + 1 < passage_end && !prefix.has_item {
                self.lines.boundaries.push(end + 1);
            }
            return self.push(start, end, LineKind::Opaque, prefix);
        }
        if is_continued && is_heading_underline(text) {
            return self.push(start, end, LineKind::Underline, prefix);
        }
        if is_rule(text) || is_heading(text) {
            self.leave_item(&prefix);
        }
        if is_rule(text) {
            return self.push(start, end, LineKind::Opaque, prefix);
        }
        let is_heading = is_heading(text);
        let in_table = self.is_in(&[LineKind::TableDelimiter, LineKind::TableRow]);
        if in_table && !prefix.has_item && !is_heading && prefix.quotes == self.previous.quotes {
            if self.found.has_pipe {
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

    /// Ends the items before a block that is not indented like their text.
    fn leave_item(&mut self, prefix: &LinePrefix) {
        while !prefix.has_item && self.items.last().is_some_and(|column| *column > prefix.indent) {
            self.items.pop();
        }
    }

    fn enter_items(&mut self, prefix: &LinePrefix) {
        while self.items.last().is_some_and(|column| *column > prefix.mark_column) {
            self.items.pop();
        }
        self.items.extend(prefix.item_columns.iter().filter(|column| **column > 0));
    }

    fn push(&mut self, start: usize, end: usize, kind: LineKind, prefix: LinePrefix) {
        let has_marks = self.found.has_marks;
        self.lines.lines.push(Line { start, text: start + prefix.bytes, end, kind, has_marks, quotes: prefix.quotes });
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
        if quotes < open.quotes || (!is_blank && column < open.item_column) {
            self.open = None;
            return false;
        }
        let ends = match open.end {
            BlockEnd::Fence { mark, length } => {
                let marks = text.iter().take_while(|byte| **byte == mark).count();
                column < open.item_column + 4
                    && marks >= length
                    && text[marks..].iter().all(|byte| matches!(byte, b' ' | b'\t'))
            }
            BlockEnd::Html(HtmlEnd::BlankLine) => is_blank,
            BlockEnd::Html(html) => html.is_in(text),
        };
        if ends {
            self.open = None;
        }
        self.lines.lines.push(Line { start, text: start + at, end, kind: LineKind::Opaque, has_marks: false, quotes });
        true
    }

    /// Whether a line has the headings of a table: the next line consists of dashes.
    fn is_table_head(&self, text: &[u8], prefix: &LinePrefix, end: usize, passage_end: usize) -> bool {
        if end + 1 >= passage_end || !self.found.has_pipe || is_delimiter_row(text) {
            return false;
        }
        let next = find_line_end(self.text, end + 1, passage_end).end;
        let line = self.text[end + 1..next].trim_end_matches('\r').as_bytes();
        let below = read_prefix(line, &self.items);
        below.quotes == prefix.quotes && !below.has_item && is_delimiter_row(&line[below.bytes..])
    }
}

fn opening_fence(text: &[u8]) -> Option<BlockEnd> {
    let mark = *text.first().filter(|mark| matches!(mark, b'`' | b'~'))?;
    let length = text.iter().take_while(|byte| **byte == mark).count();
    let is_fence = length >= 3 && (mark == b'~' || !text[length..].contains(&b'`'));
    is_fence.then_some(BlockEnd::Fence { mark, length })
}

fn is_line_break(text: &[u8]) -> bool {
    text.starts_with(b"<") && super::builder::is_line_break(std::str::from_utf8(text).unwrap_or_default())
}

fn is_heading(text: &[u8]) -> bool {
    let marks = text.iter().take(7).take_while(|byte| **byte == b'#').count();
    (1..7).contains(&marks) && text.get(marks).is_none_or(|byte| matches!(byte, b' ' | b'\t'))
}

fn is_heading_underline(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    text.first().is_some_and(|mark| matches!(mark, b'=' | b'-') && text.iter().all(|byte| byte == mark))
}
