//! The text of blocks: spans within each other, and what the scan has noted in place of what the parser reports.

use std::{borrow::Cow, ops::Range};

use super::{
    super::frames::{InlineFrame, InlineFrameKind, paragraph, without_last_breaks, without_last_lines},
    BlockFrameKind, NoteKind, PassageReader,
};
use crate::{
    tex,
    tree::{BlockKind, Cell, Inline, InlineKind, TexFormula},
};

impl<'text> PassageReader<'_, 'text> {
    /// Opens a block of text.
    pub(super) fn open_text(&mut self, kind: InlineFrameKind<'text>, start: usize) -> bool {
        self.end_implicit_paragraph();
        self.inlines.push(InlineFrame::new(kind, start));
        true
    }

    /// Opens a span within a block of text.
    pub(super) fn open_span(&mut self, kind: InlineFrameKind<'text>, start: usize) -> bool {
        self.text_frame(start);
        self.inlines.push(InlineFrame::new(kind, start));
        true
    }

    /// The innermost frame. Of an item without blank lines, its first text opens the paragraph.
    fn text_frame(&mut self, start: usize) -> &mut InlineFrame<'text> {
        if self.inlines.is_empty() {
            self.inlines.push(InlineFrame::new(InlineFrameKind::Paragraph, start));
        }
        let last = self.inlines.len() - 1;
        &mut self.inlines[last]
    }

    /// Ends the paragraph of an item without blank lines.
    pub(super) fn end_implicit_paragraph(&mut self) {
        while let Some(frame) = self.inlines.last() {
            let end = frame.content.last().map_or(frame.start, |inline| inline.range.end);
            let range = frame.start..end;
            self.end_text(range);
        }
    }

    /// Ends the innermost frame.
    pub(super) fn end_text(&mut self, range: Range<usize>) {
        let Some(frame) = self.inlines.pop() else { return };
        let (kind, start, content) = frame.finish(self.source);
        let range = start..range.end;
        match kind {
            InlineFrameKind::Paragraph => self.push_leaf(range, without_last_breaks(content), paragraph),
            InlineFrameKind::Html => self.push_leaf(range, without_last_lines(content), BlockKind::Html),
            InlineFrameKind::Heading { level } => self.push_heading(range, level, content),
            InlineFrameKind::Cell => self.push_cell(range, without_last_breaks(content)),
            InlineFrameKind::Emphasis => self.push_inline(range, InlineKind::Emphasis(content)),
            InlineFrameKind::Strong => self.push_inline(range, InlineKind::Strong(content)),
            InlineFrameKind::Struck => self.push_inline(range, InlineKind::Struck(content)),
            InlineFrameKind::Link { address } => self.push_inline(range, InlineKind::Link { address, content }),
            InlineFrameKind::Image { address } => self.push_inline(range, InlineKind::Image { address, content }),
            InlineFrameKind::AngleAddress { address } => {
                let text = Cow::Borrowed(self.source.get(range.start + 1..range.end - 1).unwrap_or_default());
                self.push_inline(range, InlineKind::Address { text, address });
            }
        }
    }

    fn push_leaf(
        &mut self,
        range: Range<usize>,
        content: Vec<Inline<'text>>,
        kind: impl FnOnce(Vec<Inline<'text>>) -> BlockKind<'text>,
    ) {
        if !content.is_empty() {
            self.push_block(range, kind(content));
        }
    }

    /// A heading; or, where a line of dashes below whole sentences made it one, the sentences and a rule.
    fn push_heading(&mut self, range: Range<usize>, level: u8, content: Vec<Inline<'text>>) {
        let is_underlined = level == 2 && !self.source[range.clone()].starts_with('#');
        let end = content.last().map_or(range.start, |inline| inline.range.end);
        let is_sentence = self.source[range.start..end].trim_end().ends_with(['.', '!', '?', ':', '。', '！', '？'])
            || self.source[range.start..end].contains('\n');
        if is_underlined && is_sentence {
            let underline = self.source[end..range.end].find('-').map_or(range.end, |at| end + at);
            self.push_block(range.start..end, BlockKind::Paragraph(content));
            return self.push_block(underline..range.end, BlockKind::Rule);
        }
        self.push_block(range, BlockKind::Heading { level, content: without_last_breaks(content) });
    }

    fn push_cell(&mut self, range: Range<usize>, content: Vec<Inline<'text>>) {
        let cell = &self.source[range.clone()];
        let start = range.start + cell.len() - cell.trim_start().len();
        let cell = Cell { range: start..start + cell.trim().len(), content };
        if let Some(table) = &mut self.table {
            table.cells.push(cell);
        }
    }

    /// Adds a piece of text that the parser has made of a range.
    pub(super) fn push_inline(&mut self, range: Range<usize>, kind: InlineKind<'text>) {
        self.text_frame(range.start).content.push(Inline { range, kind });
    }

    pub(super) fn push_break(&mut self, range: Range<usize>, is_hard: bool) {
        let bytes = self.source.as_bytes();
        let ends_line = bytes[range.clone()].ends_with(b"\n");
        let prefix = if ends_line { prefix_length(&bytes[range.end..], self.quotes()) } else { 0 };
        let range = range.start..range.end + prefix;
        let frame = self.text_frame(range.start);
        if let Some(Inline { range: last, kind: InlineKind::Break { is_hard: true } }) = frame.content.last_mut()
            && ends_line
            && last.end == range.start
            && bytes[last.clone()].ends_with(b">")
        {
            // `<br>` at the end of a line.
            last.end = range.end;
            return;
        }
        // The break before it went on over the indentation.
        let last_end = frame.content.last().map_or(range.start, |inline| inline.range.end);
        let range = range.start.max(last_end)..range.end.max(last_end);
        if range.is_empty() {
            return;
        }
        if !frame.content.is_empty() || !matches!(frame.kind, InlineFrameKind::Paragraph | InlineFrameKind::Html) {
            frame.content.push(Inline { range, kind: InlineKind::Break { is_hard } });
        }
    }

    /// Adds a line of a block of HTML.
    pub(super) fn push_html(&mut self, range: Range<usize>) {
        let line = self.source[range.clone()].trim_end_matches(['\n', '\r']);
        let end = range.start + line.len();
        if super::is_line_break(line) {
            return self.push_break(range, true);
        }
        let source = self.source;
        let frame = self.text_frame(range.start);
        if let Some(Inline { range: last, kind: InlineKind::Break { .. } }) = frame.content.last_mut() {
            last.end = range.start;
        }
        frame.push_source(range.start..end, source);
        if end < range.end {
            self.push_break(end..range.end, false);
        }
    }

    /// Adds a tag, which may go over several lines.
    pub(super) fn push_lines(&mut self, range: Range<usize>) {
        let source = self.source;
        let mut start = range.start;
        while let Some(newline) = source[start..range.end].find('\n') {
            let end = start + newline;
            self.text_frame(start).push_source(start..end, source);
            self.push_break(end..end + 1, false);
            start = (end + 1 + prefix_length(&source.as_bytes()[end + 1..], self.quotes())).min(range.end);
        }
        self.text_frame(start).push_source(start..range.end, source);
    }

    /// Adds code within a line. Line breaks in it are blanks.
    pub(super) fn push_code(&mut self, range: Range<usize>) {
        let source = &self.source[range.clone()];
        let ticks = source.len() - source.trim_start_matches('`').len();
        let code = source.get(ticks..source.len() - ticks).unwrap_or_default();
        let mut code =
            if code.contains('\n') { Cow::Owned(joined_lines(code, self.quotes())) } else { Cow::Borrowed(code) };
        if self.table.is_some() && code.contains("\\|") {
            code = Cow::Owned(code.replace("\\|", "|"));
        }
        let is_padded = code.starts_with(' ') && code.ends_with(' ') && !code.trim_matches(' ').is_empty();
        if is_padded {
            code = match code {
                Cow::Borrowed(code) => Cow::Borrowed(&code[1..code.len() - 1]),
                Cow::Owned(code) => Cow::Owned(code[1..code.len() - 1].to_owned()),
            };
        }
        self.push_inline(range, InlineKind::Code(code));
    }

    /// Adds text, with what the scan has noted in it.
    pub(super) fn push_text(&mut self, range: Range<usize>, text: Cow<'text, str>) {
        let mut start = range.start.max(self.noted_to);
        if start >= range.end {
            return;
        }
        if let Cow::Owned(text) = text {
            return self.push_inline(range, InlineKind::Text(Cow::Owned(text)));
        }
        let source = self.source;
        while let Some(note) = self.notes.get(self.next_note) {
            if note.range.start >= range.end {
                break;
            }
            self.next_note += 1;
            // What begins in code or in an address is no note.
            if note.range.start < start {
                continue;
            }
            let before = start..note.range.start;
            self.text_frame(before.start).push_source(before, source);
            start = self.push_note(&note.range, &note.kind);
        }
        if start < range.end {
            self.text_frame(start).push_source(start..range.end, source);
        }
    }

    /// Adds what was noted, and returns where the text continues.
    fn push_note(&mut self, range: &Range<usize>, kind: &NoteKind) -> usize {
        let source = self.source;
        match kind {
            NoteKind::SpoilerStart => self.text_frame(range.start).open_spoiler(range.clone(), source),
            NoteKind::SpoilerEnd => self.text_frame(range.start).close_spoiler(range.clone(), source),
            NoteKind::Address if self.is_in_link() => {
                self.text_frame(range.start).push_source(range.clone(), source);
            }
            NoteKind::Address => {
                let text = without_escapes(&source[range.clone()]);
                self.push_inline(range.clone(), InlineKind::Address { address: text.clone(), text });
            }
            NoteKind::Formula { tex, is_display } => {
                let formula = self.formula(range, tex, *is_display);
                self.push_inline(range.clone(), InlineKind::Formula(Box::new(formula)));
            }
        }
        self.noted_to = range.end;
        range.end
    }

    /// How many quotations are open.
    fn quotes(&self) -> usize {
        self.blocks.iter().filter(|frame| matches!(frame.kind, BlockFrameKind::Quote)).count()
    }

    fn is_in_link(&self) -> bool {
        let is_link = |frame: &InlineFrame<'_>| {
            matches!(frame.kind, InlineFrameKind::Link { .. } | InlineFrameKind::Image { .. })
        };
        self.inlines.iter().any(is_link)
    }

    fn formula(&self, range: &Range<usize>, tex: &Range<usize>, is_display: bool) -> TexFormula<'text> {
        let quotes = self.quotes();
        let source = without_prefixes(&self.source[range.clone()], quotes);
        let tex = match without_prefixes(&self.source[tex.clone()], quotes) {
            Cow::Borrowed(tex) => Cow::Borrowed(tex.trim()),
            Cow::Owned(tex) => Cow::Owned(tex.trim().to_owned()),
        };
        let unicode = tex::to_unicode(&tex);
        TexFormula { source, tex, is_display, unicode }
    }
}

/// The length of the indentation and the marks of so many quotations before a line.
fn prefix_length(line: &[u8], quotes: usize) -> usize {
    let (mut left, mut indent) = (quotes, 0);
    let is_prefix = |byte: &&u8| match byte {
        b' ' | b'\t' => {
            indent += if **byte == b'\t' { 4 } else { 1 };
            true
        }
        b'>' if left > 0 && indent < 4 => {
            (left, indent) = (left - 1, 0);
            true
        }
        _ => false,
    };
    line.iter().take_while(is_prefix).count()
}

/// The lines of code within a text as one, without what is before each of them.
fn joined_lines(code: &str, quotes: usize) -> String {
    let mut lines = code.split('\n');
    let mut joined = lines.next().unwrap_or_default().trim_end_matches('\r').to_owned();
    for line in lines {
        joined.push(' ');
        joined.push_str(line[prefix_length(line.as_bytes(), quotes)..].trim_end_matches('\r'));
    }
    joined
}

/// An address without backslashes before its marks.
fn without_escapes(address: &str) -> Cow<'_, str> {
    if !address.contains('\\') {
        return Cow::Borrowed(address);
    }
    let mut text = String::with_capacity(address.len());
    let mut characters = address.chars().peekable();
    while let Some(c) = characters.next() {
        if c != '\\' || !characters.peek().is_some_and(char::is_ascii_punctuation) {
            text.push(c);
        } else {
            text.extend(characters.next());
        }
    }
    Cow::Owned(text)
}

/// Lines without the indentation and the marks of the quotation that they are in.
fn without_prefixes(lines: &str, quotes: usize) -> Cow<'_, str> {
    if !lines.contains('\n') {
        return Cow::Borrowed(lines);
    }
    let mut text = String::with_capacity(lines.len());
    for (index, line) in lines.split('\n').enumerate() {
        if index > 0 {
            text.push('\n');
        }
        let line = line.trim_end_matches('\r');
        let prefix = if index > 0 { prefix_length(line.as_bytes(), quotes) } else { 0 };
        text.push_str(&line[prefix..]);
    }
    Cow::Owned(text)
}
