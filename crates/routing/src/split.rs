//! Splits Markdown into chunks that each stay within a channel's limits and read well alone.
//!
//! Nothing is lost and nothing repeated: the chunks joined are the text, less the white space at the cuts and the
//! markers that close and reopen what a cut goes through.

mod chunker;
mod cut_points;
mod reach;
mod structure;
mod windows;

use satchel_domain::capabilities::{TextLimit, TextUnit};

use self::chunker::ChunkLimits;
use self::structure::MarkdownStructure;

/// Below this many units there is no room for fences and markers, and a text is cut as plain characters.
const MIN_UNITS_FOR_MARKERS: usize = 48;

/// How far a line is read to tell whether a block begins with it.
const BLOCK_LOOKAHEAD: usize = 200;

/// Splits Markdown into chunks of which each, shown alone, stays within the limit. A blank text has none.
#[must_use]
pub fn split(text: &str, limit: &TextLimit) -> Vec<String> {
    let mut chunks = Vec::new();
    let Some(max) = effective_max(text, limit) else {
        return if text.trim().is_empty() { chunks } else { vec![text.to_owned()] };
    };
    let structure =
        if max < MIN_UNITS_FOR_MARKERS { MarkdownStructure::default() } else { MarkdownStructure::parse(text) };
    let limits = ChunkLimits {
        max,
        unit: limit.unit,
        count_markers: limit.unit == TextUnit::Utf16Source,
        max_entities: limit.entities.unwrap_or(usize::MAX).max(1),
    };
    chunker::for_each_chunk(text, &structure, &limits, &mut |chunk, is_certain| {
        // Alone, a chunk may be read otherwise than in the whole. It is read again where that could matter.
        if is_certain || fits(&chunk, limit) {
            chunks.push(chunk);
        } else {
            split_strictly(&chunk, &limits, limit, &mut chunks);
        }
    });
    chunks
}

/// Splits characters that stand for themselves into chunks that stay within the limit.
#[must_use]
pub fn split_plain(text: &str, limit: &TextLimit) -> Vec<String> {
    let mut chunks = Vec::new();
    let max = limit.max.unwrap_or(usize::MAX).max(2);
    let limits = ChunkLimits { max, unit: limit.unit, count_markers: true, max_entities: usize::MAX };
    chunker::for_each_chunk(text, &MarkdownStructure::default(), &limits, &mut |chunk, _| chunks.push(chunk));
    chunks
}

/// Measures what a person sees of a Markdown text: its characters less the markers of its spans, in the channel's unit.
#[must_use]
pub fn visible_units(text: &str, unit: TextUnit) -> usize {
    visible(text, &MarkdownStructure::parse(text), unit)
}

fn visible(text: &str, structure: &MarkdownStructure, unit: TextUnit) -> usize {
    let hidden = |marker: &structure::SpanMarker| units(&text[marker.range.clone()], unit);
    match unit {
        TextUnit::Utf16Source => units(text, unit),
        TextUnit::Utf16 | TextUnit::Chars => units(text, unit) - structure.markers.iter().map(hidden).sum::<usize>(),
    }
}

/// Counts characters as the channel does.
#[must_use]
pub fn units(text: &str, unit: TextUnit) -> usize {
    match unit {
        TextUnit::Utf16 | TextUnit::Utf16Source => {
            sum_weights(text, |byte| u8::from(is_char_start(byte)) + u8::from(byte >= 0xF0))
        }
        TextUnit::Chars => sum_weights(text, |byte| u8::from(is_char_start(byte))),
    }
}

/// Whether a character begins with this byte.
fn is_char_start(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// Adds up what each byte counts, at most two, as many bytes at a time as the processor can.
fn sum_weights(text: &str, weight: impl Fn(u8) -> u8 + Copy) -> usize {
    let blocks = text.as_bytes().chunks_exact(64);
    let rest: usize = blocks.remainder().iter().map(|byte| usize::from(weight(*byte))).sum();
    rest + blocks.map(|block| usize::from(block.iter().map(|byte| weight(*byte)).sum::<u8>())).sum::<usize>()
}

/// Tells whether a Markdown text, shown alone, stays within the limit.
#[must_use]
pub fn fits(text: &str, limit: &TextLimit) -> bool {
    let Some(max) = effective_max(text, limit) else { return true };
    let structure = MarkdownStructure::parse(text);
    visible(text, &structure, limit.unit) <= max
        && limit.entities.is_none_or(|entities| structure.entities.len() <= entities.max(1))
}

/// Tells whether a text begins with something that is a block only at the beginning of a line.
pub(crate) fn starts_block(text: &str) -> bool {
    let text = text.trim_start_matches(' ');
    match text.as_bytes().first() {
        Some(b'#' | b'>' | b'|' | b'=' | b'<') => true,
        Some(mark @ (b'-' | b'+' | b'*' | b'_')) => {
            // An item of a list, or a rule of nothing but marks.
            let mut line = text.bytes().take(BLOCK_LOOKAHEAD).take_while(|byte| *byte != b'\n');
            text.as_bytes().get(1).is_none_or(u8::is_ascii_whitespace) || line.all(|byte| byte == *mark || byte == b' ')
        }
        Some(b'`') => text.starts_with("```"),
        Some(b'~') => text.starts_with("~~~"),
        Some(b'[') => text.chars().take(BLOCK_LOOKAHEAD).take_while(|c| *c != '\n').collect::<String>().contains("]:"),
        Some(b'0'..=b'9') => {
            let after_digits = text.bytes().take(BLOCK_LOOKAHEAD).find(|byte| !byte.is_ascii_digit());
            matches!(after_digits, Some(b'.' | b')'))
        }
        Some(b'\t') => true,
        _ => false,
    }
}

/// The limit, unless the text is certain to fit without being read; a limit of one could hold no emoji and is two.
fn effective_max(text: &str, limit: &TextLimit) -> Option<usize> {
    let max = limit.max.unwrap_or(usize::MAX).max(2);
    // A formatted span takes at least one of these characters.
    let is_short = text.len() <= max || units(text, limit.unit) <= max;
    let is_few = |entities: usize| {
        let formatting = text.bytes().filter(|byte| b"*_~`[<#>=-\t".contains(byte));
        formatting.take(entities.max(1) + 1).count() <= entities.max(1) && !text.contains("    ")
    };
    let has_few_entities = limit.entities.is_none_or(is_few);
    (!(is_short && has_few_entities)).then_some(max)
}

/// Splits a chunk that is too long when read alone: markers count, and fewer characters share a chunk each time.
fn split_strictly(chunk: &str, limits: &ChunkLimits, limit: &TextLimit, chunks: &mut Vec<String>) {
    let max = limits.max.min(units(chunk, limit.unit) * 2 / 3).max(2);
    let stricter = ChunkLimits { max, count_markers: true, ..*limits };
    let structure =
        if max < MIN_UNITS_FOR_MARKERS { MarkdownStructure::default() } else { MarkdownStructure::parse(chunk) };
    chunker::for_each_chunk(chunk, &structure, &stricter, &mut |part, _| {
        if max == 2 || part.len() >= chunk.len() || fits(&part, limit) {
            chunks.push(part);
        } else {
            split_strictly(&part, &stricter, limit, chunks);
        }
    });
}

#[cfg(test)]
mod tests;
