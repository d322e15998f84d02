//! The best place at which to end a chunk: between paragraphs, lines, sentences, words, then any characters.

use unicode_segmentation::GraphemeCursor;

use super::{
    chunker::{ChunkStart, Chunker},
    reach::{CutRange, Reach},
    starts_block,
};

/// The kinds of cuts, best first; also the index into the results of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutKind {
    Paragraph,
    Line,
    CodeLine,
    Sentence,
    Word,
    WordInSpan,
}

/// The kinds of cuts that go through no span, best first.
const OUTSIDE_SPANS: [CutKind; 5] =
    [CutKind::Paragraph, CutKind::Line, CutKind::CodeLine, CutKind::Sentence, CutKind::Word];

/// Looks for the last place of each kind, from the end of the reach towards its beginning.
struct CutSearch<'text> {
    chunker: &'text Chunker<'text>,
    from: usize,
    ranges: Vec<CutRange>,
    found: [Option<usize>; 6],
}

impl Chunker<'_> {
    /// The best place at which to end the chunk that begins at `from`; the end of the text when all of it fits.
    pub(super) fn find_cut(&self, from: &ChunkStart) -> usize {
        let Reach::UpTo(ranges, end) = self.reach(from) else { return self.text.len() };
        let mut search = CutSearch { chunker: self, from: from.at, ranges, found: [None; 6] };
        if let Some(cut) = search.best_cut(end) {
            return cut;
        }
        let Some(last) = search.ranges.iter().rev().find_map(CutRange::last_end) else {
            return self.forced_cut(from);
        };
        let earlier = self.text[from.at..last].char_indices().rev().map(|(offset, _)| from.at + offset);
        let candidates = std::iter::once(last).chain(earlier.take_while(|at| *at > from.at));
        let mut outside_markers = candidates.filter(|at| !self.is_inside_marker(from, *at));
        outside_markers.find(|at| self.is_grapheme_boundary(from.at, *at)).unwrap_or(last)
    }

    /// Whether a cut would go through a marker or leave a span empty.
    fn is_inside_marker(&self, from: &ChunkStart, at: usize) -> bool {
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
        let mut remaining_units = self.limits.max.saturating_sub(reopening.max().unwrap_or(0));
        let rest = &self.text[from.at..];
        let fitting = rest.char_indices().find(|(_, character)| {
            let cost = self.units_of(character.encode_utf8(&mut [0; 4]));
            let exceeds = cost > remaining_units;
            remaining_units = remaining_units.saturating_sub(cost);
            exceeds
        });
        let first = rest.chars().next().map_or(0, char::len_utf8);
        from.at + fitting.map_or(rest.len(), |(offset, _)| offset).max(first)
    }

    /// Whether no grapheme cluster goes through `at`. A chunk begins at a boundary, so nothing before it matters.
    fn is_grapheme_boundary(&self, from: usize, at: usize) -> bool {
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
    fn cut_kind(&self, kind: CutKind) -> CutKind {
        match (kind, self.in_code, self.in_span) {
            (CutKind::Paragraph | CutKind::Line, true, _) => CutKind::CodeLine,
            (_, true, _) | (_, _, true) => CutKind::WordInSpan,
            (kind, ..) => kind,
        }
    }
}

impl CutSearch<'_> {
    /// The best kind of place that leaves no tiny chunk, then the best kind.
    fn best_cut(&mut self, end: usize) -> Option<usize> {
        let min_end = self.from + (end - self.from) / 3;
        self.scan_line_starts(min_end, end + 1);
        if let Some(cut) = self.last_valid(&OUTSIDE_SPANS) {
            return Some(cut);
        }
        self.scan_sentence_starts(min_end, end + 1);
        if let Some(cut) = self.last_valid(&OUTSIDE_SPANS) {
            return Some(cut);
        }
        self.scan_line_starts(self.from, min_end);
        self.scan_sentence_starts(self.from, min_end);
        self.last_valid(&OUTSIDE_SPANS).or_else(|| self.last_valid(&[CutKind::WordInSpan]))
    }

    /// The first of these kinds of which the last place goes through no grapheme.
    fn last_valid(&self, kinds: &[CutKind]) -> Option<usize> {
        let found = kinds.iter().filter_map(|kind| self.found[*kind as usize]);
        found.into_iter().find(|at| self.chunker.is_grapheme_boundary(self.from, *at))
    }

    fn is_improvement(&self, kind: CutKind, at: usize) -> bool {
        self.found[kind as usize].is_none_or(|found| found < at)
    }

    fn has_valid(&self, kind: CutKind) -> bool {
        self.last_valid(&[kind]).is_some()
    }

    /// Looks at the beginnings of lines, `low..high`, until one of a paragraph is found.
    fn scan_line_starts(&mut self, low: usize, high: usize) {
        for index in (0..self.ranges.len()).rev() {
            let range = &self.ranges[index];
            if range.last < low {
                return;
            }
            let (begin, mut last) = self.chars_in_range(range, low, high);
            while let Some(newline) = self.chunker.text.get(begin..last).and_then(|text| text.rfind('\n')) {
                let at = begin + newline + 1;
                let range = &self.ranges[index];
                if let Some(kind) = self.line_cut(at).map(|kind| range.cut_kind(kind))
                    && self.is_improvement(kind, at)
                {
                    self.found[kind as usize] = Some(at);
                    if kind == CutKind::Paragraph && self.has_valid(kind) {
                        return;
                    }
                }
                last = at - 1;
            }
        }
    }

    /// Looks at the beginnings of words, `low..high`, until one of a sentence is found.
    fn scan_sentence_starts(&mut self, low: usize, high: usize) {
        for index in (0..self.ranges.len()).rev() {
            let range = &self.ranges[index];
            if range.last < low {
                return;
            }
            let (begin, last) = self.chars_in_range(range, low, high);
            let Some(text) = self.chunker.text.get(begin..last) else { continue };
            let mut next = self.chunker.text[last..].chars().next().unwrap_or('\n');
            for (offset, previous) in text.char_indices().rev() {
                let following = std::mem::replace(&mut next, previous);
                // Most characters stand within a word, and asking that first keeps the search fast.
                if !can_end_word(previous) || following.is_whitespace() {
                    continue;
                }
                let at = begin + offset + previous.len_utf8();
                let range = &self.ranges[index];
                let Some(kind) = self.word_cut(range, previous, following, at).map(|kind| range.cut_kind(kind)) else {
                    continue;
                };
                if self.is_improvement(kind, at) && !starts_block(&self.chunker.text[at..]) {
                    self.found[kind as usize] = Some(at);
                    if kind == CutKind::Sentence && self.has_valid(kind) {
                        return;
                    }
                }
            }
        }
    }

    /// The characters of a stretch with a position of `low..high` behind them: where they begin, and the last position.
    fn chars_in_range(&self, range: &CutRange, low: usize, high: usize) -> (usize, usize) {
        let text = self.chunker.text;
        let before = |at: usize| text.floor_char_boundary(at.saturating_sub(1));
        let begin = if range.joins_at_first { before(range.first) } else { range.first };
        let begin = if low > range.first { begin.max(before(text.ceil_char_boundary(low))) } else { begin };
        (begin, if high <= range.last { before(high) } else { range.last })
    }

    /// The kind of place at the beginning of a line; `None` where the line is blank.
    fn line_cut(&self, at: usize) -> Option<CutKind> {
        let bytes = self.chunker.text.as_bytes();
        if matches!(bytes.get(at), Some(b'\n' | b'\r')) {
            return None;
        }
        let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r');
        let before_newline = bytes[self.from..at - 1].iter().rev().find(|byte| !is_blank(byte));
        Some(if before_newline == Some(&b'\n') { CutKind::Paragraph } else { CutKind::Line })
    }

    /// The kind of place between two characters that may be parted; `None` where a cut would go through a word.
    fn word_cut(&self, range: &CutRange, previous: char, next: char, at: usize) -> Option<CutKind> {
        if !previous.is_whitespace() {
            return next.is_alphanumeric().then_some(CutKind::Sentence);
        }
        let before = &self.chunker.text[range.first.min(at)..at];
        let visible = before.chars().rev().find(|character| !character.is_whitespace());
        Some(match visible.unwrap_or(range.visible_before) {
            '.' | '!' | '?' | '…' | '。' | '！' | '？' => CutKind::Sentence,
            _ => CutKind::Word,
        })
    }
}

/// Whether a word can end with this character: white space, or the full stops after which none is written.
fn can_end_word(previous: char) -> bool {
    (previous.is_whitespace() && previous != '\n') || matches!(previous, '。' | '！' | '？')
}
