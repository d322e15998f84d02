//! The chunks of a text, and whether they are shown in the channel's own blocks.

use satchel_domain::{
    ChannelCapabilities, PartContent,
    capabilities::{BlockOffer, BlockRule, TextLimit, TextUnit},
    part::Markup,
};
use satchel_markup::{BlockStatistics, Document};

use super::reserve_label;
use crate::{label::LABEL_UNITS, split::split};

/// Below this many characters a text is cut no further to come within the limits of blocks.
const MIN_BLOCK_CHARS: usize = 1_000;

/// A part of a text that is shown in blocks, or is too large for them.
struct BlockChunk {
    text: String,
    statistics: BlockStatistics,
    fits: bool,
}

/// The chunks of a text, in order: in blocks where people read them here and the text needs them, otherwise in lines.
pub(super) fn plan_text(text: &str, capabilities: &ChannelCapabilities) -> Vec<PartContent> {
    let limit = reserve_label(&capabilities.text);
    let in_lines = |text: &str| split(text, &limit).into_iter().map(PartContent::from_text).collect::<Vec<_>>();
    let rule = capabilities.blocks.filter(|rule| rule.offer == BlockOffer::Auto).map(reserve_label_block);
    let Some(rule) = rule.filter(|_| may_need_blocks(text)) else { return in_lines(text) };
    let mut chunks = Vec::new();
    cut(text, rule.max_chars, &rule, &mut chunks);
    if !chunks.iter().any(|chunk| needs_blocks(&chunk.statistics)) {
        return in_lines(text);
    }
    let content = |BlockChunk { text, fits, .. }| match fits {
        true => vec![PartContent::Text { text, markup: Markup::Blocks, files: Vec::new() }],
        false => in_lines(&text),
    };
    chunks.into_iter().flat_map(content).collect()
}

/// What of a text says more in blocks than in lines, which only describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockGain {
    /// A table, whatever else.
    Table,
    /// Formulas alone.
    Formulas,
}

/// Finds what of a text says more in blocks.
#[must_use]
pub fn find_block_gain(text: &str) -> Option<BlockGain> {
    // Most texts have no character of which either is made, and needn't be read.
    if !(text.contains(['|', '$']) || text.contains("\\(") || text.contains("\\[")) {
        return None;
    }
    let statistics = Document::parse(text).block_statistics();
    match (statistics.has_table, statistics.has_formula) {
        (true, _) => Some(BlockGain::Table),
        (false, true) => Some(BlockGain::Formulas),
        (false, false) => None,
    }
}

/// Whether a text may be one that needs blocks. Most needn't be read to know that they don't.
fn may_need_blocks(text: &str) -> bool {
    let has_mark =
        text.contains(['|', '$']) || ["\\(", "\\[", "[ ]", "[x]", "[X]"].iter().any(|mark| text.contains(mark));
    has_mark || may_have_nested_list(text)
}

/// Bullets are within an item where they are indented, or below a number.
fn may_have_nested_list(text: &str) -> bool {
    let (mut has_bullet, mut has_number) = (false, false);
    text.lines().any(|line| {
        let item = line.trim_start_matches([' ', '\t', '>']);
        let is_indented = item.len() < line.trim_start_matches('>').len();
        let is_bullet = item.starts_with(['-', '*', '+']);
        let is_number = item.starts_with(|c: char| c.is_ascii_digit());
        has_bullet |= is_bullet;
        has_number |= is_number;
        (is_indented && (is_bullet || is_number)) || (has_bullet && has_number)
    })
}

fn needs_blocks(statistics: &BlockStatistics) -> bool {
    statistics.has_table || statistics.has_formula || statistics.has_structured_list
}

/// Cuts a text into chunks that stay within the limits of size, as few of them as possible. What is too wide or too deep is
/// not cut for that: no cut makes it narrower, and lines have limits of their own.
fn cut(text: &str, max_chars: usize, rule: &BlockRule, chunks: &mut Vec<BlockChunk>) {
    let is_smallest = max_chars < MIN_BLOCK_CHARS;
    // Read before it is cut: in lines a text may be longer, since a table repeats its headings there. One that is many
    // times too long is not read as a whole.
    if is_smallest || text.len() / 4 <= rule.max_chars {
        let statistics = Document::parse(text).block_statistics();
        let is_in_size = statistics.characters <= rule.max_chars && statistics.blocks <= rule.max_blocks;
        if is_in_size || is_smallest {
            let fits = is_in_size && statistics.columns <= rule.max_columns && statistics.depth <= rule.max_depth;
            return chunks.push(BlockChunk { text: text.to_owned(), statistics, fits });
        }
    }
    let limit = TextLimit { unit: TextUnit::Chars, max: Some(max_chars), entities: None };
    for part in split(text, &limit) {
        cut(&part, max_chars / 2, rule, chunks);
    }
}

/// The limits less the room for the label of a possible duplicate, which may be a paragraph of its own.
fn reserve_label_block(rule: BlockRule) -> BlockRule {
    BlockRule {
        max_chars: rule.max_chars.saturating_sub(LABEL_UNITS),
        max_blocks: rule.max_blocks.saturating_sub(1),
        ..rule
    }
}

#[cfg(test)]
mod tests;
