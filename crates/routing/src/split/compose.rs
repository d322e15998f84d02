//! Writes a chunk: whole blocks as they are in the source, and parts of blocks with what they need to be read alone.

use satchel_markup::Measure;

use super::{
    ChunkLimits,
    chunker::LeafPosition,
    leaves::{ContainerKind, LeafContainer, TextLeaf, TextLeafKind},
    prose::{Budget, Prose, ProsePosition, Writing},
    rows::{RowPosition, TableText},
};

/// A leaf, or a part of one, in a chunk.
pub(super) struct ChunkPiece<'a, 'text> {
    pub(super) leaf: &'a TextLeaf<'text>,
    pub(super) from: LeafPosition,
    pub(super) to: LeafPosition,
    /// The line breaks before it.
    pub(super) breaks: usize,
}

/// Writes a chunk; `None` if it is blank.
pub(super) fn compose(
    pieces: &[ChunkPiece<'_, '_>],
    source: &str,
    limits: &ChunkLimits,
    writing: Writing,
    is_active: &dyn Fn(&LeafContainer) -> bool,
) -> Option<String> {
    let mut chunk = String::new();
    let mut index = 0;
    while let Some(piece) = pieces.get(index) {
        push_separator(pieces, index, source, is_active, &mut chunk);
        let whole = if writing == Writing::AsWritten { whole_blocks(&pieces[index..]) } else { 0 };
        if whole > 0 {
            let last = &pieces[index + whole - 1];
            chunk.push_str(source[block_start(piece.leaf, source)..last.leaf.block.end].trim_end());
            index += whole;
            continue;
        }
        let writer = PieceWriter { source, limits, writing, piece };
        writer.push(index == 0, is_active, &mut chunk);
        index += 1;
    }
    (!chunk.trim().is_empty() && pieces.iter().any(|piece| !piece.is_blank())).then_some(chunk)
}

/// How many pieces are the whole of outermost blocks.
fn whole_blocks(pieces: &[ChunkPiece<'_, '_>]) -> usize {
    let mut whole = 0;
    for (index, piece) in pieces.iter().enumerate() {
        let begins = index > whole || piece.leaf.begins_block;
        if !begins || piece.from != LeafPosition::Start || piece.to != LeafPosition::End || piece.leaf.is_rewritten {
            break;
        }
        if piece.leaf.ends_block {
            whole = index + 1;
        }
    }
    whole
}

/// Where the line of a block begins, if its indentation means something.
fn block_start(leaf: &TextLeaf<'_>, source: &str) -> usize {
    let start = leaf.block.start;
    if leaf.containers.is_empty() {
        return start;
    }
    let indent = source[..start].bytes().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let line = start - indent;
    if line == 0 || source[..line].ends_with('\n') { line } else { start }
}

/// The line breaks before a piece. A blank line within a quotation has its marks.
fn push_separator(
    pieces: &[ChunkPiece<'_, '_>],
    index: usize,
    source: &str,
    is_active: &dyn Fn(&LeafContainer) -> bool,
    chunk: &mut String,
) {
    if index == 0 {
        return;
    }
    chunk.push('\n');
    if pieces[index].breaks > 1 {
        let shared = pieces[index].leaf.containers.iter().take(pieces[index].leaf.continued);
        let prefix: String = shared.map(|container| further_prefix(container, source, is_active)).collect();
        chunk.push_str(prefix.trim_end());
        chunk.push('\n');
    }
}

/// The mark of an item: as it was written, with the number that is meant.
fn item_mark(written: &str, number: Option<u64>) -> String {
    match number {
        Some(number) => format!("{number}{}", written.chars().next_back().unwrap_or('.')),
        None => written.to_owned(),
    }
}

fn further_prefix(container: &LeafContainer, source: &str, is_active: &dyn Fn(&LeafContainer) -> bool) -> String {
    match &container.kind {
        ContainerKind::Quote => "> ".to_owned(),
        ContainerKind::QuoteToEnd => String::new(),
        _ if !is_active(container) => String::new(),
        ContainerKind::Item { mark, number, .. } => " ".repeat(item_mark(&source[mark.clone()], *number).len() + 1),
        ContainerKind::Footnote(_) => "    ".to_owned(),
    }
}

fn first_prefix(container: &LeafContainer, source: &str, is_active: &dyn Fn(&LeafContainer) -> bool) -> String {
    match &container.kind {
        ContainerKind::Quote => "> ".to_owned(),
        ContainerKind::QuoteToEnd => ">>> ".to_owned(),
        _ if !is_active(container) => String::new(),
        ContainerKind::Item { mark, number, task } => {
            let mark = item_mark(&source[mark.clone()], *number);
            let task = task.map_or("", |is_done| if is_done { "[x] " } else { "[ ] " });
            format!("{mark} {task}")
        }
        ContainerKind::Footnote(label) => format!("[^{label}]: "),
    }
}

impl ChunkPiece<'_, '_> {
    /// Whether nothing of it is shown.
    fn is_blank(&self) -> bool {
        match (&self.leaf.kind, &self.from, &self.to) {
            (TextLeafKind::Code(code), from, to) => {
                code_part(&code.text, from, to).trim().is_empty() && *from != LeafPosition::Start
            }
            _ => false,
        }
    }

    /// The characters of the piece, without marks.
    pub(super) fn push_plain(&self, source: &str, limits: &ChunkLimits, text: &mut String) {
        let measure = &limits.measure;
        if let Some(prose) = self.leaf.prose(source, measure) {
            let (from, to) = prose_range(&prose, &self.from, &self.to);
            prose.push_plain(&from, &to, text);
        }
        match &self.leaf.kind {
            TextLeafKind::Code(code) => text.push_str(code_part(&code.text, &self.from, &self.to)),
            TextLeafKind::Formula(formula) => text.push_str(&formula.plain_text()),
            TextLeafKind::Table(table) => {
                let (from, to) = row_range(&self.from, &self.to, table.rows.len());
                TableText { source, table, measure }.push_plain(&from, &to, text);
            }
            _ => {}
        }
        text.push(' ');
    }
}

fn code_part<'code>(code: &'code str, from: &LeafPosition, to: &LeafPosition) -> &'code str {
    let start = if let LeafPosition::Code(from) = from { *from } else { 0 };
    let end = if let LeafPosition::Code(to) = to { *to } else { code.len() };
    &code[start..end]
}

fn prose_range(prose: &Prose<'_>, from: &LeafPosition, to: &LeafPosition) -> (ProsePosition, ProsePosition) {
    let start = if let LeafPosition::Prose(from) = from { from.clone() } else { prose.first_position() };
    let end = if let LeafPosition::Prose(to) = to { to.clone() } else { prose.last_position() };
    (start, end)
}

fn row_range(from: &LeafPosition, to: &LeafPosition, rows: usize) -> (RowPosition, RowPosition) {
    let start = if let LeafPosition::Row(from) = from { from.clone() } else { RowPosition::default() };
    let end = if let LeafPosition::Row(to) = to { to.clone() } else { RowPosition { row: rows, cell: None } };
    (start, end)
}

struct PieceWriter<'a, 'text> {
    source: &'a str,
    limits: &'a ChunkLimits,
    writing: Writing,
    piece: &'a ChunkPiece<'a, 'text>,
}

impl PieceWriter<'_, '_> {
    fn push(&self, begins_chunk: bool, is_active: &dyn Fn(&LeafContainer) -> bool, chunk: &mut String) {
        let leaf = self.piece.leaf;
        let mut prefix = String::new();
        for (index, container) in leaf.containers.iter().enumerate() {
            let is_begun = index >= leaf.continued && self.piece.from == LeafPosition::Start;
            let reopens = begins_chunk && container.kind == ContainerKind::QuoteToEnd;
            let mark = if is_begun || reopens {
                first_prefix(container, self.source, is_active)
            } else {
                further_prefix(container, self.source, is_active)
            };
            chunk.push_str(&mark);
            prefix.push_str(&further_prefix(container, self.source, is_active));
            let has_text =
                index + 1 == leaf.containers.len() && matches!(leaf.kind, TextLeafKind::Prose { level: None, .. });
            let has_box = matches!(container.kind, ContainerKind::Item { task: Some(_), .. }) && is_active(container);
            if is_begun && has_box && !has_text {
                // Only text can be on the line of a box.
                chunk.push('\n');
                chunk.push_str(&prefix);
            }
        }
        self.push_text(&prefix, chunk);
    }

    fn measure(&self) -> &Measure {
        &self.limits.measure
    }

    fn push_text(&self, prefix: &str, chunk: &mut String) {
        let ChunkPiece { leaf, from, to, .. } = self.piece;
        let budget = Budget {
            units: self.limits.max,
            spans: self.limits.max_spans,
            prefix: 0,
            max: (self.limits.max, self.limits.max_spans),
            is_fresh: true,
        };
        if let TextLeafKind::Prose { level: Some(level), .. } = leaf.kind {
            chunk.push_str(&"#".repeat(usize::from(level)));
            chunk.push(' ');
        }
        if let Some(prose) = leaf.prose(self.source, self.measure()) {
            let (from, to) = prose_range(&prose, from, to);
            // Lines of HTML are no Markdown, wherever they are.
            let writing = if matches!(leaf.kind, TextLeafKind::Html(_)) { Writing::AsWritten } else { self.writing };
            chunk.push_str(&prose.write((&from, &to), prefix, &budget, writing));
        }
        match &leaf.kind {
            TextLeafKind::Prose { .. } | TextLeafKind::Html(_) => {}
            TextLeafKind::Code(code) => {
                let Some(fences) = leaf.fences(self.source, self.limits) else { return };
                let text = code_part(&code.text, from, to);
                let text = text.strip_suffix('\n').filter(|_| *to != LeafPosition::End).unwrap_or(text);
                push_lines(
                    [fences.opening.as_str()].into_iter().chain(text.split('\n')).chain([fences.closing.as_str()]),
                    prefix,
                    chunk,
                );
            }
            TextLeafKind::Formula(formula) => push_lines(formula.source.split('\n'), prefix, chunk),
            // A line of dashes would make a heading of the text above it.
            TextLeafKind::Rule => chunk.push_str("***"),
            TextLeafKind::Table(table) => {
                let (from, to) = row_range(from, to, table.rows.len());
                let table = TableText { source: self.source, table, measure: self.measure() };
                let lines = table.lines(&from, &to, &budget, self.writing);
                push_lines(lines.iter().map(String::as_str), prefix, chunk);
            }
            TextLeafKind::Empty => chunk.truncate(chunk.trim_end().len()),
        }
    }
}

/// Lines with a prefix before each but the first.
fn push_lines<'line>(lines: impl Iterator<Item = &'line str>, prefix: &str, chunk: &mut String) {
    for (index, line) in lines.enumerate() {
        if index > 0 {
            chunk.push('\n');
            chunk.push_str(if line.is_empty() { prefix.trim_end() } else { prefix });
        }
        chunk.push_str(line);
    }
}
