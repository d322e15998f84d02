//! Walks through a text once from cut to cut, and closes and reopens what a cut goes through.

use std::ops::Range;

use satchel_domain::capabilities::TextUnit;

use super::{
    structure::{CodeBlock, MarkdownStructure},
    units,
};

/// What a chunk must stay within.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkLimits {
    /// The most units of a chunk.
    pub(super) max: usize,
    /// The unit.
    pub(super) unit: TextUnit,
    /// Whether the markers of spans count.
    pub(super) count_markers: bool,
    /// The most formatted spans of a chunk.
    pub(super) max_entities: usize,
}

/// Where the walk stands at the beginning of a chunk.
#[derive(Debug, Clone, Default)]
pub(super) struct ChunkStart {
    /// The byte.
    pub(super) at: usize,
    /// The next marker.
    pub(super) marker: usize,
    /// The first code block that ends behind it.
    pub(super) block: usize,
    /// The next entity.
    pub(super) entity: usize,
    /// The open spans that are closed and reopened at a cut, outermost first.
    pub(super) open: Vec<usize>,
    /// How many spans are open within these.
    pub(super) unmarked: usize,
}

/// A text, what it is made of, and what its chunks must stay within.
pub(super) struct Chunker<'text> {
    pub(super) text: &'text str,
    pub(super) structure: &'text MarkdownStructure,
    pub(super) limits: &'text ChunkLimits,
}

/// Hands the chunks of a text to `take`, in order, none of them blank, each with whether it is sure to be read alone as
/// it is read in the text.
pub(super) fn for_each_chunk(
    text: &str,
    structure: &MarkdownStructure,
    limits: &ChunkLimits,
    emit: &mut dyn FnMut(String, bool),
) {
    let chunker = Chunker { text, structure, limits };
    let mut position = ChunkStart::default();
    while position.at < text.len() {
        let cut = chunker.find_cut(&position);
        let next = chunker.advance_to(&position, cut);
        if let Some(chunk) = chunker.build_chunk(&position, &next) {
            emit(chunk, chunker.is_seam(position.at) && chunker.is_seam(next.at));
        }
        position = next;
    }
}

impl Chunker<'_> {
    pub(super) fn marker_cost(&self, range: &Range<usize>) -> usize {
        if self.limits.count_markers { self.units_of(&self.text[range.clone()]) } else { 0 }
    }

    pub(super) fn units_of(&self, text: &str) -> usize {
        units(text, self.limits.unit)
    }

    /// Whether no block goes through this position, and none could if the text began or ended here.
    fn is_seam(&self, at: usize) -> bool {
        self.structure.seams.binary_search(&at).is_ok()
    }

    /// Whether a span is closed and reopened when it is cut; one with very long markers, or within very many spans, is
    /// left open, so that a chunk always has room for more than what it repeats.
    fn can_reopen(&self, span: usize) -> bool {
        let span = &self.structure.spans[span];
        span.nesting <= self.limits.max / 4 && span.depth <= self.limits.max_entities.div_ceil(2)
    }

    /// The block whose code goes on at this position, if its fence is short enough to be repeated.
    pub(super) fn reopened_block(&self, position: &ChunkStart) -> Option<&CodeBlock> {
        let block = self.structure.blocks.get(position.block)?;
        let inside = block.code.start < position.at && position.at < block.code.end;
        (inside && self.can_cut(block)).then_some(block)
    }

    pub(super) fn can_cut(&self, block: &CodeBlock) -> bool {
        block.opening.len() + block.closing.len().max(block.fence.len()) + 2 <= self.limits.max / 2
    }

    pub(super) fn closer_cost(&self, span: usize) -> usize {
        if self.can_reopen(span) { self.marker_cost(&self.structure.spans[span].close) } else { 0 }
    }

    fn advance_to(&self, from: &ChunkStart, at: usize) -> ChunkStart {
        let mut next = ChunkStart { at, ..from.clone() };
        while let Some(marker) = self.structure.markers.get(next.marker).filter(|marker| marker.range.end <= at) {
            match (self.can_reopen(marker.span), marker.opens) {
                (true, true) => next.open.push(marker.span),
                (true, false) => {
                    if let Some(index) = next.open.iter().rposition(|span| *span == marker.span) {
                        next.open.remove(index);
                    }
                }
                (false, true) => next.unmarked += 1,
                (false, false) => next.unmarked = next.unmarked.saturating_sub(1),
            }
            next.marker += 1;
        }
        while self.structure.blocks.get(next.block).is_some_and(|block| block.range.end <= at) {
            next.block += 1;
        }
        while self.structure.entities.get(next.entity).is_some_and(|start| *start < at) {
            next.entity += 1;
        }
        next
    }

    /// The chunk between two positions with what it needs to stand alone; `None` when it would be blank.
    fn build_chunk(&self, from: &ChunkStart, to: &ChunkStart) -> Option<String> {
        let mut chunk = String::new();
        let reopened_block = self.reopened_block(from);
        let mut rest = from.at;
        if let Some(block) = reopened_block {
            let end = to.at.min(block.code.end);
            let first_gap = block.gaps.partition_point(|gap| gap.end <= rest);
            for gap in block.gaps[first_gap..].iter().take_while(|gap| gap.start < end) {
                chunk.push_str(&self.text[rest..gap.start.max(rest)]);
                rest = gap.end.min(end);
            }
            chunk.push_str(&self.text[rest..end]);
            if to.at < block.code.end {
                return (!chunk.trim().is_empty())
                    .then(|| close_fence(format!("{}{chunk}", block.opening), &block.fence));
            }
            chunk = close_fence(format!("{}{chunk}", block.opening), &block.fence);
            rest = to.at.min(block.range.end);
            let after_block = &self.text[rest..to.at];
            if !after_block.starts_with('\n') && !after_block.trim().is_empty() {
                chunk.push('\n');
            }
            chunk.push_str(after_block);
        } else {
            from.open.iter().for_each(|span| chunk.push_str(&self.text[self.structure.spans[*span].open.clone()]));
            let body = self.text[from.at..to.at].trim_start();
            let body_start = to.at - body.len();
            // The indentation of an indented block is what makes it one.
            if self.structure.blocks[from.block..]
                .first()
                .is_some_and(|b| b.closing.is_empty() && b.code.start == body_start)
            {
                chunk.push_str("    ");
            }
            chunk.push_str(body);
            if body.is_empty() {
                return None;
            }
        }
        if let Some(block) = self.reopened_block(to) {
            return Some(if block.closing.is_empty() { chunk } else { close_fence(chunk, &block.closing) });
        }
        chunk.truncate(chunk.trim_end().len());
        to.open.iter().rev().for_each(|span| chunk.push_str(&self.text[self.structure.spans[*span].close.clone()]));
        Some(chunk)
    }
}

/// The lines with the fence that closes them on a line of its own.
fn close_fence(mut lines: String, fence: &str) -> String {
    if !lines.ends_with('\n') {
        lines.push('\n');
    }
    lines.push_str(fence);
    lines
}
