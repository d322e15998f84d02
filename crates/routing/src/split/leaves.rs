//! The blocks that have text, in the order of the text, each with the quotations and lists that it is in.

use std::{cell::OnceCell, collections::VecDeque, ops::Range};

use satchel_markup::{
    Block, BlockKind, CodeBlock, Document, Inline, InlineKind, ListItem, Measure, TableBlock, TableMeter, TexFormula,
    TextForm, TextSize,
};

use super::{ChunkLimits, code::Fences, prose::Prose, tokens::Tokens};

/// A quotation, or an item, around a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeafContainer {
    pub(super) kind: ContainerKind,
    /// The number of the first leaf in it.
    pub(super) first_leaf: usize,
    /// The units before its first line, and before each further one.
    pub(super) mark_units: usize,
    pub(super) prefix_units: usize,
    /// The formatted spans that it adds.
    pub(super) spans: usize,
}

/// What it is, and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContainerKind {
    Quote,
    /// Everything behind `>>> `.
    QuoteToEnd,
    /// Where its mark was written, its number, and the box of a task.
    Item {
        mark: Range<usize>,
        number: Option<u64>,
        task: Option<bool>,
    },
    /// Its label.
    Footnote(String),
}

/// What has text.
#[derive(Debug)]
pub(super) enum TextLeafKind<'text> {
    /// A paragraph, or a heading of a level.
    Prose {
        content: Vec<Inline<'text>>,
        level: Option<u8>,
    },
    Html(Vec<Inline<'text>>),
    Code(CodeBlock<'text>),
    Table(Box<TableBlock<'text>>),
    Formula(TexFormula<'text>),
    Rule,
    /// An item or a quotation without text.
    Empty,
}

/// A block that has text.
#[derive(Debug)]
pub(super) struct TextLeaf<'text> {
    pub(super) kind: TextLeafKind<'text>,
    pub(super) range: Range<usize>,
    /// Outermost first.
    pub(super) containers: Vec<LeafContainer>,
    /// How many of them began before it.
    pub(super) continued: usize,
    pub(super) blank_before: bool,
    /// Its size without what is before its lines.
    pub(super) size: TextSize,
    /// Its number.
    pub(super) number: usize,
    /// Where its outermost block is.
    pub(super) block: Range<usize>,
    /// Whether it is the first leaf of the block.
    pub(super) begins_block: bool,
    /// Whether it is the last one.
    pub(super) ends_block: bool,
    /// Whether it is written otherwise than in the source, even as a whole.
    pub(super) is_rewritten: bool,
    /// Its tokens, once they are needed.
    tokens: OnceCell<Box<Tokens>>,
    /// Its fences, once they are needed.
    fences: OnceCell<Box<Fences>>,
}

impl TextLeaf<'_> {
    /// Whether its lines have nothing before them where code has none.
    pub(super) fn is_full_width(&self, measure: &Measure) -> bool {
        let is_code = match &self.kind {
            TextLeafKind::Code(_) => true,
            TextLeafKind::Formula(formula) => formula.unicode.is_none(),
            _ => false,
        };
        is_code && measure.form == TextForm::Visible
    }
}

impl<'text> TextLeaf<'text> {
    /// Its text; `None` if it is something else.
    pub(super) fn prose<'a>(&'a self, source: &'a str, measure: &'a Measure) -> Option<Prose<'a>> {
        let (TextLeafKind::Prose { content, .. } | TextLeafKind::Html(content)) = &self.kind else { return None };
        let tokens = self.tokens.get_or_init(|| Box::new(Tokens::new(content, source, measure)));
        Some(Prose { source, tokens, measure })
    }

    /// The fences of its code; `None` if it is something else.
    pub(super) fn fences(&self, source: &str, limits: &ChunkLimits) -> Option<&Fences> {
        let TextLeafKind::Code(code) = &self.kind else { return None };
        Some(self.fences.get_or_init(|| Box::new(Fences::new(code, source, &self.range, limits))))
    }

    /// Makes of a leaf that can't be cut one that can: code of HTML and of formulas, lines of a table with wide headings.
    pub(super) fn make_divisible(&mut self, source: &'text str, measure: &Measure, has_wide_head: bool) {
        let was_rewritten = std::mem::replace(&mut self.is_rewritten, true);
        (self.tokens, self.fences) = (OnceCell::new(), OnceCell::new());
        let code = |info: &'static str, text: String, range: Range<usize>| CodeBlock {
            info: info.into(),
            text: text.into(),
            lines: vec![range],
        };
        match &self.kind {
            TextLeafKind::Html(content) => {
                let line = |inline: &Inline<'_>| match inline.kind {
                    InlineKind::Break { .. } if source[inline.range.clone()].contains('\n') => "\n",
                    _ => &source[inline.range.clone()],
                };
                let text: String = content.iter().map(line).collect();
                self.kind = TextLeafKind::Code(code("html", text, self.range.clone()));
            }
            TextLeafKind::Formula(formula) => {
                self.kind = TextLeafKind::Code(code("latex", formula.source.to_string(), self.range.clone()));
            }
            TextLeafKind::Table(table) if has_wide_head => {
                let content = table_lines(table, source);
                self.size = measure.inlines(&content, 0);
                self.kind = TextLeafKind::Prose { content, level: None };
                return;
            }
            _ => {
                self.is_rewritten = was_rewritten;
                return;
            }
        }
        if let TextLeafKind::Code(code) = &self.kind {
            self.size = measure.code_block(code);
        }
    }
}

/// The lines of a table as they were written.
fn table_lines<'text>(table: &TableBlock<'_>, source: &'text str) -> Vec<Inline<'text>> {
    let lines = [table.head.range.clone(), table.delimiter.clone()];
    let lines = lines.into_iter().chain(table.rows.iter().map(|row| row.range.clone()));
    let mut content: Vec<Inline<'text>> = Vec::new();
    for range in lines {
        if let Some(last) = content.last() {
            let between = last.range.end..range.start;
            content.push(Inline { range: between, kind: InlineKind::Break { is_hard: false } });
        }
        content.push(Inline { range: range.clone(), kind: InlineKind::Text(source[range].into()) });
    }
    content
}

/// Collects the leaves of blocks.
pub(super) struct LeafCollector {
    measure: Measure,
    containers: Vec<LeafContainer>,
    /// How many containers began since the last leaf, at the end of the list.
    begun: usize,
    /// Whether a blank line is before the outermost of them.
    blank_before: bool,
    next_number: usize,
    /// The most units of marks before a line. A leaf with more has none.
    max_marks: usize,
}

impl LeafCollector {
    pub(super) fn new(measure: Measure, max_marks: usize) -> Self {
        Self { measure, containers: Vec::new(), begun: 0, blank_before: false, next_number: 0, max_marks }
    }

    /// Adds the leaves of an outermost block.
    pub(super) fn collect<'text>(&mut self, block: Block<'text>, leaves: &mut VecDeque<TextLeaf<'text>>) {
        let range = block.range.clone();
        let first = leaves.len();
        self.push_block(block, leaves);
        if let Some(leaf) = leaves.get_mut(first) {
            leaf.begins_block = true;
        }
        if let Some(leaf) = leaves.back_mut() {
            leaf.ends_block = true;
        }
        leaves.range_mut(first..).for_each(|leaf| leaf.block = range.clone());
    }

    fn push_block<'text>(&mut self, block: Block<'text>, leaves: &mut VecDeque<TextLeaf<'text>>) {
        if self.begun == 0 {
            self.blank_before = block.blank_before;
        }
        let measure = &self.measure;
        let (kind, size) = match block.kind {
            BlockKind::Quote { to_end, blocks } => {
                let kind = if to_end { ContainerKind::QuoteToEnd } else { ContainerKind::Quote };
                let is_nested = !self.containers.is_empty();
                let units = measure.quote_mark(is_nested);
                return self.push_container(kind, (units, units), !is_nested, block.range, blocks, leaves);
            }
            BlockKind::Footnote { label, blocks } => {
                let units = measure.footnote_label(&label);
                let kind = ContainerKind::Footnote(label.into_owned());
                return self.push_container(kind, (units, 0), false, block.range, blocks, leaves);
            }
            BlockKind::List(items) => return self.push_items(items, leaves),
            BlockKind::Paragraph(content) => {
                let size = measure.inlines(&content, 0);
                (TextLeafKind::Prose { content, level: None }, size)
            }
            BlockKind::Heading { level, content } => {
                let size = measure.inlines(&content, 1) + measure.heading(level);
                (TextLeafKind::Prose { content, level: Some(level) }, size)
            }
            BlockKind::Html(content) => {
                let size = measure.inlines(&content, 0);
                (TextLeafKind::Html(content), size)
            }
            BlockKind::Code(code) => {
                let size = measure.code_block(&code);
                (TextLeafKind::Code(code), size)
            }
            BlockKind::Table(table) => {
                let size = table_size(&table, measure);
                (TextLeafKind::Table(Box::new(table)), size)
            }
            BlockKind::Formula(formula) => {
                let size = measure.formula(&formula);
                (TextLeafKind::Formula(formula), size)
            }
            BlockKind::Rule => (TextLeafKind::Rule, measure.rule()),
        };
        self.push_leaf(kind, block.range, size, leaves);
    }

    fn push_items<'text>(&mut self, items: Vec<ListItem<'text>>, leaves: &mut VecDeque<TextLeaf<'text>>) {
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                self.blank_before = item.blank_before;
            }
            let units = (self.measure.item_mark(&item), item.indent());
            let kind = ContainerKind::Item { mark: item.mark, number: item.number, task: item.task };
            self.push_container(kind, units, false, item.range, item.blocks, leaves);
        }
    }

    fn push_container<'text>(
        &mut self,
        kind: ContainerKind,
        (mark_units, prefix_units): (usize, usize),
        has_span: bool,
        range: Range<usize>,
        blocks: Vec<Block<'text>>,
        leaves: &mut VecDeque<TextLeaf<'text>>,
    ) {
        let spans = usize::from(has_span);
        let first_leaf = self.next_number;
        self.containers.push(LeafContainer { kind, first_leaf, mark_units, prefix_units, spans });
        self.begun += 1;
        if blocks.is_empty() {
            self.push_leaf(TextLeafKind::Empty, range, TextSize::default(), leaves);
        }
        for block in blocks {
            self.push_block(block, leaves);
        }
        self.containers.pop();
    }

    fn push_leaf<'text>(
        &mut self,
        kind: TextLeafKind<'text>,
        range: Range<usize>,
        size: TextSize,
        leaves: &mut VecDeque<TextLeaf<'text>>,
    ) {
        let marks: usize =
            self.containers.iter().map(|container| container.mark_units.max(container.prefix_units)).sum();
        let has_room = marks <= self.max_marks;
        let containers = if has_room { self.containers.clone() } else { Vec::new() };
        leaves.push_back(TextLeaf {
            kind,
            range,
            continued: if has_room { containers.len() - self.begun } else { 0 },
            containers,
            blank_before: self.blank_before,
            size,
            number: self.next_number,
            block: 0..0,
            begins_block: false,
            ends_block: false,
            is_rewritten: !has_room,
            tokens: OnceCell::new(),
            fences: OnceCell::new(),
        });
        self.begun = 0;
        self.next_number += 1;
    }
}

fn table_size(table: &TableBlock<'_>, measure: &Measure) -> TextSize {
    let mut meter = TableMeter::new(*measure, &table.head);
    table.rows.iter().for_each(|row| meter.push(row));
    meter.size()
}

/// What is counted before a leaf: line breaks, unless it is the first one, and the marks and prefixes of what it is in.
/// `is_active` tells of each item whether it was begun in the same chunk.
pub(super) fn lead_units(
    leaf: &TextLeaf<'_>,
    breaks: usize,
    measure: &Measure,
    is_active: impl Fn(&LeafContainer) -> bool,
) -> usize {
    let mut units = breaks;
    for (index, container) in leaf.containers.iter().enumerate() {
        let is_begun = index >= leaf.continued;
        if !is_active(container) {
            continue;
        }
        if is_begun {
            units += container.mark_units;
        } else if breaks == 0 || leaf.continued < leaf.containers.len() || !leaf.is_full_width(measure) {
            units += container.prefix_units;
        }
    }
    // No blank is behind a mark without text.
    let has_blank = leaf.containers.last().is_some_and(|container| container.mark_units > 0 && is_active(container));
    units - usize::from(matches!(leaf.kind, TextLeafKind::Empty) && has_blank)
}

/// The units before each further line of a leaf.
pub(super) fn prefix_units(
    leaf: &TextLeaf<'_>,
    measure: &Measure,
    is_active: impl Fn(&LeafContainer) -> bool,
) -> usize {
    if leaf.is_full_width(measure) {
        return 0;
    }
    leaf.containers.iter().filter(|container| is_active(container)).map(|container| container.prefix_units).sum()
}

/// Measures a whole document. One of which nothing would be seen is shown as it was written.
pub(super) fn document_size(document: &Document<'_>, measure: &Measure) -> TextSize {
    let mut collector = LeafCollector::new(*measure, usize::MAX);
    let mut leaves = VecDeque::new();
    let mut total = TextSize::default();
    for block in document.blocks.iter().cloned() {
        collector.collect(block, &mut leaves);
    }
    for (index, leaf) in leaves.iter().enumerate() {
        let breaks = if index == 0 {
            0
        } else if leaf.blank_before {
            2
        } else {
            1
        };
        let prefix = prefix_units(leaf, measure, |_| true);
        total.units += lead_units(leaf, breaks, measure, |_| true) + leaf.size.units + leaf.size.breaks * (1 + prefix);
        total.spans += leaf.size.spans;
        total.spans += leaf.containers[leaf.continued..].iter().map(|container| container.spans).sum::<usize>();
    }
    if total.units == 0 {
        total.units = measure.count(document.source);
    }
    total
}
