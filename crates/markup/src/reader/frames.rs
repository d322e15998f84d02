//! What is open while a passage is read: blocks around blocks, and spans of text within a block.

use std::{borrow::Cow, ops::Range};

use crate::tree::{Block, BlockKind, Cell, ColumnAlignment, Inline, InlineKind, ListItem, TableRow};

/// A block that has blocks, and is open.
#[derive(Debug)]
pub(super) struct BlockFrame<'text> {
    pub(super) kind: BlockFrameKind<'text>,
    pub(super) start: usize,
    pub(super) blocks: Vec<Block<'text>>,
    /// Where what was before the first block ended; 0 if nothing was.
    pub(super) last_end: usize,
}

/// Which block it is.
#[derive(Debug)]
pub(super) enum BlockFrameKind<'text> {
    Root,
    Quote,
    List { next_number: Option<u64>, items: Vec<ListItem<'text>> },
    Item { mark: Range<usize>, number: Option<u64>, blank_before: bool, task: Option<bool> },
    Footnote { label: Cow<'text, str> },
}

/// A block of text, or a span in one, that is open.
#[derive(Debug)]
pub(super) struct InlineFrame<'text> {
    pub(super) kind: InlineFrameKind<'text>,
    pub(super) start: usize,
    pub(super) content: Vec<Inline<'text>>,
    /// Where a spoiler was opened: how many inlines are before it, and its bars.
    pub(super) spoiler: Option<(usize, Range<usize>)>,
}

/// Which it is.
#[derive(Debug)]
pub(super) enum InlineFrameKind<'text> {
    /// A paragraph; of an item without blank lines, the parser reports no beginning of it.
    Paragraph,
    Heading {
        level: u8,
    },
    Html,
    Cell,
    Emphasis,
    Strong,
    Struck,
    Link {
        address: Cow<'text, str>,
    },
    /// `<https://…>`.
    AngleAddress {
        address: Cow<'text, str>,
    },
    Image {
        address: Cow<'text, str>,
    },
}

impl<'text> InlineFrame<'text> {
    pub(super) fn new(kind: InlineFrameKind<'text>, start: usize) -> Self {
        Self { kind, start, content: Vec::new(), spoiler: None }
    }

    /// Adds text of the source; neighbours become one.
    pub(super) fn push_source(&mut self, range: Range<usize>, source: &'text str) {
        if range.is_empty() {
            return;
        }
        if let Some(Inline { range: last, kind: InlineKind::Text(text @ Cow::Borrowed(_)) }) = self.content.last_mut()
            && last.end == range.start
        {
            last.end = range.end;
            *text = Cow::Borrowed(&source[last.clone()]);
            return;
        }
        let text = Cow::Borrowed(&source[range.clone()]);
        self.content.push(Inline { range, kind: InlineKind::Text(text) });
    }

    pub(super) fn open_spoiler(&mut self, bars: Range<usize>, source: &'text str) {
        self.restore_bars(source);
        self.spoiler = Some((self.content.len(), bars));
    }

    /// Hides what is behind the bars that opened a spoiler; bars that opened none are text.
    pub(super) fn close_spoiler(&mut self, bars: Range<usize>, source: &'text str) {
        match self.spoiler.take() {
            Some((first, opening)) if first < self.content.len() => {
                let content = self.content.split_off(first);
                self.content.push(Inline { range: opening.start..bars.end, kind: InlineKind::Spoiler(content) });
            }
            opened => {
                self.spoiler = opened;
                self.restore_bars(source);
                self.push_source(bars, source);
            }
        }
    }

    /// Makes text of bars that open a spoiler without end.
    fn restore_bars(&mut self, source: &'text str) {
        let Some((first, bars)) = self.spoiler.take() else { return };
        let behind = self.content.split_off(first);
        self.push_source(bars, source);
        for inline in behind {
            match inline {
                Inline { range, kind: InlineKind::Text(Cow::Borrowed(_)) } => self.push_source(range, source),
                other => self.content.push(other),
            }
        }
    }

    /// What is in it.
    pub(super) fn finish(mut self, source: &'text str) -> (InlineFrameKind<'text>, usize, Vec<Inline<'text>>) {
        self.restore_bars(source);
        (self.kind, self.start, self.content)
    }
}

/// Code that is open.
#[derive(Debug)]
pub(super) struct CodeFrame<'text> {
    pub(super) info: Cow<'text, str>,
    pub(super) range: Range<usize>,
    pub(super) text: Vec<Cow<'text, str>>,
    pub(super) lines: Vec<Range<usize>>,
}

/// A table that is open.
#[derive(Debug)]
pub(super) struct TableFrame<'text> {
    pub(super) alignments: Vec<ColumnAlignment>,
    pub(super) rows: Vec<TableRow<'text>>,
    pub(super) cells: Vec<Cell<'text>>,
}

/// Removes blank lines at the end of HTML.
pub(super) fn without_last_lines(mut content: Vec<Inline<'_>>) -> Vec<Inline<'_>> {
    let is_blank = |inline: &Inline<'_>| match &inline.kind {
        InlineKind::Text(text) => text.trim().is_empty(),
        kind => matches!(kind, InlineKind::Break { .. }),
    };
    while content.last().is_some_and(is_blank) {
        content.pop();
    }
    content
}

/// Removes line breaks at the end of a block.
pub(super) fn without_last_breaks(mut content: Vec<Inline<'_>>) -> Vec<Inline<'_>> {
    while matches!(content.last(), Some(Inline { kind: InlineKind::Break { .. }, .. })) {
        content.pop();
    }
    content
}

/// A paragraph, or the formula that it consists of.
pub(super) fn paragraph(mut content: Vec<Inline<'_>>) -> BlockKind<'_> {
    match content.pop() {
        Some(Inline { kind: InlineKind::Formula(formula), .. }) if content.is_empty() && formula.is_display => {
            BlockKind::Formula(*formula)
        }
        last => {
            content.extend(last);
            BlockKind::Paragraph(content)
        }
    }
}
