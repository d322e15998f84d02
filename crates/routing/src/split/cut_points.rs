//! The best place at which to end a chunk: between paragraphs, lines, sentences, words, then any characters.

use unicode_segmentation::GraphemeCursor;

use super::{
    begins_a_block,
    chunker::{ChunkStart, Chunker},
    reach::{CutRange, Reach},
};

/// The kinds of places for a cut, best first; the index into what the search has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutKind {
    Paragraph,
    Line,
    CodeLine,
    Sentence,
    Word,
    WordInSpan,
}

/// The kinds of places that go through no span, best first.
const OUTSIDE: [CutKind; 5] = [CutKind::Paragraph, CutKind::Line, CutKind::CodeLine, CutKind::Sentence, CutKind::Word];

/// Looks for the last place of each kind, from the end of the reach towards its beginning.
struct CutSearch<'text> {
    walk: &'text Chunker<'text>,
    from: usize,
    stretches: Vec<CutRange>,
    found: [Option<usize>; 6],
}

impl Chunker<'_> {
    /// The best place at which to end the chunk that begins at `from`; the end of the text when all of it fits.
    pub(super) fn find_cut(&self, from: &ChunkStart) -> usize {
        let Reach::UpTo(stretches, end) = self.reach(from) else { return self.text.len() };
        let mut search = CutSearch { walk: self, from: from.at, stretches, found: [None; 6] };
        if let Some(place) = search.best_cut(end) {
            return place;
        }
        let Some(last) = search.stretches.iter().rev().find_map(CutRange::last_end) else {
            return self.forced_cut(from);
        };
        let earlier = self.text[from.at..last].char_indices().rev().map(|(offset, _)| from.at + offset);
        let candidates = std::iter::once(last).chain(earlier.take_while(|at| *at > from.at));
        let mut outside_markers = candidates.filter(|at| !self.inside_marker(from, *at));
        outside_markers.find(|at| self.between_graphemes(from.at, *at)).unwrap_or(last)
    }

    /// Whether a cut would go through a marker or leave a span empty.
    fn inside_marker(&self, from: &ChunkStart, at: usize) -> bool {
        let markers = &self.structure.markers[from.marker..];
        let next = markers.partition_point(|marker| marker.range.end < at);
        markers[next..].iter().take(2).any(|marker| {
            let begins_before = marker.range.start < at || (!marker.opens && marker.range.start == at);
            let ends_behind = at < marker.range.end || (marker.opens && at == marker.range.end);
            begins_before && ends_behind
        })
    }

    /// Where nothing may be cut, the text is cut all the same: after as many characters as surely fit.
    fn forced_cut(&self, from: &ChunkStart) -> usize {
        let reopening = from.open.iter().map(|span| self.structure.spans[*span].nesting);
        let mut room = self.limits.max.saturating_sub(reopening.max().unwrap_or(0));
        let rest = &self.text[from.at..];
        let fitting = rest.char_indices().find(|(_, character)| {
            let cost = self.units_of(character.encode_utf8(&mut [0; 4]));
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
}

impl CutRange {
    /// The last position at which a chunk may end.
    fn last_end(&self) -> Option<usize> {
        (self.last > self.first || self.ends_at_first).then_some(self.last)
    }

    /// The kind of place that it makes of one of this kind.
    fn cut_kind(&self, place: CutKind) -> CutKind {
        match (place, self.in_code, self.in_span) {
            (CutKind::Paragraph | CutKind::Line, true, _) => CutKind::CodeLine,
            (_, true, _) | (_, _, true) => CutKind::WordInSpan,
            (place, ..) => place,
        }
    }
}

impl CutSearch<'_> {
    /// The best kind of place that leaves no tiny chunk, then the best kind.
    fn best_cut(&mut self, end: usize) -> Option<usize> {
        let enough = self.from + (end - self.from) / 3;
        self.lines(enough, end + 1);
        if let Some(place) = self.last_valid(&OUTSIDE) {
            return Some(place);
        }
        self.scan_sentence_starts(enough, end + 1);
        if let Some(place) = self.last_valid(&OUTSIDE) {
            return Some(place);
        }
        self.lines(self.from, enough);
        self.scan_sentence_starts(self.from, enough);
        self.last_valid(&OUTSIDE).or_else(|| self.last_valid(&[CutKind::WordInSpan]))
    }

    /// The first of these kinds of which the last place goes through no grapheme.
    fn last_valid(&self, places: &[CutKind]) -> Option<usize> {
        let found = places.iter().filter_map(|place| self.found[*place as usize]);
        found.into_iter().find(|at| self.walk.between_graphemes(self.from, *at))
    }

    fn is_improvement(&self, place: CutKind, at: usize) -> bool {
        self.found[place as usize].is_none_or(|found| found < at)
    }

    fn has_valid(&self, place: CutKind) -> bool {
        self.last_valid(&[place]).is_some()
    }

    /// Looks at the beginnings of lines, `low..high`, until one of a paragraph is found.
    fn lines(&mut self, low: usize, high: usize) {
        for index in (0..self.stretches.len()).rev() {
            let stretch = &self.stretches[index];
            if stretch.last < low {
                return;
            }
            let (begin, mut last) = self.chars_in_range(stretch, low, high);
            while let Some(newline) = self.walk.text.get(begin..last).and_then(|text| text.rfind('\n')) {
                let at = begin + newline + 1;
                let stretch = &self.stretches[index];
                if let Some(place) = self.line_cut(at).map(|place| stretch.cut_kind(place))
                    && self.is_improvement(place, at)
                {
                    self.found[place as usize] = Some(at);
                    if place == CutKind::Paragraph && self.has_valid(place) {
                        return;
                    }
                }
                last = at - 1;
            }
        }
    }

    /// Looks at the beginnings of words, `low..high`, until one of a sentence is found.
    fn scan_sentence_starts(&mut self, low: usize, high: usize) {
        for index in (0..self.stretches.len()).rev() {
            let stretch = &self.stretches[index];
            if stretch.last < low {
                return;
            }
            let (begin, last) = self.chars_in_range(stretch, low, high);
            let Some(text) = self.walk.text.get(begin..last) else { continue };
            let mut next = self.walk.text[last..].chars().next().unwrap_or('\n');
            for (offset, previous) in text.char_indices().rev() {
                let following = std::mem::replace(&mut next, previous);
                // Most characters stand within a word, and asking that first keeps the search fast.
                if !can_end_word(previous) || following.is_whitespace() {
                    continue;
                }
                let at = begin + offset + previous.len_utf8();
                let stretch = &self.stretches[index];
                let Some(place) = self.word_cut(stretch, previous, following, at).map(|place| stretch.cut_kind(place))
                else {
                    continue;
                };
                if self.is_improvement(place, at) && !begins_a_block(&self.walk.text[at..]) {
                    self.found[place as usize] = Some(at);
                    if place == CutKind::Sentence && self.has_valid(place) {
                        return;
                    }
                }
            }
        }
    }

    /// The characters of a stretch with a position of `low..high` behind them: where they begin, and the last position.
    fn chars_in_range(&self, stretch: &CutRange, low: usize, high: usize) -> (usize, usize) {
        let text = self.walk.text;
        let before = |at: usize| text.floor_char_boundary(at.saturating_sub(1));
        let begin = if stretch.joins_at_first { before(stretch.first) } else { stretch.first };
        let begin = if low > stretch.first { begin.max(before(text.ceil_char_boundary(low))) } else { begin };
        (begin, if high <= stretch.last { before(high) } else { stretch.last })
    }

    /// The kind of place at the beginning of a line; `None` where the line is blank.
    fn line_cut(&self, at: usize) -> Option<CutKind> {
        let bytes = self.walk.text.as_bytes();
        if matches!(bytes.get(at), Some(b'\n' | b'\r')) {
            return None;
        }
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r');
        let before_newline = bytes[self.from..at - 1].iter().rev().find(|byte| !blank(byte));
        Some(if before_newline == Some(&b'\n') { CutKind::Paragraph } else { CutKind::Line })
    }

    /// The kind of place between two characters that may be parted; `None` where a cut would go through a word.
    fn word_cut(&self, stretch: &CutRange, previous: char, next: char, at: usize) -> Option<CutKind> {
        if !previous.is_whitespace() {
            return next.is_alphanumeric().then_some(CutKind::Sentence);
        }
        let before = &self.walk.text[stretch.first.min(at)..at];
        let visible = before.chars().rev().find(|character| !character.is_whitespace());
        Some(match visible.unwrap_or(stretch.visible_before) {
            '.' | '!' | '?' | '…' | '。' | '！' | '？' => CutKind::Sentence,
            _ => CutKind::Word,
        })
    }
}

/// Whether a word can end with this character: white space, or the full stops after which none is written.
fn can_end_word(previous: char) -> bool {
    (previous.is_whitespace() && previous != '\n') || matches!(previous, '。' | '！' | '？')
}
