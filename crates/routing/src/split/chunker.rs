//! Walks through the leaves of a text from cut to cut.

use std::collections::VecDeque;

use satchel_markup::{Document, MarkupReader, TextSize};

use super::{
    ChunkLimits,
    compose::{ChunkPiece, compose},
    ends::ChunkEnd,
    leaves::{
        ContainerKind, LeafCollector, LeafContainer, TextLeaf, TextLeafKind, document_size, lead_units, prefix_units,
    },
    prose::{Budget, Prose, ProsePosition, Writing},
    rows::{RowPosition, TableText},
    visible::{visible_characters, without_blanks},
};

/// A position in a leaf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeafPosition {
    Start,
    Prose(ProsePosition),
    /// A byte of code.
    Code(usize),
    Row(RowPosition),
    End,
}

pub(super) struct Chunker<'text> {
    pub(super) source: &'text str,
    pub(super) limits: ChunkLimits,
    reader: MarkupReader<'text>,
    collector: LeafCollector,
    pub(super) leaves: VecDeque<TextLeaf<'text>>,
    /// Where the next chunk begins in the first leaf.
    pub(super) start: LeafPosition,
}

impl<'text> Chunker<'text> {
    pub(super) fn new(source: &'text str, limits: ChunkLimits) -> Self {
        Self {
            source,
            limits,
            reader: MarkupReader::new(source),
            collector: LeafCollector::new(limits.measure, limits.max / 2),
            leaves: VecDeque::new(),
            start: LeafPosition::Start,
        }
    }

    /// Hands over the chunks in order, none of them blank; as an error one that is too long when it is read alone.
    pub(super) fn for_each_chunk(mut self, emit: &mut dyn FnMut(Result<String, String>)) {
        while self.load(0) {
            let end = self.find_end();
            if let Some(chunk) = self.build_chunk(&end) {
                emit(chunk);
            }
            self.advance(end);
        }
    }

    /// Whether there is a leaf with this index.
    pub(super) fn load(&mut self, index: usize) -> bool {
        while self.leaves.len() <= index {
            let Some(blocks) = self.reader.next() else { return false };
            for block in blocks {
                self.collector.collect(block, &mut self.leaves);
            }
        }
        true
    }

    pub(super) fn is_inside(&self) -> bool {
        self.start != LeafPosition::Start
    }

    /// Whether the marks of a container are written in the chunk that begins here: an item that began in an earlier one
    /// has none.
    fn is_active(&self, container: &LeafContainer) -> bool {
        let first = self.leaves[0].number;
        let begins_here = container.first_leaf > first || (container.first_leaf == first && !self.is_inside());
        begins_here || matches!(container.kind, ContainerKind::Quote | ContainerKind::QuoteToEnd)
    }

    /// The line breaks before a leaf of the chunk that begins here.
    pub(super) fn breaks_before(&self, index: usize) -> usize {
        if index == 0 {
            return 0;
        }
        let before = &self.leaves[index - 1];
        let is_text = matches!(before.kind, TextLeafKind::Prose { .. } | TextLeafKind::Html(_));
        let is_in_item = before.containers.iter().any(|container| {
            !matches!(container.kind, ContainerKind::Quote | ContainerKind::QuoteToEnd) && self.is_active(container)
        });
        let is_continued = before.containers.iter().any(|container| !self.is_active(container));
        // Text without the mark of its item must not continue into what is behind it.
        let needs_blank = is_text && !is_in_item && (is_continued || (index == 1 && self.is_inside()));
        if self.leaves[index].blank_before || needs_blank { 2 } else { 1 }
    }

    /// What is left for a leaf behind the marks before it.
    pub(super) fn budget(&self, index: usize, used: TextSize) -> Option<Budget> {
        let (leaf, limits) = (&self.leaves[index], &self.limits);
        let lead = lead_units(leaf, self.breaks_before(index), &limits.measure, |container| self.is_active(container));
        let first = if index == 0 { 0 } else { leaf.continued };
        let spans: usize = leaf.containers[first..].iter().map(|container| container.spans).sum();
        Some(Budget {
            units: limits.max.checked_sub(used.units + lead)?,
            spans: limits.max_spans.checked_sub(used.spans + spans)?,
            prefix: prefix_units(leaf, &limits.measure, |container| self.is_active(container)),
            max: (limits.max, limits.max_spans),
            is_fresh: index == 0,
        })
    }

    pub(super) fn table(&self, index: usize) -> Option<TableText<'_, 'text>> {
        let TextLeafKind::Table(table) = &self.leaves[index].kind else { return None };
        Some(TableText { source: self.source, table, measure: &self.limits.measure })
    }

    /// The text of a leaf; `None` if it is something else.
    pub(super) fn prose(&self, index: usize) -> Option<Prose<'_>> {
        self.leaves[index].prose(self.source, &self.limits.measure)
    }

    /// Makes code of the first leaf if it has to be cut and can't be.
    pub(super) fn prepare_first(&mut self) {
        let Some(budget) = self.budget(0, TextSize::default()).filter(|_| !self.is_inside()) else { return };
        let (source, measure) = (self.source, &self.limits.measure);
        let leaf = &mut self.leaves[0];
        let units = leaf.size.units + leaf.size.breaks * (1 + budget.prefix);
        if units <= budget.units && leaf.size.spans <= budget.spans {
            return;
        }
        let has_wide_head = match &leaf.kind {
            TextLeafKind::Table(table) => {
                let head = TableText { source, table, measure }.head_size();
                head.units + head.breaks * (1 + budget.prefix) > budget.units / 2 || head.spans > budget.spans / 2
            }
            _ => false,
        };
        leaf.make_divisible(source, measure, has_wide_head);
    }

    fn is_unseen(&self, piece: &ChunkPiece<'_, '_>) -> bool {
        let mut seen = String::new();
        piece.push_plain(self.source, &self.limits, &mut seen);
        seen.trim().is_empty()
    }

    /// The chunk that ends here; `None` if it would be blank.
    fn build_chunk(&mut self, end: &ChunkEnd) -> Option<Result<String, String>> {
        let has_next = end.inside.is_none() && self.load(end.leaves);
        let count = end.leaves + usize::from(end.inside.is_some());
        let pieces: Vec<ChunkPiece<'_, '_>> = (0..count)
            .map(|index| ChunkPiece {
                leaf: &self.leaves[index],
                from: if index == 0 { self.start.clone() } else { LeafPosition::Start },
                to: match &end.inside {
                    Some((part, _)) if index == end.leaves => part.clone(),
                    _ => LeafPosition::End,
                },
                breaks: self.breaks_before(index),
            })
            .collect();
        let is_active = |container: &LeafContainer| self.is_active(container);
        let is_whole = end.is_fitting
            && !self.is_inside()
            && end.inside.is_none()
            && self.is_certain(&pieces, has_next.then_some(count));
        let chunk = compose(&pieces, self.source, &self.limits, Writing::AsWritten, &is_active)?;
        if is_whole {
            // Of which nothing is seen, all is shown as it was written.
            let is_unseen = chunk.len() > self.limits.max && pieces.iter().all(|piece| self.is_unseen(piece));
            return Some(if is_unseen { Err(chunk) } else { Ok(chunk) });
        }
        // Alone, a chunk may be read otherwise than in the whole.
        let mut expected = String::new();
        pieces.iter().for_each(|piece| piece.push_plain(self.source, &self.limits, &mut expected));
        let expected = without_blanks(&expected);
        let mut fitting = None;
        for writing in [Writing::AsWritten, Writing::Escaped, Writing::Unformatted] {
            let written = match writing {
                Writing::AsWritten => chunk.clone(),
                _ => compose(&pieces, self.source, &self.limits, writing, &is_active)?,
            };
            let document = Document::parse(&written);
            if self.is_within_limits(&document) {
                if visible_characters(&document) == expected {
                    return Some(Ok(written));
                }
                fitting = Some(written);
            }
        }
        Some(fitting.ok_or(chunk))
    }

    fn is_within_limits(&self, chunk: &Document<'_>) -> bool {
        self.limits.allow(document_size(chunk, &self.limits.measure))
    }

    /// Whether what is read alone is sure to mean what it means in the text: whole blocks between blank lines.
    fn is_certain(&self, pieces: &[ChunkPiece<'_, '_>], next: Option<usize>) -> bool {
        let is_indented = |leaf: &TextLeaf<'_>| {
            let before = &self.source[..leaf.block.start];
            !(before.is_empty() || before.ends_with('\n')) || self.source[leaf.block.start..].starts_with([' ', '\t'])
        };
        let begins_apart =
            |leaf: &TextLeaf<'_>| leaf.begins_block && (leaf.blank_before || leaf.number == 0) && !is_indented(leaf);
        let are_whole = |pieces: &[ChunkPiece<'_, '_>]| {
            pieces.last().is_some_and(|piece| piece.leaf.ends_block)
                && pieces.iter().all(|piece| !piece.leaf.is_rewritten)
        };
        !self.reader.has_definitions()
            && pieces.first().is_some_and(|piece| begins_apart(piece.leaf))
            && next.is_none_or(|next| begins_apart(&self.leaves[next]))
            && are_whole(pieces)
    }

    fn advance(&mut self, end: ChunkEnd) {
        self.leaves.drain(..end.leaves);
        self.start = end.inside.map_or(LeafPosition::Start, |(_, next)| next);
    }
}
