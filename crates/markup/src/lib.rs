//! What a text of a model means: a tree of blocks and inlines, from which each channel writes its own markup.
//!
//! Models write chat, not CommonMark: an address keeps its underscores, `2*3*4` is a product, `\( x_1 \)` a formula, and
//! `**"重要"**です` is bold. One pass over the text finds out what is meant; nothing else reads marks.

mod chat;
mod reader;
mod table;
mod tree;

pub use chat::{ChatSpan, ChatWriter, write_message};
pub use table::{MAX_TABLE_WIDTH, RecordLine, RecordLineRole, TableLayout};
pub use tree::{
    Block, BlockKind, Cell, CodeBlock, ColumnAlignment, Document, Inline, InlineKind, ListItem, TableBlock, TableRow,
    TexFormula,
};
