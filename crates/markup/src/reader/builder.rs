//! Builds the tree of a passage from the events of the parser and the notes of the scan.

mod leaves;
mod text;

use std::ops::Range;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, LinkType, OffsetIter, Options, Parser, Tag, TagEnd};

use super::{
    frames::{BlockFrame, BlockFrameKind, CodeFrame, InlineFrame, InlineFrameKind, TableFrame},
    has_blank_line,
    mask::Mask,
    notes::{Note, NoteKind},
    prefix::item_mark,
    scan::Scan,
    siblings::join_siblings,
    tables,
};
use crate::tree::{Block, BlockKind, ColumnAlignment, InlineKind, ListItem};

/// How deep blocks and spans are nested. What is deeper is read without its marks.
const MAX_DEPTH: usize = 32;

/// A block at the end of a passage that might go on behind it.
#[derive(Debug)]
pub(super) struct OpenTail {
    /// Where it begins.
    pub(super) at: usize,
    /// How many blocks are before it.
    pub(super) blocks: usize,
}

/// Reads a passage of a window.
pub(super) struct PassageReader<'scan, 'text> {
    source: &'text str,
    mask: &'scan Mask<'text>,
    notes: &'scan [Note],
    /// Where the window begins in the source.
    window_start: usize,
    /// Where the passage begins.
    base: usize,
    next_note: usize,
    /// Up to where a note has taken the place of what the parser reports.
    noted_to: usize,
    blocks: Vec<BlockFrame<'text>>,
    inlines: Vec<InlineFrame<'text>>,
    code: Option<CodeFrame<'text>>,
    table: Option<TableFrame<'text>>,
    /// For each element of the parser that is open, whether a frame was opened for it.
    opened: Vec<bool>,
    last_end: usize,
}

fn parser_options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS | Options::ENABLE_FOOTNOTES
}

impl<'scan, 'text> PassageReader<'scan, 'text> {
    pub(super) fn new(source: &'text str, scan: &'scan Scan<'text>, window_start: usize, last_end: usize) -> Self {
        Self {
            source,
            mask: &scan.mask,
            notes: &scan.notes,
            window_start,
            base: 0,
            next_note: 0,
            noted_to: 0,
            blocks: Vec::new(),
            inlines: Vec::new(),
            code: None,
            table: None,
            opened: Vec::new(),
            last_end,
        }
    }

    /// Reads a passage, which must begin where no block is open, and adds its blocks.
    ///
    /// Returns the last block if the text behind the passage might belong to it.
    pub(super) fn read(&mut self, passage: Range<usize>, blocks: &mut Vec<Block<'text>>) -> Option<OpenTail> {
        let last_end = blocks.last().map_or(self.last_end, |block| block.range.end);
        let root =
            BlockFrame { kind: BlockFrameKind::Root, start: passage.start, blocks: std::mem::take(blocks), last_end };
        self.blocks.push(root);
        self.base = passage.start;
        self.next_note = self.notes.partition_point(|note| note.range.end <= passage.start);
        let mut tail = None;
        for (event, range) in self.events(passage.clone()) {
            let range = range.start + passage.start..range.end + passage.start;
            if let Event::Start(tag) = &event
                && self.opened.is_empty()
            {
                let may_continue = matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_)) | Tag::HtmlBlock);
                let blocks = self.blocks.first().map_or(0, |root| root.blocks.len());
                tail = (may_continue && range.end == passage.end).then_some(OpenTail { at: range.start, blocks });
            }
            self.handle_event(event, range);
        }
        self.end_implicit_paragraph();
        if let Some(root) = self.blocks.pop() {
            *blocks = root.blocks;
        }
        tail
    }

    fn events(&self, passage: Range<usize>) -> OffsetIter<'scan, pulldown_cmark::DefaultBrokenLinkCallback> {
        let text = &self.mask.text()[passage.start - self.window_start..passage.end - self.window_start];
        Parser::new_ext(text, parser_options()).into_offset_iter()
    }

    fn handle_event(&mut self, event: Event<'scan>, range: Range<usize>) {
        match event {
            Event::Start(tag) => {
                let is_opened = self.open_element(tag, range);
                self.opened.push(is_opened);
            }
            Event::End(tag) => {
                if self.opened.pop() == Some(true) {
                    self.close_element(tag, range);
                }
            }
            // A note has taken the place of what the parser sees here.
            Event::Code(_)
            | Event::SoftBreak
            | Event::HardBreak
            | Event::InlineHtml(_)
            | Event::FootnoteReference(_)
                if range.start < self.noted_to => {}
            Event::Text(text) if self.code.is_some() => {
                let text = self.mask.unmask(&text);
                if let Some(code) = &mut self.code {
                    code.push(range, text);
                }
            }
            Event::Text(text) => {
                let text = self.mask.unmask(&text);
                self.push_text(range, text);
            }
            Event::Code(_) => self.push_code(range),
            Event::Html(_) => self.push_html(range),
            Event::InlineHtml(html) if is_line_break(&html) => self.push_break(range, true),
            Event::InlineHtml(_) => self.push_lines(range),
            Event::SoftBreak => self.push_break(range, false),
            Event::HardBreak => self.push_break(range, true),
            Event::Rule => self.push_block(range, BlockKind::Rule),
            Event::TaskListMarker(done) => self.mark_task(done),
            Event::FootnoteReference(label) => {
                let label = self.mask.unmask_label(&label);
                self.push_inline(range, InlineKind::FootnoteReference(label));
            }
            // The parser looks for no formulas: the scan has found them.
            Event::InlineMath(text) | Event::DisplayMath(text) => {
                let text = self.mask.unmask(&text);
                self.push_text(range, text);
            }
        }
    }

    /// Opens a frame; `false` if the element has none.
    fn open_element(&mut self, tag: Tag<'scan>, range: Range<usize>) -> bool {
        let start = range.start;
        let is_too_deep = self.blocks.len() + self.inlines.len() >= MAX_DEPTH;
        match tag {
            Tag::Paragraph => self.open_text(InlineFrameKind::Paragraph, start),
            Tag::Heading { level, .. } => self.open_text(InlineFrameKind::Heading { level: level as u8 }, start),
            Tag::HtmlBlock => self.open_text(InlineFrameKind::Html, start),
            Tag::CodeBlock(kind) => self.open_code(&kind, range),
            Tag::Table(alignments) => {
                self.end_implicit_paragraph();
                let alignments = alignments.into_iter().map(column_alignment).collect();
                self.table = Some(TableFrame { alignments, rows: Vec::new(), cells: Vec::new() });
                true
            }
            Tag::TableHead | Tag::TableRow => true,
            Tag::TableCell => self.open_text(InlineFrameKind::Cell, start),
            Tag::Item => match self.blocks.last() {
                Some(BlockFrame { kind: BlockFrameKind::List { .. }, .. }) => self.open_item(range),
                _ => false,
            },
            Tag::List(_) if self.blocks.len() + 2 >= MAX_DEPTH => false,
            _ if is_too_deep => false,
            Tag::BlockQuote(_) => self.open_block(BlockFrameKind::Quote, start),
            Tag::List(first) => self.open_block(BlockFrameKind::List { next_number: first, items: Vec::new() }, start),
            Tag::FootnoteDefinition(label) => {
                let label = self.mask.unmask_label(&label);
                self.open_block(BlockFrameKind::Footnote { label }, start)
            }
            Tag::Emphasis => self.open_span(InlineFrameKind::Emphasis, start),
            Tag::Strong => self.open_span(InlineFrameKind::Strong, start),
            Tag::Strikethrough => self.open_span(InlineFrameKind::Struck, start),
            Tag::Link { link_type, dest_url, .. } => {
                let address = self.mask.unmask_label(&dest_url);
                self.open_span(
                    match link_type {
                        LinkType::Autolink => InlineFrameKind::AngleAddress { address },
                        LinkType::Email => {
                            InlineFrameKind::AngleAddress { address: format!("mailto:{address}").into() }
                        }
                        _ => InlineFrameKind::Link { address },
                    },
                    start,
                )
            }
            Tag::Image { dest_url, .. } => {
                let address = self.mask.unmask_label(&dest_url);
                self.open_span(InlineFrameKind::Image { address }, start)
            }
            _ => false,
        }
    }

    fn close_element(&mut self, tag: TagEnd, range: Range<usize>) {
        match tag {
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::Table => self.end_table(range),
            TagEnd::TableHead | TagEnd::TableRow => self.end_row(range),
            TagEnd::BlockQuote(_) | TagEnd::List(_) | TagEnd::Item | TagEnd::FootnoteDefinition => {
                self.end_block(range)
            }
            _ => self.end_text(range),
        }
    }

    fn open_block(&mut self, kind: BlockFrameKind<'text>, start: usize) -> bool {
        self.end_implicit_paragraph();
        let rest = &self.source.as_bytes()[start..];
        let indent = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.blocks.push(BlockFrame { kind, start: start + indent, blocks: Vec::new(), last_end: 0 });
        true
    }

    fn open_item(&mut self, range: Range<usize>) -> bool {
        self.end_implicit_paragraph();
        let source = self.source;
        let Some(BlockFrame { kind: BlockFrameKind::List { next_number, items }, .. }) = self.blocks.last_mut() else {
            return false;
        };
        let number = *next_number;
        *next_number = number.map(|number| number.saturating_add(1));
        let last_end = items.last().map(|item| item.range.end);
        let blank_before = last_end.is_some_and(|end| has_blank_line(source.get(end..range.start).unwrap_or_default()));
        let item = &source[range.clone()];
        let start = range.start + item.len() - item.trim_start().len();
        let mark = start..start + item_mark(&source.as_bytes()[start..range.end]);
        self.open_block(BlockFrameKind::Item { mark, number, blank_before, task: None }, start)
    }

    fn end_block(&mut self, range: Range<usize>) {
        self.end_implicit_paragraph();
        let Some(mut frame) = self.blocks.pop() else { return };
        join_siblings(&mut frame.blocks, self.source);
        let range = self.trimmed(frame.start..range.end);
        match frame.kind {
            BlockFrameKind::Root => self.blocks.push(frame),
            BlockFrameKind::Quote => self.push_block(range, BlockKind::Quote { to_end: false, blocks: frame.blocks }),
            BlockFrameKind::List { items, .. } => self.push_block(range, BlockKind::List(items)),
            BlockFrameKind::Footnote { label } => {
                self.push_block(range, BlockKind::Footnote { label, blocks: frame.blocks });
            }
            BlockFrameKind::Item { mark, number, blank_before, task } => {
                // The parser wants a text behind the box of a task.
                let alone = self.source.get(mark.end..range.end).and_then(box_alone);
                if alone.is_some() {
                    frame.blocks.clear();
                }
                let task = task.or(alone);
                let item = ListItem { range, mark, blank_before, number, task, blocks: frame.blocks };
                if let Some(BlockFrame { kind: BlockFrameKind::List { items, .. }, .. }) = self.blocks.last_mut() {
                    items.push(item);
                }
            }
        }
    }

    fn mark_task(&mut self, done: bool) {
        if let Some(BlockFrame { kind: BlockFrameKind::Item { task, .. }, .. }) = self.blocks.last_mut() {
            *task = Some(done);
        }
    }

    /// The range of a block without blank lines at its end; in a quotation these have its marks.
    fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        let is_quoted = self.blocks.iter().any(|frame| matches!(frame.kind, BlockFrameKind::Quote));
        let mut text = self.source.get(range.clone()).unwrap_or_default().trim_end();
        while is_quoted
            && let Some((before, line)) = text.rsplit_once('\n')
            && line.trim_matches([' ', '\t', '>']).is_empty()
        {
            text = before.trim_end();
        }
        range.start..range.start + text.len()
    }

    fn push_block(&mut self, range: Range<usize>, kind: BlockKind<'text>) {
        self.end_implicit_paragraph();
        let range = self.trimmed(range);
        let Some(frame) = self.blocks.last_mut() else { return };
        let blank_before =
            frame.last_end > 0 && has_blank_line(self.source.get(frame.last_end..range.start).unwrap_or_default());
        frame.last_end = range.end;
        frame.blocks.push(Block { range, blank_before, kind });
    }
}

fn column_alignment(alignment: Alignment) -> ColumnAlignment {
    match alignment {
        Alignment::None => ColumnAlignment::Default,
        Alignment::Left => ColumnAlignment::Left,
        Alignment::Center => ColumnAlignment::Center,
        Alignment::Right => ColumnAlignment::Right,
    }
}

/// Whether a task is done of which nothing is said.
fn box_alone(item: &str) -> Option<bool> {
    match item.trim() {
        "[ ]" => Some(false),
        "[x]" | "[X]" => Some(true),
        _ => None,
    }
}

/// Whether HTML is `<br>`, which models use for line breaks in tables.
pub(super) fn is_line_break(html: &str) -> bool {
    ["<br>", "<br/>", "<br />"].iter().any(|tag| html.trim().eq_ignore_ascii_case(tag))
}
