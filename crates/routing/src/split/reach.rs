//! How far a chunk may reach from where it begins, and where on the way it might end.
//!
//! Between two markers and the edges of code blocks nothing changes but the characters, which are counted many at a
//! time: only the last few before the limit are looked at one by one.

use satchel_domain::capabilities::TextUnit;

use super::{
    chunker::{ChunkStart, Chunker},
    structure::CodeBlock,
    units,
};

/// Neighbouring positions at which a chunk may end, with no marker and no edge of a code block between them.
#[derive(Debug)]
pub(super) struct CutRange {
    /// The first position.
    pub(super) first: usize,
    /// The last position.
    pub(super) last: usize,
    /// Whether a chunk may end at the first position.
    pub(super) ends_at_first: bool,
    /// Whether the character before the first position stands right before it, with no marker between them.
    pub(super) joins_at_first: bool,
    /// Whether it lies in a code block.
    pub(super) in_code: bool,
    /// Whether it lies in a span.
    pub(super) in_span: bool,
    /// The last character before it that is no white space and no marker.
    pub(super) visible_before: char,
}

/// How far a chunk may reach.
#[derive(Debug)]
pub(super) enum Reach {
    /// All of the text fits.
    Everything,
    /// Where it might end, and the position that is too far.
    UpTo(Vec<CutRange>, usize),
}

/// The context of a position.
struct CutContext<'text> {
    code: Option<&'text CodeBlock>,
    breakable: bool,
    /// The next position at which this may change.
    until: usize,
}

/// The state while a chunk's reach is measured.
struct ReachCursor {
    at: usize,
    marker: usize,
    block: usize,
    used: usize,
    closers: usize,
    open: usize,
    after_opener: bool,
    after_marker: bool,
    last_visible: char,
}

impl Chunker<'_> {
    /// Walks from the beginning of a chunk as far as the limit lets it.
    pub(super) fn reach(&self, from: &ChunkStart) -> Reach {
        let reopened_block = self.reopened_block(from);
        let opening = |span: &usize| self.marker_cost(&self.structure.spans[*span].open);
        let mut cursor = ReachCursor {
            at: from.at,
            marker: from.marker,
            block: from.block,
            used: from.open.iter().map(opening).sum::<usize>()
                + reopened_block.map_or(0, |block| self.units_of(&block.opening)),
            closers: from.open.iter().map(|span| self.closer_cost(*span)).sum(),
            open: from.open.len() + from.unmarked,
            after_opener: false,
            after_marker: true,
            last_visible: ' ',
        };
        let entity_limit = self.entity_limit_at(from, from.open.len() + usize::from(reopened_block.is_some()));
        let mut ranges = Vec::new();
        loop {
            let context = self.context_at(&mut cursor);
            let suffix = context.code.map_or(0, |block| match reopened_block {
                Some(_) if cursor.block == from.block => block.fence.len() + 1,
                _ => block.closing.len() + 1,
            });
            let remaining_units = self.limits.max.checked_sub(cursor.used + cursor.closers + suffix);
            let Some(remaining_units) = remaining_units else { return Reach::UpTo(ranges, cursor.at) };
            if cursor.at == self.text.len() {
                return Reach::Everything;
            }
            let marker = self.structure.markers.get(cursor.marker);
            let marker_here = marker.filter(|marker| marker.range.start == cursor.at);
            let ends_here = entity_limit <= cursor.at && cursor.at > from.at;
            let stop = if ends_here || marker_here.is_some() {
                cursor.at
            } else {
                let marker = marker.map(|marker| marker.range.start).filter(|start| *start > cursor.at);
                let stop = marker.unwrap_or(usize::MAX).min(context.until).min(entity_limit.max(cursor.at + 1));
                self.text.ceil_char_boundary(stop.min(self.text.len()))
            };
            let segment = &self.text[cursor.at..stop];
            let excess_offset = first_excess_offset(segment, remaining_units, self.limits.unit);
            let last = excess_offset.or_else(|| segment.char_indices().next_back().map(|last| last.0)).unwrap_or(0);
            if context.breakable && marker_here.is_none_or(|marker| marker.opens) {
                ranges.push(CutRange {
                    first: cursor.at,
                    last: cursor.at + last,
                    ends_at_first: cursor.at > from.at && !cursor.after_opener,
                    joins_at_first: cursor.at > from.at && !cursor.after_marker,
                    in_code: context.code.is_some(),
                    in_span: cursor.open > 0,
                    visible_before: cursor.last_visible,
                });
            }
            if ends_here {
                return Reach::UpTo(ranges, cursor.at);
            }
            if marker_here.is_some() {
                self.pass_marker(&mut cursor);
                continue;
            }
            if let Some(offset) = excess_offset
                && let too_far = self.text.ceil_char_boundary(cursor.at + offset + 1)
                && too_far < stop
            {
                return Reach::UpTo(ranges, too_far);
            }
            cursor.used += self.units_of(segment);
            let visible = segment.chars().rev().find(|character| !character.is_whitespace());
            cursor.last_visible = visible.unwrap_or(cursor.last_visible);
            (cursor.at, cursor.after_opener, cursor.after_marker) = (stop, false, false);
        }
    }

    fn pass_marker(&self, cursor: &mut ReachCursor) {
        let marker = &self.structure.markers[cursor.marker];
        let closer = self.closer_cost(marker.span);
        cursor.used += self.marker_cost(&marker.range);
        if marker.opens {
            (cursor.closers, cursor.open) = (cursor.closers + closer, cursor.open + 1);
        } else {
            (cursor.closers, cursor.open) = (cursor.closers.saturating_sub(closer), cursor.open.saturating_sub(1));
        }
        (cursor.at, cursor.after_opener, cursor.after_marker) = (marker.range.end, marker.opens, true);
        cursor.marker += 1;
    }

    /// Where the formatted span begins that is one too many; a chunk that begins with `entities` ends there.
    fn entity_limit_at(&self, from: &ChunkStart, entities: usize) -> usize {
        match self.limits.max_entities.checked_sub(entities) {
            Some(more) => self.structure.entities.get(from.entity.saturating_add(more)).copied().unwrap_or(usize::MAX),
            None => from.at,
        }
    }

    fn context_at(&self, cursor: &mut ReachCursor) -> CutContext<'_> {
        let at = cursor.at;
        while self.structure.blocks.get(cursor.block).is_some_and(|block| block.range.end <= at) {
            cursor.block += 1;
        }
        let Some(block) = self.structure.blocks.get(cursor.block) else {
            return CutContext { code: None, breakable: true, until: usize::MAX };
        };
        let edges = [block.range.start + 1, block.code.start + 1, block.code.end, block.range.end];
        let until = edges.into_iter().filter(|edge| *edge > at).min().unwrap_or(usize::MAX);
        let code = (block.code.start < at && at < block.code.end).then_some(block);
        let breakable = at <= block.range.start || code.is_some_and(|block| self.can_cut(block));
        CutContext { code, breakable, until }
    }
}

/// The offset of the first character that no longer fits.
fn first_excess_offset(text: &str, mut remaining_units: usize, unit: TextUnit) -> Option<usize> {
    const BLOCK_BYTES: usize = 256;
    // A byte is at least as long as a unit.
    if text.len() <= remaining_units {
        return None;
    }
    let mut start = 0;
    while start < text.len() {
        let end = text.ceil_char_boundary((start + BLOCK_BYTES).min(text.len()));
        let block_units = units(&text[start..end], unit);
        if block_units > remaining_units {
            break;
        }
        (remaining_units, start) = (remaining_units - block_units, end);
    }
    text[start..].char_indices().find_map(|(offset, character)| {
        let cost = units(character.encode_utf8(&mut [0; 4]), unit);
        let fits = cost <= remaining_units;
        remaining_units = remaining_units.saturating_sub(cost);
        (!fits).then_some(start + offset)
    })
}
