//! Blocks that are no text: code and tables.

use std::{borrow::Cow, ops::Range};

use pulldown_cmark::{CodeBlockKind, Event, Parser, TagEnd};

use super::{
    super::frames::{CodeFrame, InlineFrame, InlineFrameKind, without_last_breaks},
    PassageReader, parser_options, tables,
};
use crate::tree::{Block, BlockKind, Cell, CodeBlock, TableBlock, TableRow};

impl<'text> CodeFrame<'text> {
    pub(super) fn push(&mut self, range: Range<usize>, text: Cow<'text, str>) {
        match self.lines.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.lines.push(range),
        }
        self.text.push(text);
    }

    fn finish(mut self, source: &'text str) -> CodeBlock<'text> {
        let length: usize = self.text.iter().map(|text| text.len()).sum();
        let mut text = match self.lines.as_slice() {
            [] => Cow::Borrowed(""),
            [lines] if lines.len() == length => Cow::Borrowed(&source[lines.clone()]),
            _ => Cow::Owned(self.text.concat()),
        };
        match &mut text {
            Cow::Borrowed(text) => *text = text.strip_suffix('\n').unwrap_or(text),
            Cow::Owned(text) => text.truncate(text.strip_suffix('\n').unwrap_or(text).len()),
        }
        if let Some(last) = self.lines.last_mut()
            && source[last.clone()].ends_with('\n')
        {
            last.end -= 1;
        }
        CodeBlock { info: self.info, text, lines: self.lines }
    }
}

impl<'text> PassageReader<'_, 'text> {
    pub(super) fn open_code(&mut self, kind: &CodeBlockKind<'_>, range: Range<usize>) -> bool {
        self.end_implicit_paragraph();
        let (info, start) = match kind {
            CodeBlockKind::Fenced(info) => (self.mask.unmask_label(info), range.start),
            CodeBlockKind::Indented => {
                let before = self.source[..range.start].bytes().rev();
                let indent = before.take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                (Cow::Borrowed(""), range.start - indent)
            }
        };
        self.code = Some(CodeFrame { info, range: start..range.end, text: Vec::new(), lines: Vec::new() });
        true
    }

    pub(super) fn end_code(&mut self) {
        if let Some(code) = self.code.take() {
            let range = code.range.clone();
            let code = code.finish(self.source);
            self.push_block(range, BlockKind::Code(code));
        }
    }

    /// Ends a row, and reads the cells that the parser leaves out because they have no heading.
    pub(super) fn end_row(&mut self, range: Range<usize>) {
        let range = self.trimmed(range);
        let row = &self.mask.text()[range.start - self.window_start..range.end - self.window_start];
        let written = tables::cells(row.as_bytes(), false);
        let Some(table) = &mut self.table else { return };
        let mut cells = std::mem::take(&mut table.cells);
        for cell in written.iter().skip(cells.len()) {
            cells.push(self.read_cell(range.start + cell.start..range.start + cell.end));
        }
        if let Some(table) = &mut self.table {
            table.rows.push(TableRow { range, cells });
        }
    }

    /// Reads a cell by itself.
    fn read_cell(&mut self, range: Range<usize>) -> Cell<'text> {
        let cell = &self.source[range.clone()];
        let start = range.start + cell.len() - cell.trim_start().len();
        let range = start..start + cell.trim().len();
        self.next_note = self.notes.partition_point(|note| note.range.end <= range.start);
        self.inlines.push(InlineFrame::new(InlineFrameKind::Cell, range.start));
        let text = &self.mask.text()[range.start - self.window_start..range.end - self.window_start];
        let depth = self.opened.len();
        for (event, at) in Parser::new_ext(text, parser_options()).into_offset_iter() {
            let at = at.start + range.start..at.end + range.start;
            match event {
                Event::Start(tag) if is_span(&tag.to_end()) => {
                    let is_opened = self.open_element(tag, at);
                    self.opened.push(is_opened);
                }
                Event::End(tag) if is_span(&tag) => {
                    if self.opened.len() > depth && self.opened.pop() == Some(true) {
                        self.close_element(tag, at);
                    }
                }
                Event::Start(_) | Event::End(_) | Event::Rule | Event::TaskListMarker(_) => {}
                inline => self.handle_event(inline, at),
            }
        }
        let content = self.inlines.pop().map(|frame| frame.finish(self.source).2).unwrap_or_default();
        Cell { range, content: without_last_breaks(content) }
    }

    pub(super) fn end_table(&mut self, range: Range<usize>) {
        let Some(table) = self.table.take() else { return };
        let mut rows = table.rows.into_iter();
        let Some(head) = rows.next() else { return };
        let rows: Vec<_> = rows.collect();
        let end = rows.first().map_or(range.end, |row| row.range.start);
        let between = &self.source[head.range.end..end];
        let start = head.range.end + between.find(['|', ':', '-']).unwrap_or(0);
        let length = self.source[start..end].find(['\n', '\r']).unwrap_or(end - start);
        let delimiter = self.trimmed(start..start + length);
        let table = TableBlock { alignments: table.alignments, head, delimiter, rows };
        self.push_block(range, BlockKind::Table(table));
    }
}

fn is_span(tag: &TagEnd) -> bool {
    matches!(tag, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image)
}

impl Block<'_> {
    /// Whether the block is code that has no fence.
    #[must_use]
    pub fn is_indented_code(&self, source: &str) -> bool {
        matches!(self.kind, BlockKind::Code(_)) && source[self.range.clone()].starts_with([' ', '\t'])
    }
}
