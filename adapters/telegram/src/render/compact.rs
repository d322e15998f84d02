//! Tables as lines, for texts in which they would take too much room otherwise.

use std::iter;

use satchel_markup::{Block, BlockKind, Inline, InlineKind, ListItem, TableBlock};

/// What is between the cells of a row. With the bars that it stands for, no row gets longer than it was written.
const CELL_SEPARATOR: &str = " · ";

/// Makes each table a paragraph with a line for each row.
pub(super) fn with_tables_as_lines(blocks: Vec<Block<'_>>) -> Vec<Block<'_>> {
    blocks.into_iter().map(rewrite_block).collect()
}

fn rewrite_block(block: Block<'_>) -> Block<'_> {
    let kind = match block.kind {
        BlockKind::Table(table) => BlockKind::Paragraph(row_lines(table)),
        BlockKind::Quote { to_end, blocks } => BlockKind::Quote { to_end, blocks: with_tables_as_lines(blocks) },
        BlockKind::Footnote { label, blocks } => BlockKind::Footnote { label, blocks: with_tables_as_lines(blocks) },
        BlockKind::List(items) => BlockKind::List(items.into_iter().map(rewrite_item).collect()),
        other => other,
    };
    Block { kind, ..block }
}

fn rewrite_item(item: ListItem<'_>) -> ListItem<'_> {
    ListItem { blocks: with_tables_as_lines(item.blocks), ..item }
}

fn row_lines(table: TableBlock<'_>) -> Vec<Inline<'_>> {
    let mut lines = Vec::new();
    for row in iter::once(table.head).chain(table.rows) {
        if !lines.is_empty() {
            lines.push(Inline { range: row.range.clone(), kind: InlineKind::Break { is_hard: true } });
        }
        for (column, cell) in row.cells.into_iter().enumerate() {
            if column > 0 {
                lines.push(Inline { range: cell.range.clone(), kind: InlineKind::Text(CELL_SEPARATOR.into()) });
            }
            lines.extend(cell.content.into_iter().map(on_one_line));
        }
    }
    lines
}

fn on_one_line(inline: Inline<'_>) -> Inline<'_> {
    match inline.kind {
        InlineKind::Break { .. } => Inline { range: inline.range, kind: InlineKind::Text(" ".into()) },
        kind => Inline { range: inline.range, kind },
    }
}
