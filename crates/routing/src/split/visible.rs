//! The characters of a text without marks and white space: what has to be the same in a chunk as in its part of the text.

use satchel_markup::{Block, BlockKind, Document, Inline, plain_text};

/// The characters of a chunk that is read alone.
pub(super) fn visible_characters(chunk: &Document<'_>) -> String {
    let mut text = String::new();
    push_blocks(&chunk.blocks, &mut text);
    without_blanks(&text)
}

pub(super) fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}

fn push_blocks(blocks: &[Block<'_>], text: &mut String) {
    for block in blocks {
        match &block.kind {
            BlockKind::Paragraph(content) | BlockKind::Heading { content, .. } | BlockKind::Html(content) => {
                push_text(content, text);
            }
            BlockKind::Quote { blocks, .. } | BlockKind::Footnote { blocks, .. } => push_blocks(blocks, text),
            BlockKind::List(items) => items.iter().for_each(|item| push_blocks(&item.blocks, text)),
            BlockKind::Code(code) => text.push_str(&code.text),
            BlockKind::Formula(formula) => text.push_str(&formula.plain_text()),
            BlockKind::Table(table) => {
                for cell in std::iter::once(&table.head).chain(&table.rows).flat_map(|row| &row.cells) {
                    push_text(&cell.content, text);
                }
            }
            BlockKind::Rule => {}
        }
    }
}

fn push_text(content: &[Inline<'_>], text: &mut String) {
    text.push_str(&plain_text(content));
}
