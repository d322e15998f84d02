//! How large a text is for a channel that has headings, tables, lists and formulas of its own, and what of these it has.
//!
//! Nothing here is less than what a channel counts: a writer may write fewer characters, blocks and levels, never more.

use crate::{
    chat::IMAGE_SIGN,
    plain::{IMAGE_TEXT, address_suffix, plain_text},
    tree::{Block, BlockKind, Document, Inline, InlineKind, ListItem, TableBlock},
    units::scalar_values,
};

/// What a text consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockStatistics {
    /// Its characters, as Unicode scalar values, the source of formulas included.
    pub characters: usize,
    /// Its blocks: those within others, items of lists and rows of tables included.
    pub blocks: usize,
    /// Its deepest nesting of blocks and formatting.
    pub depth: usize,
    /// The columns of its widest table.
    pub columns: usize,
    /// Whether it has a table.
    pub has_table: bool,
    /// Whether it has a formula.
    pub has_formula: bool,
    /// Whether it has a list of tasks, or a list within another one.
    pub has_structured_list: bool,
}

impl Document<'_> {
    /// Counts what the text consists of.
    #[must_use]
    pub fn block_statistics(&self) -> BlockStatistics {
        let mut statistics = BlockStatistics::default();
        statistics.add_blocks(&self.blocks, 1);
        statistics
    }
}

impl BlockStatistics {
    fn add_blocks(&mut self, blocks: &[Block<'_>], depth: usize) {
        blocks.iter().for_each(|block| self.add_block(&block.kind, depth));
    }

    fn begin_block(&mut self, depth: usize) {
        self.blocks += 1;
        self.depth = self.depth.max(depth);
    }

    fn add_block(&mut self, block: &BlockKind<'_>, depth: usize) {
        self.begin_block(depth);
        match block {
            BlockKind::Paragraph(content) | BlockKind::Html(content) | BlockKind::Heading { content, .. } => {
                self.add_inlines(content, depth);
            }
            BlockKind::Quote { blocks, .. } => self.add_blocks(blocks, depth + 1),
            BlockKind::List(items) => items.iter().for_each(|item| self.add_item(item, depth)),
            BlockKind::Code(code) => self.characters += scalar_values(&code.text),
            BlockKind::Table(table) => self.add_table(table, depth),
            BlockKind::Formula(formula) => {
                self.has_formula = true;
                self.characters += scalar_values(&formula.source);
            }
            BlockKind::Rule => {}
            BlockKind::Footnote { label, blocks } => {
                self.characters += scalar_values(label) + "[] ".len();
                self.depth = self.depth.max(depth + 1);
                self.add_blocks(blocks, depth);
            }
        }
    }

    fn add_item(&mut self, item: &ListItem<'_>, depth: usize) {
        self.begin_block(depth + 1);
        let is_list = |block: &Block<'_>| matches!(block.kind, BlockKind::List(_));
        self.has_structured_list |= item.task.is_some() || item.blocks.iter().any(is_list);
        self.add_blocks(&item.blocks, depth + 2);
    }

    fn add_table(&mut self, table: &TableBlock<'_>, depth: usize) {
        self.has_table = true;
        let rows = || std::iter::once(&table.head).chain(&table.rows);
        let columns = rows().map(|row| row.cells.len()).max().unwrap_or(0);
        self.columns = self.columns.max(columns);
        for row in rows() {
            self.begin_block(depth + 1);
            // A cell without a text has a blank.
            let with_text = row.cells.iter().filter(|cell| !cell.content.is_empty()).count();
            self.characters += columns - with_text;
            row.cells.iter().for_each(|cell| self.add_inlines(&cell.content, depth + 2));
        }
    }

    /// Adds a text, in which formatting is one level deeper.
    fn add_inlines(&mut self, content: &[Inline<'_>], depth: usize) {
        for inline in content {
            self.depth = self.depth.max(depth + 1);
            match &inline.kind {
                InlineKind::Text(text) | InlineKind::Code(text) => self.characters += scalar_values(text),
                InlineKind::Formula(formula) => {
                    self.has_formula = true;
                    self.characters += scalar_values(&formula.source);
                }
                InlineKind::Emphasis(content)
                | InlineKind::Strong(content)
                | InlineKind::Struck(content)
                | InlineKind::Spoiler(content) => self.add_inlines(content, depth + 1),
                InlineKind::Link { address, content } => self.add_link(address, content, depth),
                InlineKind::Image { address, content } => {
                    self.characters += scalar_values(IMAGE_SIGN) + scalar_values(IMAGE_TEXT);
                    self.add_link(address, content, depth);
                }
                InlineKind::Address { text, .. } => self.characters += scalar_values(text),
                InlineKind::Break { .. } => self.characters += 1,
                InlineKind::FootnoteReference(label) => self.characters += scalar_values(label) + "[]".len(),
            }
        }
    }

    /// Adds a link. Where it can't be one, the address follows its text.
    fn add_link(&mut self, address: &str, content: &[Inline<'_>], depth: usize) {
        let suffix = address_suffix(address, &plain_text(content));
        self.characters += suffix.map_or(0, |suffix| scalar_values(&suffix));
        self.add_inlines(content, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics(text: &str) -> BlockStatistics {
        Document::parse(text).block_statistics()
    }

    #[test]
    fn blocks_items_rows_and_levels_are_counted() {
        let table = statistics("| A | B |\n|---|---|\n| **a** | b |\n| c | d | e |");
        let expected =
            BlockStatistics { characters: 9, blocks: 4, depth: 5, columns: 3, has_table: true, ..Default::default() };
        assert_eq!(table, expected);
        let list = statistics("- a\n  - b\n- c");
        assert_eq!((list.blocks, list.depth, list.characters, list.has_structured_list), (8, 6, 3, true));
        let flat = statistics("- a\n- b");
        assert_eq!((flat.blocks, flat.has_structured_list), (5, false));
        assert!(statistics("- [x] done").has_structured_list);
        assert_eq!(statistics("> > a").depth, 4);
    }

    #[test]
    fn source_of_formulas_counts() {
        let inline = statistics("It is $x_1$.");
        assert_eq!((inline.has_formula, inline.has_table, inline.characters), (true, false, "It is $x_1$.".len()));
        assert!(statistics("\\[ \\frac{1}{2} \\]").has_formula);
        assert!(!statistics("It costs $5.").has_formula);
    }
}
