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

/// What stands around a position.
struct CutContext<'text> {
    code: Option<&'text CodeBlock>,
    breakable: bool,
    /// The next position at which this may change.
    until: usize,
}

/// The way as it is walked.
struct ReachCursor {
    at: usize,
    marker: usize,
    block: usize,
    used: usize,
    closers: usize,
    open: usize,
    behind_opener: bool,
    behind_marker: bool,
    last_visible: char,
}

impl Chunker<'_> {
    /// Walks from the beginning of a chunk as far as the limit lets it.
    pub(super) fn reach(&self, from: &ChunkStart) -> Reach {
        let reopened = self.reopened(from);
        let opening = |span: &usize| self.marker_cost(&self.structure.spans[*span].open);
        let mut way = ReachCursor {
            at: from.at,
            marker: from.marker,
            block: from.block,
            used: from.open.iter().map(opening).sum::<usize>()
                + reopened.map_or(0, |block| self.units_of(&block.opening)),
            closers: from.open.iter().map(|span| self.closer_cost(*span)).sum(),
            open: from.open.len() + from.unmarked,
            behind_opener: false,
            behind_marker: true,
            last_visible: ' ',
        };
        let too_many = self.entity_limit_at(from, from.open.len() + usize::from(reopened.is_some()));
        let mut stretches = Vec::new();
        loop {
            let around = self.context_at(&mut way);
            let suffix = around.code.map_or(0, |block| match reopened {
                Some(_) if way.block == from.block => block.fence.len() + 1,
                _ => block.closing.len() + 1,
            });
            let room = self.limits.max.checked_sub(way.used + way.closers + suffix);
            let Some(room) = room else { return Reach::UpTo(stretches, way.at) };
            if way.at == self.text.len() {
                return Reach::Everything;
            }
            let marker = self.structure.markers.get(way.marker);
            let here = marker.filter(|marker| marker.range.start == way.at);
            let ends_here = too_many <= way.at && way.at > from.at;
            let stop = if ends_here || here.is_some() {
                way.at
            } else {
                let marker = marker.map(|marker| marker.range.start).filter(|start| *start > way.at);
                let stop = marker.unwrap_or(usize::MAX).min(around.until).min(too_many.max(way.at + 1));
                self.text.ceil_char_boundary(stop.min(self.text.len()))
            };
            let passage = &self.text[way.at..stop];
            let over = first_over(passage, room, self.limits.unit);
            let last = over.or_else(|| passage.char_indices().next_back().map(|last| last.0)).unwrap_or(0);
            if around.breakable && here.is_none_or(|marker| marker.opens) {
                stretches.push(CutRange {
                    first: way.at,
                    last: way.at + last,
                    ends_at_first: way.at > from.at && !way.behind_opener,
                    joins_at_first: way.at > from.at && !way.behind_marker,
                    in_code: around.code.is_some(),
                    in_span: way.open > 0,
                    visible_before: way.last_visible,
                });
            }
            if ends_here {
                return Reach::UpTo(stretches, way.at);
            }
            if here.is_some() {
                self.pass_marker(&mut way);
                continue;
            }
            if let Some(over) = over
                && let too_far = self.text.ceil_char_boundary(way.at + over + 1)
                && too_far < stop
            {
                return Reach::UpTo(stretches, too_far);
            }
            way.used += self.units_of(passage);
            let visible = passage.chars().rev().find(|character| !character.is_whitespace());
            way.last_visible = visible.unwrap_or(way.last_visible);
            (way.at, way.behind_opener, way.behind_marker) = (stop, false, false);
        }
    }

    fn pass_marker(&self, way: &mut ReachCursor) {
        let marker = &self.structure.markers[way.marker];
        let closer = self.closer_cost(marker.span);
        way.used += self.marker_cost(&marker.range);
        if marker.opens {
            (way.closers, way.open) = (way.closers + closer, way.open + 1);
        } else {
            (way.closers, way.open) = (way.closers.saturating_sub(closer), way.open.saturating_sub(1));
        }
        (way.at, way.behind_opener, way.behind_marker) = (marker.range.end, marker.opens, true);
        way.marker += 1;
    }

    /// Where the formatted span begins that is one too many; a chunk that begins with `entities` ends there.
    fn entity_limit_at(&self, from: &ChunkStart, entities: usize) -> usize {
        match self.limits.entities.checked_sub(entities) {
            Some(more) => self.structure.entities.get(from.entity.saturating_add(more)).copied().unwrap_or(usize::MAX),
            None => from.at,
        }
    }

    fn context_at(&self, way: &mut ReachCursor) -> CutContext<'_> {
        let at = way.at;
        while self.structure.blocks.get(way.block).is_some_and(|block| block.range.end <= at) {
            way.block += 1;
        }
        let Some(block) = self.structure.blocks.get(way.block) else {
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
fn first_over(text: &str, mut room: usize, unit: TextUnit) -> Option<usize> {
    const BULK: usize = 256;
    // A byte is at least as long as a unit.
    if text.len() <= room {
        return None;
    }
    let mut start = 0;
    while start < text.len() {
        let end = text.ceil_char_boundary((start + BULK).min(text.len()));
        let bulk = units(&text[start..end], unit);
        if bulk > room {
            break;
        }
        (room, start) = (room - bulk, end);
    }
    text[start..].char_indices().find_map(|(offset, character)| {
        let cost = units(character.encode_utf8(&mut [0; 4]), unit);
        let fits = cost <= room;
        room = room.saturating_sub(cost);
        (!fits).then_some(start + offset)
    })
}
