//! What a person must see of a text, whatever markup a channel writes it in.

use std::collections::BTreeMap;

use satchel_markup::{Block, BlockKind, Document, Inline, InlineKind};

/// The characters of a text that are seen less often than it has them, blanks and line breaks aside: all that is no
/// markup has to arrive, letters or not. What a channel adds (bullets, numbers, addresses) may be seen as well.
#[must_use]
pub fn missing_characters(text: &str, seen: &str) -> String {
    let mut meant = String::new();
    push_blocks(&Document::parse(text).blocks, &mut meant);
    let seen = count_characters(seen);
    let is_missing = |(c, times): &(char, usize)| seen.get(c).copied().unwrap_or(0) < *times;
    count_characters(&meant).into_iter().filter(is_missing).map(|(c, _)| c).collect()
}

fn count_characters(text: &str) -> BTreeMap<char, usize> {
    let mut counts = BTreeMap::new();
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        *counts.entry(c).or_insert(0) += 1;
    }
    counts
}

fn push_blocks(blocks: &[Block<'_>], meant: &mut String) {
    for block in blocks {
        match &block.kind {
            BlockKind::Paragraph(content) | BlockKind::Heading { content, .. } | BlockKind::Html(content) => {
                push_inlines(content, meant);
            }
            BlockKind::Quote { blocks, .. } => push_blocks(blocks, meant),
            BlockKind::List(items) => items.iter().for_each(|item| push_blocks(&item.blocks, meant)),
            BlockKind::Code(code) => meant.push_str(&code.text),
            // A heading is shown where it has a cell.
            BlockKind::Table(table) => {
                table.rows.iter().flat_map(|row| &row.cells).for_each(|cell| push_inlines(&cell.content, meant));
            }
            BlockKind::Formula(formula) => meant.push_str(formula.unicode.as_deref().unwrap_or(&formula.source)),
            BlockKind::Rule => {}
            BlockKind::Footnote { label, blocks } => {
                meant.push_str(label);
                push_blocks(blocks, meant);
            }
        }
    }
}

fn push_inlines(content: &[Inline<'_>], meant: &mut String) {
    for inline in content {
        match &inline.kind {
            InlineKind::Text(text) | InlineKind::Code(text) | InlineKind::FootnoteReference(text) => {
                meant.push_str(text);
            }
            InlineKind::Address { text, .. } => meant.push_str(text),
            InlineKind::Emphasis(content)
            | InlineKind::Strong(content)
            | InlineKind::Struck(content)
            | InlineKind::Spoiler(content)
            | InlineKind::Link { content, .. }
            | InlineKind::Image { content, .. } => push_inlines(content, meant),
            InlineKind::Formula(formula) => meant.push_str(formula.unicode.as_deref().unwrap_or(&formula.source)),
            InlineKind::Break { .. } => {}
        }
    }
}
