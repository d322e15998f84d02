//! Splits Markdown into chunks that each stay within a channel's limits and read well alone.
//!
//! Texts are cut on the tree of what they mean. What a cut goes through is closed and reopened: spans and fences, the
//! marks of quotations, the headings of a table, the numbers of a list. Nothing else is repeated and no character is lost;
//! a chunk that would be read otherwise than its part of the text is written anew with every mark escaped.

mod chunker;
mod code;
mod compose;
mod cut;
mod ends;
mod leaves;
mod plain;
mod prose;
mod prose_cuts;
mod rows;
mod serialize;
mod tokens;
mod visible;

use satchel_domain::capabilities::{TextLimit, TextUnit};
use satchel_markup::{Document, Measure, TextForm, TextSize, scalar_values, utf16_units};

use self::{chunker::Chunker, leaves::document_size};

/// Below this many units there is no room for fences and markers, and a text is cut as plain characters.
const MIN_UNITS_FOR_MARKERS: usize = 48;

/// What a message without a limit holds.
const UNLIMITED_UNITS: usize = 1 << 30;

/// How far a line is read to tell whether a block begins with it.
const BLOCK_LOOKAHEAD: usize = 200;

/// Splits Markdown into chunks of which each, shown alone, stays within the limit. A blank text has none.
#[must_use]
pub fn split(text: &str, limit: &TextLimit) -> Vec<String> {
    let mut chunks = Vec::new();
    if text.trim().is_empty() {
        return chunks;
    }
    let Some(max) = limit.max.map(|max| max.max(2)) else {
        return if limit.entities.is_none() {
            vec![text.to_owned()]
        } else {
            split_within(text, UNLIMITED_UNITS, limit)
        };
    };
    // A text that is many times longer is not read as a whole first.
    if text.len() / 4 <= max && fits(text, limit) {
        chunks.push(text.to_owned());
        return chunks;
    }
    split_within(text, max, limit)
}

fn split_within(text: &str, max: usize, limit: &TextLimit) -> Vec<String> {
    let mut chunks = Vec::new();
    let limits =
        ChunkLimits { max: max.min(UNLIMITED_UNITS), max_spans: max_spans(limit), measure: measure(limit.unit) };
    if max < MIN_UNITS_FOR_MARKERS {
        split_characters(text, &limits, &mut chunks);
    } else {
        Chunker::new(text, limits).for_each_chunk(&mut |chunk| match chunk {
            Ok(chunk) => chunks.push(chunk),
            Err(chunk) => split_strictly(&chunk, &limits, &mut chunks),
        });
    }
    chunks
}

/// Splits characters that stand for themselves into chunks that stay within the limit.
#[must_use]
pub fn split_plain(text: &str, limit: &TextLimit) -> Vec<String> {
    let max = limit.max.unwrap_or(usize::MAX).max(2);
    plain::split_characters(text, max, &measure(limit.unit))
}

/// Measures what a person sees of a Markdown text, or what a channel that reads Markdown is sent, in the channel's unit.
#[must_use]
pub fn visible_units(text: &str, unit: TextUnit) -> usize {
    text_size(text, &measure(unit)).units
}

/// Counts characters as the channel does.
#[must_use]
pub fn units(text: &str, unit: TextUnit) -> usize {
    match unit {
        TextUnit::Utf16 | TextUnit::Utf16Source => utf16_units(text),
        TextUnit::Chars => scalar_values(text),
    }
}

/// Tells whether a Markdown text, shown alone, stays within the limit.
#[must_use]
pub fn fits(text: &str, limit: &TextLimit) -> bool {
    let max = limit.max.map_or(usize::MAX, |max| max.max(2));
    let size = text_size(text, &measure(limit.unit));
    size.units <= max && size.spans <= max_spans(limit)
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

/// What a chunk must stay within.
#[derive(Debug, Clone, Copy)]
struct ChunkLimits {
    /// The most units of a chunk.
    max: usize,
    /// The most formatted spans of a chunk.
    max_spans: usize,
    /// How they are counted.
    measure: Measure,
}

impl ChunkLimits {
    fn allow(&self, size: TextSize) -> bool {
        size.units <= self.max && size.spans <= self.max_spans
    }
}

fn max_spans(limit: &TextLimit) -> usize {
    limit.entities.map_or(usize::MAX, |entities| entities.max(1))
}

fn measure(unit: TextUnit) -> Measure {
    let form = if unit == TextUnit::Utf16Source { TextForm::Markdown } else { TextForm::Visible };
    Measure { form, counts_scalars: unit == TextUnit::Chars }
}

fn text_size(text: &str, measure: &Measure) -> TextSize {
    document_size(&Document::parse(text), measure)
}

/// Splits a chunk that is too long when it is read alone, with ever less in it.
fn split_strictly(chunk: &str, limits: &ChunkLimits, chunks: &mut Vec<String>) {
    let max = limits.max.min(limits.measure.count(chunk) * 2 / 3).max(1);
    for part in plain::split_characters(chunk, max, &limits.measure) {
        let is_single = part.len() >= chunk.len() || part.chars().nth(1).is_none();
        if is_single || limits.allow(text_size(&part, &limits.measure)) {
            chunks.push(part);
        } else {
            split_strictly(&part, limits, chunks);
        }
    }
}

/// Cuts a text as plain characters, where there is no room for marks.
fn split_characters(text: &str, limits: &ChunkLimits, chunks: &mut Vec<String>) {
    for part in plain::split_characters(text, limits.max, &limits.measure) {
        if limits.allow(text_size(&part, &limits.measure)) {
            chunks.push(part);
        } else {
            split_strictly(&part, limits, chunks);
        }
    }
}

#[cfg(test)]
mod tests;
