//! Code that goes on from chunk to chunk between fences.

use std::ops::Range;

use satchel_markup::{CodeBlock, Measure, TextSize};
use unicode_segmentation::GraphemeCursor;

use super::{ChunkLimits, cut::CutKind};

/// The fences of code that is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fences {
    /// The line before it.
    pub(super) opening: String,
    /// The line behind it.
    pub(super) closing: String,
    /// What they take.
    pub(super) size: TextSize,
}

impl Fences {
    /// Those that the code has, or such as it needs. They take at most a quarter of `max` units.
    pub(super) fn new(code: &CodeBlock<'_>, source: &str, range: &Range<usize>, limits: &ChunkLimits) -> Self {
        let max = limits.max;
        let block = &source[range.clone()];
        let mark = block.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let longest = |mark: char| code.text.split(|c| c != mark).map(str::len).max().unwrap_or(0);
        let (fence, info) = match mark.filter(|_| !block.starts_with(' ')) {
            Some(mark) => {
                let first_line = block.lines().next().unwrap_or_default();
                let info = first_line.trim_start_matches(mark);
                (first_line[..first_line.len() - info.len()].to_owned(), info.trim_end().to_owned())
            }
            None => ("`".repeat(3.max(longest('`') + 1)), code.info.trim().to_owned()),
        };
        let fence = if fence.len() > max / 8 { "~".repeat(3.max(longest('~') + 1)) } else { fence };
        let info = if info.len() > max / 8 { String::new() } else { info };
        let size = limits.measure.fences(&code.text, &code.language());
        Self { opening: format!("{fence}{info}"), closing: fence, size }
    }
}

/// How far code fits, from a byte on: the end of the last character that does.
pub(super) fn code_reach(text: &str, from: usize, budget: usize, prefix: usize, measure: &Measure) -> usize {
    let mut free = budget;
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        let size = measure.code_lines(line);
        let units = size.units + size.breaks * (1 + prefix);
        if units > free {
            let excess = line.char_indices().find(|(_, c)| {
                let units = measure.count(c.encode_utf8(&mut [0; 4]));
                let exceeds = units > free;
                free = free.saturating_sub(units);
                exceeds
            });
            return at + excess.map_or(line.len(), |(offset, _)| offset);
        }
        free -= units;
        at += line.len();
    }
    at
}

/// The best place to cut code before `reach`: between lines, at a blank within a line, between characters.
pub(super) fn code_cut(text: &str, from: usize, reach: usize) -> (CutKind, usize) {
    // Something has to be left, or else all of it would fit.
    let last = text.chars().next_back().map_or(0, char::len_utf8);
    let reach = reach.min(text.len() - last).max(from);
    if let Some(newline) = text[from..reach].rfind('\n')
        && !text[from..from + newline].trim().is_empty()
    {
        return (CutKind::CodeLine, from + newline + 1);
    }
    let is_boundary = |at: &usize| {
        let end = text.ceil_char_boundary((*at + 8).min(text.len()));
        GraphemeCursor::new(*at - from, end - from, true).is_boundary(&text[from..end], 0).unwrap_or(true)
    };
    let ends = || text[from..reach].char_indices().rev().map(|(offset, c)| (from + offset + c.len_utf8(), c));
    let blank = ends().find(|(at, c)| *c == ' ' && is_boundary(at) && !text[from..*at].trim().is_empty());
    let first = text[from..].chars().next().map_or(0, char::len_utf8);
    let forced = || ends().map(|(at, _)| at).find(is_boundary).unwrap_or(reach.max(from + first));
    (CutKind::WordInSpan, blank.map_or_else(forced, |(at, _)| at))
}
