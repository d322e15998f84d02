//! Text of a block, or of a cell, that goes on from chunk to chunk: how much of it fits, and what a part of it looks like.

use satchel_markup::{Measure, TextSize};

use super::{
    serialize::escape_text,
    tokens::{Span, SpanDelimiters, Token, TokenKind, Tokens},
};

/// A position in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProsePosition {
    /// The byte of the source.
    pub(super) at: usize,
    /// The token that it is in, or before.
    pub(super) token: usize,
    /// The spans that are open there, outermost first.
    pub(super) open: Vec<usize>,
}

/// What a part of a text may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) units: usize,
    pub(super) spans: usize,
    /// What is before each further line.
    pub(super) prefix: usize,
    /// The most units and spans of a chunk.
    pub(super) max: (usize, usize),
    /// Whether nothing is before the part in its chunk.
    pub(super) is_fresh: bool,
}

/// How far a text fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProseReach {
    /// All of it, and its size.
    Everything(TextSize),
    /// Up to a byte in a token.
    UpTo { token: usize, at: usize },
}

/// How a part is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// As it is in the source.
    AsWritten,
    /// With every mark escaped that isn't one.
    Escaped,
    /// With every mark escaped and no formatting, so that nothing can be read as a mark.
    Unformatted,
}

/// The text of a block, and how it is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prose<'a> {
    pub(super) source: &'a str,
    pub(super) tokens: &'a Tokens,
    pub(super) measure: &'a Measure,
}

impl<'a> Prose<'a> {
    /// Where the text begins.
    pub(super) fn first_position(&self) -> ProsePosition {
        let at = self.tokens.tokens.first().map_or(0, |token| token.range.start);
        ProsePosition { at, ..ProsePosition::default() }
    }

    /// Where it ends.
    pub(super) fn last_position(&self) -> ProsePosition {
        let at = self.tokens.tokens.last().map_or(0, |token| token.range.end);
        ProsePosition { at, token: self.tokens.tokens.len(), open: Vec::new() }
    }

    fn span(&self, index: usize) -> &'a Span {
        &self.tokens.spans[index]
    }

    /// Whether a span is closed and opened again when it is cut; one with very long marks, or within very many spans, is
    /// left open, so that a chunk always has room for more than what it repeats.
    fn can_reopen(&self, span: usize, budget: &Budget) -> bool {
        let span = self.span(span);
        span.nesting <= budget.max.0 / 4 && span.depth <= budget.max.1.div_ceil(2)
    }

    /// The part of a token behind `at`.
    fn rest(&self, token: &Token, at: usize) -> &'a str {
        &self.source[token.range.start.max(at)..token.range.end]
    }

    /// How far the text fits, from a position on.
    pub(super) fn reach(&self, from: &ProsePosition, budget: &Budget) -> ProseReach {
        let reopened = || from.open.iter().filter(|span| self.can_reopen(**span, budget)).map(|span| self.span(*span));
        let mut closing: usize = reopened().map(|span| span.close_units).sum();
        let mut used = TextSize {
            units: reopened().map(|span| span.open_units).sum(),
            spans: reopened().map(|span| span.spans).sum(),
            breaks: 0,
        };
        let tokens = &self.tokens.tokens;
        // An atom that is longer than a chunk is cut like any characters.
        let is_cut_atom = |index: usize, size: TextSize, free: usize| {
            let is_first = budget.is_fresh && index == from.token;
            is_first && (size.units > free || size.spans > budget.spans)
        };
        for (index, token) in tokens.iter().enumerate().skip(from.token) {
            let start = token.range.start.max(from.at);
            let room = |used: &TextSize, closing: usize| {
                budget.units.checked_sub(used.units + closing).filter(|_| used.spans <= budget.spans)
            };
            let stop = ProseReach::UpTo { token: index, at: start };
            let Some(free) = room(&used, closing) else { return stop };
            match &token.kind {
                TokenKind::Open(span) => {
                    let can_reopen = self.can_reopen(*span, budget);
                    let span = self.span(*span);
                    used.units += span.open_units;
                    used.spans += span.spans;
                    closing += if can_reopen { span.close_units } else { 0 };
                    if room(&used, closing).is_none() {
                        return stop;
                    }
                }
                TokenKind::Close(span) => {
                    used.units += self.span(*span).close_units;
                    let closed = if self.can_reopen(*span, budget) { self.span(*span).close_units } else { 0 };
                    closing = closing.saturating_sub(closed);
                }
                TokenKind::Break => {
                    used.units += 1 + budget.prefix;
                    used.breaks += 1;
                }
                TokenKind::CodeBreak => used.units += 1,
                TokenKind::Atom(atom) if start == token.range.start && !is_cut_atom(index, atom.size, free) => {
                    if atom.size.units > free || used.spans + atom.size.spans > budget.spans {
                        return stop;
                    }
                    used += atom.size;
                }
                kind @ (TokenKind::Text | TokenKind::Code | TokenKind::Atom(_)) => {
                    let text = self.rest(token, from.at);
                    let units = self.characters(kind, text);
                    if units > free {
                        let at = start + self.first_excess(kind, text, free);
                        return ProseReach::UpTo { token: index, at };
                    }
                    used.units += units;
                }
            }
        }
        if used.units + closing > budget.units || used.spans > budget.spans {
            let at = tokens.last().map_or(0, |token| token.range.end);
            return ProseReach::UpTo { token: tokens.len(), at };
        }
        ProseReach::Everything(used)
    }

    fn characters(&self, kind: &TokenKind, text: &str) -> usize {
        match kind {
            TokenKind::Code => self.measure.count(text),
            _ => self.measure.text(text),
        }
    }

    /// The offset of the first character that no longer fits.
    fn first_excess(&self, kind: &TokenKind, text: &str, free: usize) -> usize {
        const BLOCK_BYTES: usize = 256;
        let (mut start, mut free) = (0, free);
        while start < text.len() {
            let end = text.ceil_char_boundary((start + BLOCK_BYTES).min(text.len()));
            let units = self.characters(kind, &text[start..end]);
            if units > free {
                break;
            }
            (free, start) = (free - units, end);
        }
        let excess = text[start..].char_indices().find(|(_, c)| {
            let units = self.characters(kind, c.encode_utf8(&mut [0; 4]));
            let exceeds = units > free;
            free = free.saturating_sub(units);
            exceeds
        });
        excess.map_or(text.len(), |(offset, _)| start + offset)
    }

    /// The position at a byte behind another one.
    pub(super) fn position_at(&self, from: &ProsePosition, at: usize) -> ProsePosition {
        let mut position = ProsePosition { at, ..from.clone() };
        while let Some(token) = self.tokens.tokens.get(position.token).filter(|token| token.range.end <= at) {
            self.pass(token, &mut position);
        }
        position
    }

    fn pass(&self, token: &Token, position: &mut ProsePosition) {
        match &token.kind {
            TokenKind::Open(span) => position.open.push(*span),
            TokenKind::Close(span) => position.open.retain(|open| open != span),
            _ => {}
        }
        position.at = position.at.max(token.range.end);
        position.token += 1;
    }

    /// The position of the next character that is no white space.
    pub(super) fn skip_blanks(&self, mut position: ProsePosition) -> ProsePosition {
        while let Some(token) = self.tokens.tokens.get(position.token) {
            match &token.kind {
                TokenKind::Break | TokenKind::CodeBreak | TokenKind::Close(_) => {}
                TokenKind::Text | TokenKind::Code => {
                    let rest = self.rest(token, position.at);
                    let blanks = rest.len() - rest.trim_start().len();
                    if blanks < rest.len() {
                        // The backslash that escapes a character is before its token.
                        let start = token.range.start.max(position.at);
                        position.at = if blanks > 0 { start + blanks } else { position.at };
                        return position;
                    }
                }
                TokenKind::Open(_) | TokenKind::Atom(_) => return position,
            }
            self.pass(token, &mut position);
        }
        position
    }

    /// Writes the part between two positions; each further line begins with `prefix`.
    pub(super) fn write(
        &self,
        (from, to): (&ProsePosition, &ProsePosition),
        prefix: &str,
        budget: &Budget,
        writing: Writing,
    ) -> String {
        let mut text = String::new();
        for span in from.open.iter().filter(|span| self.can_reopen(**span, budget)) {
            text.push_str(&self.opening(*span, writing));
        }
        match writing {
            Writing::AsWritten => self.push_as_written(from.at, to, prefix, &mut text),
            Writing::Escaped | Writing::Unformatted => {
                self.push_escaped((from, to), prefix, (budget, writing), &mut text)
            }
        }
        let is_in_code = to.open.iter().any(|span| matches!(self.span(*span).marks, SpanDelimiters::Ticks(_)));
        text.truncate(text.trim_end().len());
        if is_in_code && text.ends_with('`') {
            text.push(' ');
        }
        for span in to.open.iter().rev().filter(|span| self.can_reopen(**span, budget)) {
            text.push_str(&self.closing(*span, writing));
        }
        text
    }

    fn opening(&self, span: usize, writing: Writing) -> String {
        let span = self.span(span);
        match writing {
            Writing::AsWritten => self.source[span.open.clone()].trim_end().to_owned(),
            Writing::Escaped => span.marks.opening(),
            Writing::Unformatted => String::new(),
        }
    }

    fn closing(&self, span: usize, writing: Writing) -> String {
        let span = self.span(span);
        let source = &self.source[span.close.clone()];
        match writing {
            Writing::Unformatted => String::new(),
            // An address may be defined elsewhere, or be on a line of its own.
            Writing::AsWritten if !matches!(span.marks, SpanDelimiters::Link(_)) => source.trim_start().to_owned(),
            Writing::AsWritten if source.starts_with("](") && !source.contains('\n') => source.to_owned(),
            _ => span.marks.closing(),
        }
    }

    /// The source, with the prefix in place of what was before each line.
    fn push_as_written(&self, from: usize, to: &ProsePosition, prefix: &str, text: &mut String) {
        let mut start = from;
        let first = self.tokens.tokens.partition_point(|token| token.range.end <= from);
        for token in self.tokens.tokens[first.min(to.token)..to.token].iter() {
            let range = token.range.start.max(start)..token.range.end.min(to.at);
            if range.is_empty() {
                continue;
            }
            let break_text = &self.source[range.clone()];
            match &token.kind {
                TokenKind::Break => {
                    text.push_str(&self.source[start..range.start]);
                    let line = break_text.find('\n').map_or(break_text, |newline| &break_text[..=newline]);
                    text.push_str(line);
                    if line.ends_with('\n') {
                        text.push_str(prefix);
                    }
                }
                TokenKind::CodeBreak => {
                    text.push_str(&self.source[start..range.start]);
                    text.push(' ');
                }
                TokenKind::Atom(atom) if range == token.range && break_text.contains('\n') => {
                    text.push_str(&self.source[start..range.start]);
                    push_lines(atom.markdown.split('\n'), prefix, text);
                }
                _ if break_text.contains('\n') => {
                    text.push_str(&self.source[start..range.start]);
                    let is_prefix = [' ', '\t', '>'];
                    push_lines(break_text.split('\n').map(|line| line.trim_start_matches(is_prefix)), prefix, text);
                }
                _ => continue,
            }
            start = range.end;
        }
        text.push_str(&self.source[start.min(to.at)..to.at]);
    }

    fn push_escaped(
        &self,
        (from, to): (&ProsePosition, &ProsePosition),
        prefix: &str,
        (budget, writing): (&Budget, Writing),
        text: &mut String,
    ) {
        for token in &self.tokens.tokens[from.token..self.tokens.tokens.len().min(to.token + 1)] {
            let range = token.range.start.max(from.at)..token.range.end.min(to.at);
            if range.is_empty() {
                continue;
            }
            let part = &self.source[range.clone()];
            match &token.kind {
                TokenKind::Text => text.push_str(&escape_text(part)),
                TokenKind::Code if writing == Writing::Unformatted => text.push_str(&escape_text(part)),
                TokenKind::Code => text.push_str(part),
                TokenKind::Atom(atom) if range == token.range => push_lines(atom.markdown.split('\n'), prefix, text),
                TokenKind::Atom(_) => text.push_str(&escape_text(part)),
                TokenKind::Break => {
                    text.push('\n');
                    text.push_str(prefix);
                }
                TokenKind::CodeBreak => text.push(' '),
                TokenKind::Open(span) => {
                    if self.can_reopen(*span, budget) || self.span(*span).close.end <= to.at {
                        text.push_str(&self.opening(*span, writing));
                    }
                }
                TokenKind::Close(span) => {
                    if self.can_reopen(*span, budget) || self.span(*span).open.start >= from.at {
                        text.push_str(&self.closing(*span, writing));
                    } else if let SpanDelimiters::Link(address) = &self.span(*span).marks {
                        // A link that is cut and has no room for its address in each part has it behind the last one.
                        text.push_str(&format!(" ({})", escape_text(address)));
                    }
                }
            }
        }
    }

    /// The characters between two positions, without marks.
    pub(super) fn push_plain(&self, from: &ProsePosition, to: &ProsePosition, text: &mut String) {
        for token in &self.tokens.tokens[from.token..self.tokens.tokens.len().min(to.token + 1)] {
            let range = token.range.start.max(from.at)..token.range.end.min(to.at);
            match &token.kind {
                _ if range.is_empty() => {}
                TokenKind::Atom(atom) if range == token.range => text.push_str(&atom.plain),
                TokenKind::Text | TokenKind::Code | TokenKind::Atom(_) => text.push_str(&self.source[range]),
                TokenKind::Break | TokenKind::CodeBreak => text.push(' '),
                TokenKind::Open(_) | TokenKind::Close(_) => {}
            }
        }
    }
}

/// Lines with a prefix before each but the first.
fn push_lines<'line>(lines: impl Iterator<Item = &'line str>, prefix: &str, text: &mut String) {
    for (index, line) in lines.enumerate() {
        if index > 0 {
            text.push('\n');
            text.push_str(prefix);
        }
        text.push_str(line);
    }
}
