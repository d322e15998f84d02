//! The layout of tables for channels that have none: narrow ones in columns, wide ones as one record after another.

use unicode_width::UnicodeWidthStr;

use crate::{
    plain::{is_plain, plain_text},
    tree::{Cell, TableBlock, TableRow},
};

/// The widest table that a phone shows without wrapping, in columns of characters.
pub const MAX_TABLE_WIDTH: usize = 44;

/// What is between two columns.
pub(crate) const COLUMN_SEPARATOR: &str = " │ ";

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
    /// A heading and its cell; the cells of a row in a table of two columns. None of them is empty.
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
    /// Arranges the table: in columns if it is at most [`MAX_TABLE_WIDTH`] wide and has neither links nor spoilers, else as
    /// records. Cells without a heading are not lost.
    #[must_use]
    pub fn layout(&self) -> TableLayout<'_, 'text> {
        self.columns().map_or_else(|| TableLayout::Records(self.records()), TableLayout::Columns)
    }

    fn all_rows(&self) -> impl Iterator<Item = &TableRow<'text>> {
        std::iter::once(&self.head).chain(&self.rows)
    }

    fn columns(&self) -> Option<Vec<String>> {
        if !self.all_rows().flat_map(|row| &row.cells).all(|cell| is_plain(&cell.content)) {
            return None;
        }
        let rows: Vec<Vec<String>> =
            self.all_rows().map(|row| row.cells.iter().map(|cell| plain_text(&cell.content)).collect()).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let column_width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
        let widths: Vec<usize> = (0..columns).map(|column| column_width(column).unwrap_or(0)).collect();
        let width = widths.iter().sum::<usize>() + COLUMN_SEPARATOR.width() * columns.saturating_sub(1);
        if width > MAX_TABLE_WIDTH {
            return None;
        }
        let line = |row: &Vec<String>| {
            let padded = |(cell, width): (&String, &usize)| format!("{cell}{}", " ".repeat(width - cell.width()));
            let filled = row.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
            let cells: Vec<_> = row[..filled].iter().zip(&widths).map(padded).collect();
            cells.join(COLUMN_SEPARATOR).trim_end().to_owned()
        };
        let mut lines: Vec<String> = rows.iter().map(line).collect();
        lines.insert(1.min(lines.len()), "─".repeat(width));
        Some(lines)
    }

    fn records(&self) -> Vec<RecordLine<'_, 'text>> {
        let headings = &self.head.cells;
        if headings.len() <= 2 || self.rows.is_empty() {
            let head = std::iter::once((RecordLineRole::Headings, &self.head));
            let rows = self.rows.iter().map(|row| (RecordLineRole::Further, row));
            let lines = head.chain(rows).map(|(role, row)| {
                let cells = row.cells.iter().filter(|cell| !cell.content.is_empty()).collect();
                RecordLine { role, cells }
            });
            return lines.filter(|line| !line.cells.is_empty()).collect();
        }
        let has_value = |column: usize| {
            self.rows.iter().any(|row| row.cells.get(column).is_some_and(|cell| !cell.content.is_empty()))
        };
        let is_filled: Vec<bool> = (0..headings.len()).map(has_value).collect();
        let mut lines = Vec::new();
        for row in &self.rows {
            let mut role = RecordLineRole::First;
            for column in 0..headings.len().max(row.cells.len()) {
                let value = row.cells.get(column).filter(|cell| !cell.content.is_empty());
                // A heading alone says something only where it has no cell at all.
                let is_shown = value.is_some() || !is_filled.get(column).is_some_and(|filled| *filled);
                let heading = headings.get(column).filter(|cell| is_shown && !cell.content.is_empty());
                let cells: Vec<_> = heading.into_iter().chain(value).collect();
                if !cells.is_empty() {
                    lines.push(RecordLine { role, cells });
                    role = RecordLineRole::Further;
                }
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockKind, Document, outline::inlines};

    fn layout(text: &str) -> String {
        let document = Document::parse(text);
        let BlockKind::Table(table) = &document.blocks[0].kind else { panic!("{text:?} is no table") };
        match table.layout() {
            TableLayout::Columns(lines) => lines.join("\n"),
            TableLayout::Records(lines) => {
                let line = |line: &RecordLine<'_, '_>| {
                    let cells: Vec<_> = line.cells.iter().map(|cell| inlines(&cell.content)).collect();
                    format!("{:?} {}", line.role, cells.join(": "))
                };
                lines.iter().map(line).collect::<Vec<_>>().join("\n")
            }
        }
    }

    #[test]
    fn narrow_tables_have_columns() {
        assert_eq!(
            layout("| Name | Sum |\n| --- | ---: |\n| **Ann** | 12 |\n| Bob \\| Co | 7 | x |"),
            "Name     │ Sum\n──────────────────\nAnn      │ 12\nBob | Co │ 7   │ x"
        );
        assert_eq!(layout("| 名 | `b` |\n|---|---|\n| $x_1$ | a<br>b |"), "名 │ b\n────────\nx₁ │ a b");
    }

    #[test]
    fn wide_tables_and_those_with_links_become_records() {
        let wide = "long ".repeat(12);
        assert_eq!(
            layout(&format!("| A | B | C |\n|---|---|---|\n| 1 | {wide} | |\n| 2 | | | surplus |")),
            format!("First A: 1\nFurther B: {}\nFurther C\nFirst A: 2\nFurther C\nFurther surplus", wide.trim())
        );
        assert_eq!(
            layout("| A | B |\n|---|---|\n| 1 | [x](https://a.example) |"),
            "Headings A: B\nFurther 1: [link https://a.example:x]"
        );
    }
}
