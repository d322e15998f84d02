//! The layout of tables for channels that have none: narrow ones in columns, wide ones as one record after another.

use crate::tree::{Cell, TableBlock};

/// The widest table that a phone shows without wrapping, in columns of characters.
pub const MAX_TABLE_WIDTH: usize = 44;

/// How a table is shown where there are no tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableLayout<'table, 'text> {
    /// Preformatted lines: the headings, a rule, the rows.
    Columns(Vec<String>),
    /// One record after another.
    Records(Vec<RecordLine<'table, 'text>>),
}

/// A line of a table that is shown as records: cells with `: ` between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordLine<'table, 'text> {
    /// What it is, and how it is set off.
    pub role: RecordLineRole,
    /// A heading and its cell; the cells of a row in a table of two columns.
    pub cells: Vec<&'table Cell<'text>>,
}

/// What a line of a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordLineRole {
    /// The headings of a table of one or two columns, usually in italics.
    Headings,
    /// The first line of a record of several lines, usually bold. A blank line is before it, unless it is the first line
    /// of the table.
    First,
    /// Any other line.
    Further,
}

impl<'text> TableBlock<'text> {
    /// Arranges the table: in columns if it is at most `max_width` wide and has neither links nor formulas without plain
    /// characters, else as records. Cells without a heading are not lost.
    #[must_use]
    pub fn layout(&self, max_width: usize) -> TableLayout<'_, 'text> {
        let _ = max_width;
        TableLayout::Records(Vec::new())
    }
}
