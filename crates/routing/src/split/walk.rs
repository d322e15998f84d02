//! Walks through a text once, finds the best place for each cut, and closes and reopens what a cut goes through.

use std::ops::Range;

use satchel_domain::capabilities::TextUnit;
use unicode_segmentation::GraphemeCursor;

use super::{
    begins_a_block,
    structure::{CodeBlock, Structure},
    units,
};

/// What a chunk must stay within.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most units of a chunk.
    pub(super) max: usize,
    /// The unit.
    pub(super) unit: TextUnit,
    /// Whether the markers of spans count.
    pub(super) markers_count: bool,
    /// The most formatted spans of a chunk.
    pub(super) entities: usize,
}

/// The kinds of places for a cut, best first; the index into what the walk collects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Paragraph,
    Line,
    CodeLine,
    Sentence,
    Word,
    WordInSpan,
}

/// Where the walk stands at the beginning of a chunk.
#[derive(Debug, Clone, Default)]
struct Position {
    /// The byte.
    at: usize,
    /// The next marker.
    marker: usize,
    /// The first code block that ends behind it.
    block: usize,
    /// The next entity.
    entity: usize,
    /// The spans that are open, outermost first.
    open: Vec<usize>,
}

struct Walk<'text> {
    text: &'text str,
    structure: &'text Structure,
    limits: &'text Limits,
}

/// Hands the chunks of a text to `take`, in order, none of them blank.
pub(super) fn chunks(text: &str, structure: &Structure, limits: &Limits, take: &mut dyn FnMut(String)) {
    let walk = Walk { text, structure, limits };
    let mut position = Position::default();
    while position.at < text.len() {
        let cut = walk.find_cut(&position);
        let next = walk.move_to(&position, cut);
        if let Some(chunk) = walk.chunk(&position, &next) {
            take(chunk);
        }
        position = next;
    }
}

impl Walk<'_> {
    fn marker_cost(&self, range: &Range<usize>) -> usize {
        if self.limits.markers_count { self.weigh(&self.text[range.clone()]) } else { 0 }
    }

    fn weigh(&self, text: &str) -> usize {
        units(text, self.limits.unit)
    }

    /// Whether a span is closed and reopened when it is cut; one with very long markers is left open.
    fn reopens(&self, span: usize) -> bool {
        self.structure.spans[span].nesting <= self.limits.max / 4
    }

    /// The block whose code goes on at this position, if its fence is short enough to be repeated.
    fn reopened(&self, position: &Position) -> Option<&CodeBlock> {
        let block = self.structure.blocks.get(position.block)?;
        let inside = block.code.start < position.at && position.at < block.code.end;
        (inside && self.cuttable(block)).then_some(block)
    }

    fn cuttable(&self, block: &CodeBlock) -> bool {
        block.opening.len() + block.closing.len().max(block.fence.len()) + 2 <= self.limits.max / 2
    }

    /// The best place at which to end the chunk that begins at `from`; the end of the text when all of it fits.
    fn find_cut(&self, from: &Position) -> usize {
        let reopened = self.reopened(from);
        let mut used: usize = from
            .open
            .iter()
            .filter(|span| self.reopens(**span))
            .map(|span| self.marker_cost(&self.structure.spans[*span].open))
            .sum();
        let mut closers: usize = from.open.iter().map(|span| self.closer_cost(*span)).sum();
        let mut entities = from.open.len() + usize::from(reopened.is_some());
        used += reopened.map_or(0, |block| self.weigh(&block.opening));
        let (mut marker, mut entity, mut block_index, mut open) =
            (from.marker, from.entity, from.block, from.open.len());
        let mut found: [Option<usize>; 6] = [None; 6];
        let (mut last_valid, mut after_opener) = (None, false);
        let (mut previous, mut last_visible) = ('\n', ' ');
        let mut at = from.at;
        loop {
            while self.structure.blocks.get(block_index).is_some_and(|block| block.range.end <= at) {
                block_index += 1;
            }
            let block = self.structure.blocks.get(block_index).filter(|block| block.range.start < at);
            let in_code = block.filter(|block| block.code.start < at && at < block.code.end);
            let suffix = match in_code {
                Some(block) if reopened.is_some() && block_index == from.block => block.fence.len() + 1,
                Some(block) => block.closing.len() + 1,
                None => 0,
            };
            if used + closers + suffix > self.limits.max {
                break;
            }
            let Some(character) = self.text[at..].chars().next() else { return at };
            let next_marker = self.structure.markers.get(marker).filter(|marker| marker.range.start == at);
            let closes_here = next_marker.is_some_and(|marker| !marker.opens);
            let breakable = block.is_none() || in_code.is_some_and(|block| self.cuttable(block));
            if at > from.at && breakable && !after_opener && !closes_here {
                last_valid = Some(at);
                // Most characters stand within a word, and asking that first keeps the walk fast.
                if may_be_parted(previous)
                    && let Some(place) =
                        place(previous, last_visible, character, &self.text[at..], &self.text[from.at..at])
                {
                    let place = match (place, in_code.is_some(), open > 0) {
                        (Place::Paragraph | Place::Line, true, _) => Place::CodeLine,
                        (_, true, _) | (_, _, true) => Place::WordInSpan,
                        (place, ..) => place,
                    };
                    found[place as usize] = Some(at);
                }
            }
            while self.structure.entities.get(entity).is_some_and(|start| *start <= at) {
                entity += 1;
                entities += 1;
            }
            if entities > self.limits.entities && at > from.at {
                break;
            }
            if let Some(next) = next_marker {
                used += self.marker_cost(&next.range);
                let closer = self.closer_cost(next.span);
                if next.opens {
                    (closers, open) = (closers + closer, open + 1);
                } else {
                    (closers, open) = (closers.saturating_sub(closer), open.saturating_sub(1));
                }
                (at, marker, after_opener) = (next.range.end, marker + 1, next.opens);
                continue;
            }
            after_opener = false;
            used += match self.limits.unit {
                TextUnit::Chars => 1,
                TextUnit::Utf16 | TextUnit::Utf16Source => character.len_utf16(),
            };
            previous = character;
            if !character.is_whitespace() {
                last_visible = character;
            }
            at += character.len_utf8();
        }
        self.choose(from, at, &found, last_valid)
    }

    fn closer_cost(&self, span: usize) -> usize {
        if self.reopens(span) { self.marker_cost(&self.structure.spans[span].close) } else { 0 }
    }

    /// Chooses among the places found: the best kind that leaves no tiny chunk, then the best kind, then any character.
    fn choose(&self, from: &Position, end: usize, found: &[Option<usize>; 6], last_valid: Option<usize>) -> usize {
        let enough = from.at + (end - from.at) / 3;
        let outside = &found[..Place::WordInSpan as usize];
        let sound = |at: &usize| self.between_graphemes(from.at, *at);
        let well_filled = outside.iter().flatten().copied().filter(|at| *at >= enough).find(sound);
        if let Some(at) = well_filled.or_else(|| found.iter().flatten().copied().find(sound)) {
            return at;
        }
        if let Some(last) = last_valid {
            let earlier = self.text[from.at..last].char_indices().rev().map(|(offset, _)| from.at + offset);
            let candidates = std::iter::once(last).chain(earlier.take_while(|at| *at > from.at));
            let boundary = candidates.filter(|at| !self.inside_marker(from, *at)).find(sound);
            return boundary.unwrap_or(last);
        }
        self.forced(from)
    }

    /// Whether a cut would go through a marker or leave a span empty.
    fn inside_marker(&self, from: &Position, at: usize) -> bool {
        let markers = &self.structure.markers[from.marker..];
        let next = markers.partition_point(|marker| marker.range.end < at);
        markers[next..].iter().take(2).any(|marker| {
            let begins_before = marker.range.start < at || (!marker.opens && marker.range.start == at);
            let ends_behind = at < marker.range.end || (marker.opens && at == marker.range.end);
            begins_before && ends_behind
        })
    }

    /// Where nothing may be cut, the text is cut all the same: after as many characters as surely fit.
    fn forced(&self, from: &Position) -> usize {
        let reopening = |span: &&usize| self.reopens(**span);
        let reopening = from.open.iter().filter(reopening).map(|span| self.structure.spans[*span].nesting);
        let mut room = self.limits.max.saturating_sub(reopening.max().unwrap_or(0));
        let rest = &self.text[from.at..];
        let fitting = rest.char_indices().find(|(_, character)| {
            let cost = self.weigh(character.encode_utf8(&mut [0; 4]));
            let over = cost > room;
            room = room.saturating_sub(cost);
            over
        });
        let first = rest.chars().next().map_or(0, char::len_utf8);
        from.at + fitting.map_or(rest.len(), |(offset, _)| offset).max(first)
    }

    /// Whether no grapheme cluster goes through `at`. A chunk begins at a boundary, so nothing before it matters.
    fn between_graphemes(&self, from: usize, at: usize) -> bool {
        let end = self.text.ceil_char_boundary((at + 8).min(self.text.len()));
        let window = &self.text[from..end];
        GraphemeCursor::new(at - from, window.len(), true).is_boundary(window, 0).unwrap_or(true)
    }

    fn move_to(&self, from: &Position, at: usize) -> Position {
        let mut next = Position { at, ..from.clone() };
        while let Some(marker) = self.structure.markers.get(next.marker).filter(|marker| marker.range.end <= at) {
            if marker.opens {
                next.open.push(marker.span);
            } else {
                next.open.retain(|span| *span != marker.span);
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
    fn chunk(&self, from: &Position, to: &Position) -> Option<String> {
        let mut chunk = String::new();
        let reopened = self.reopened(from);
        let mut rest = from.at;
        if let Some(block) = reopened {
            let end = to.at.min(block.code.end);
            let first_gap = block.gaps.partition_point(|gap| gap.end <= rest);
            for gap in block.gaps[first_gap..].iter().take_while(|gap| gap.start < end) {
                chunk.push_str(&self.text[rest..gap.start.max(rest)]);
                rest = gap.end.min(end);
            }
            chunk.push_str(&self.text[rest..end]);
            if to.at < block.code.end {
                return (!chunk.trim().is_empty()).then(|| closed(format!("{}{chunk}", block.opening), &block.fence));
            }
            chunk = closed(format!("{}{chunk}", block.opening), &block.fence);
            rest = to.at.min(block.range.end);
            let behind = &self.text[rest..to.at];
            if !behind.starts_with('\n') && !behind.trim().is_empty() {
                chunk.push('\n');
            }
            chunk.push_str(behind);
        } else {
            let openers = from.open.iter().filter(|span| self.reopens(**span));
            openers.for_each(|span| chunk.push_str(&self.text[self.structure.spans[*span].open.clone()]));
            let body = self.text[from.at..to.at].trim_start();
            let begins = to.at - body.len();
            // The indentation of an indented block is what makes it one.
            if self.structure.blocks[from.block..]
                .first()
                .is_some_and(|b| b.closing.is_empty() && b.code.start == begins)
            {
                chunk.push_str("    ");
            }
            chunk.push_str(body);
            if body.is_empty() {
                return None;
            }
        }
        if let Some(block) = self.reopened(to) {
            return Some(if block.closing.is_empty() { chunk } else { closed(chunk, &block.closing) });
        }
        chunk.truncate(chunk.trim_end().len());
        let closers = to.open.iter().rev().filter(|span| self.reopens(**span));
        closers.for_each(|span| chunk.push_str(&self.text[self.structure.spans[*span].close.clone()]));
        Some(chunk)
    }
}

/// The lines with the fence that closes them on a line of its own.
fn closed(mut lines: String, fence: &str) -> String {
    if !lines.ends_with('\n') {
        lines.push('\n');
    }
    lines.push_str(fence);
    lines
}

/// Whether a word can end with this character: white space, or the full stops after which none is written.
fn may_be_parted(previous: char) -> bool {
    previous.is_whitespace() || matches!(previous, '。' | '！' | '？')
}

/// What kind of place lies between two characters; `None` where a cut would go through a word or change a meaning.
fn place(previous: char, last_visible: char, next: char, rest: &str, before: &str) -> Option<Place> {
    if matches!(next, '\n' | '\r') || (next.is_whitespace() && previous != '\n') {
        return None;
    }
    if previous == '\n' {
        let blank = |c: &char| matches!(c, ' ' | '\t' | '\r');
        let before_newline = before.chars().rev().skip(1).find(|c| !blank(c));
        return Some(if before_newline == Some('\n') { Place::Paragraph } else { Place::Line });
    }
    let place = if previous.is_whitespace() {
        match last_visible {
            '.' | '!' | '?' | '…' | '。' | '！' | '？' => Place::Sentence,
            _ => Place::Word,
        }
    } else if next.is_alphanumeric() {
        Place::Sentence
    } else {
        return None;
    };
    (!begins_a_block(rest)).then_some(place)
}
