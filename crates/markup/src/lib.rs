//! What a text of a model means: a tree of blocks and inlines, from which each channel writes its own markup.
//!
//! Models write chat, not CommonMark: an address keeps its underscores, `2*3*4` is a product, `\( x_1 \)` a formula, and
//! `**"重要"**です` is bold. One pass over the text finds out what is meant; nothing else reads marks.

mod block_statistics;
mod chat;
mod measure;
#[cfg(test)]
mod outline;
mod plain;
mod reader;
mod table;
mod table_size;
mod tex;
mod tree;
mod units;

pub use block_statistics::BlockStatistics;
pub use chat::{ChatSpan, ChatWriter, RULE, write_message};
pub use measure::{Measure, TextForm, TextSize};
pub use plain::{address_suffix, plain_text};
pub use reader::MarkupReader;
pub use table::{MAX_TABLE_WIDTH, RecordLine, RecordLineRole, TableLayout};
pub use table_size::TableMeter;
pub use tree::{
    Block, BlockKind, Cell, CodeBlock, ColumnAlignment, Document, Inline, InlineKind, ListItem, TableBlock, TableRow,
    TexFormula,
};
pub use units::{scalar_values, utf16_units};
