//! Reads a text into its tree.

use crate::tree::{Block, BlockKind, Inline, InlineKind};

/// Reads the blocks of a text.
pub(crate) fn read_blocks(source: &str) -> Vec<Block<'_>> {
    let text = Inline { range: 0..source.len(), kind: InlineKind::Text(source.into()) };
    vec![Block { range: 0..source.len(), blank_before: false, kind: BlockKind::Paragraph(vec![text]) }]
}
