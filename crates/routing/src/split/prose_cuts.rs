//! The best place at which to end a part of a text: between lines, sentences, words, then any characters.

use unicode_segmentation::GraphemeCursor;

use super::{
    cut::CutKind,
    prose::{Prose, ProsePosition},
    starts_block,
    tokens::TokenKind,
};

impl Prose<'_> {
    /// The last place of the best kind from `low` to the end of the reach, for kinds up to `worst`.
    pub(super) fn last_cut(
        &self,
        from: &ProsePosition,
        (token, end): (usize, usize),
        low: usize,
        worst: CutKind,
    ) -> Option<(CutKind, usize)> {
        let low = low.max(from.at + 1);
        if let Some(cut) = self.last_line(from, (token, end), low) {
            return Some(cut);
        }
        let mut best: Option<(CutKind, usize)> = None;
        let tokens = &self.tokens.tokens;
        for index in (from.token..tokens.len().min(token + 1)).rev() {
            let token = &tokens[index];
            let range = token.range.start.max(low.saturating_sub(4)).max(from.at)..token.range.end.min(end);
            if token.range.end < low {
                break;
            }
            if range.is_empty() || !matches!(token.kind, TokenKind::Text | TokenKind::Code) {
                continue;
            }
            let start = self.source.floor_char_boundary(range.start);
            let text = &self.source[start..range.end];
            let mut following = self.following(index, range.end);
            for (offset, c) in text.char_indices().rev() {
                let next = following.replace(c);
                let at = start + offset + c.len_utf8();
                // Most characters are within a word, and this is what keeps the search fast.
                let Some(next) = next.filter(|next| can_end_word(c) && !next.is_whitespace()) else { continue };
                let Some(kind) = self.word_cut(c, next, at, token.depth) else { continue };
                let is_better = best.is_none_or(|(best, _)| kind < best);
                if at >= low && kind <= worst && is_better && self.is_free(from, at) {
                    best = Some((kind, at));
                    if kind == CutKind::Sentence {
                        return best;
                    }
                }
            }
        }
        best
    }

    /// The last line break of the reach; one before a blank line is better.
    fn last_line(&self, from: &ProsePosition, (token, end): (usize, usize), low: usize) -> Option<(CutKind, usize)> {
        let tokens = &self.tokens.tokens[..self.tokens.tokens.len().min(token + 1)];
        let mut best = None;
        for token in tokens[from.token..].iter().rev() {
            if token.range.end < low {
                break;
            }
            let at = token.range.start;
            if !matches!(token.kind, TokenKind::Break) || at > end || at < low || at <= from.at {
                continue;
            }
            if token.depth == 0 && !starts_block(&self.source[token.range.end..]) {
                let newlines = self.source[token.range.clone()].matches('\n').count();
                if newlines > 1 {
                    return Some((CutKind::Paragraph, at));
                }
                best = best.or(Some((CutKind::Line, at)));
            }
        }
        best
    }

    /// The character behind a position, if it can be parted from what is before it: `None` before a mark that closes a
    /// span and before a line break.
    fn following(&self, index: usize, end: usize) -> Option<char> {
        let tokens = &self.tokens.tokens;
        if end < tokens[index].range.end {
            return self.source[end..].chars().next();
        }
        for token in &tokens[index + 1..] {
            match token.kind {
                TokenKind::Open(_) => {}
                TokenKind::Close(_) | TokenKind::Break | TokenKind::CodeBreak => return None,
                _ => return self.source[token.range.start..].chars().next(),
            }
        }
        None
    }

    /// The kind of place between two characters that may be parted; `None` where a cut would go through a word.
    fn word_cut(&self, previous: char, next: char, at: usize, depth: usize) -> Option<CutKind> {
        let (sentence, word) =
            if depth > 0 { (CutKind::SentenceInSpan, CutKind::WordInSpan) } else { (CutKind::Sentence, CutKind::Word) };
        if !previous.is_whitespace() {
            return next.is_alphanumeric().then_some(sentence);
        }
        let is_visible = |c: &char| !c.is_whitespace() && !matches!(c, '*' | '_' | '`');
        Some(match self.source[..at].chars().rev().take(64).find(is_visible) {
            Some('.' | '!' | '?' | '…' | '。' | '！' | '？') => sentence,
            _ => word,
        })
    }

    /// Whether a chunk may begin here: with nothing that would be a block there, and within no grapheme.
    fn is_free(&self, from: &ProsePosition, at: usize) -> bool {
        !starts_block(&self.source[at..]) && self.is_grapheme_boundary(from.at, at)
    }

    /// Falls back to cutting after as many characters as fit, at least one.
    pub(super) fn forced_cut(&self, from: &ProsePosition, (token, end): (usize, usize)) -> usize {
        let tokens = &self.tokens.tokens;
        for index in (from.token..tokens.len().min(token + 1)).rev() {
            let token = &tokens[index];
            let range = token.range.start.max(from.at)..token.range.end.min(end);
            let closes = matches!(tokens.get(index + 1).map(|token| &token.kind), Some(TokenKind::Close(_)));
            let is_atom = matches!(token.kind, TokenKind::Atom(_));
            if is_atom && !range.is_empty() && range.end == token.range.end && !closes {
                return range.end;
            }
            let is_cut = matches!(token.kind, TokenKind::Text | TokenKind::Code) || (is_atom && index == from.token);
            if range.is_empty() || !is_cut {
                continue;
            }
            let boundaries = self.source[range.clone()].char_indices().rev().map(|(offset, _)| range.start + offset);
            let mut cuts = std::iter::once(range.end).chain(boundaries).filter(|at| *at > from.at);
            let found = cuts.find(|at| {
                let is_edge = (*at == token.range.start && index > from.token) || (*at == token.range.end && closes);
                !is_edge && self.is_grapheme_boundary(from.at, *at)
            });
            if let Some(at) = found.or_else(|| (range.end > from.at).then_some(range.end)) {
                return at;
            }
        }
        self.first_character(from)
    }

    /// The end of the first character behind a position.
    fn first_character(&self, from: &ProsePosition) -> usize {
        let token = self.tokens.tokens[from.token.min(self.tokens.tokens.len())..].iter().find(|token| {
            matches!(token.kind, TokenKind::Text | TokenKind::Code | TokenKind::Atom(_)) && token.range.end > from.at
        });
        let Some(token) = token else { return self.last_position().at };
        let start = token.range.start.max(from.at);
        start + self.source[start..].chars().next().map_or(0, char::len_utf8)
    }

    /// Whether no grapheme cluster goes through `at`. A chunk begins at a boundary, so nothing before it matters.
    fn is_grapheme_boundary(&self, from: usize, at: usize) -> bool {
        let bytes = self.source.as_bytes();
        let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        if is_word(bytes.get(at)) && bytes.get(at.wrapping_sub(1)).is_some_and(u8::is_ascii) {
            return true;
        }
        let end = self.source.ceil_char_boundary((at + 8).min(self.source.len()));
        let window = &self.source[from.min(at)..end];
        GraphemeCursor::new(at - from.min(at), window.len(), true).is_boundary(window, 0).unwrap_or(true)
    }
}

/// Whether a word can end with this character: white space, or the full stops after which none is written.
fn can_end_word(previous: char) -> bool {
    (previous.is_whitespace() && previous != '\n') || matches!(previous, '。' | '！' | '？')
}
