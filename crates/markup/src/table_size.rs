//! How long a table is, row by row, so that as many rows share a message as it holds.

use unicode_width::UnicodeWidthStr;

use crate::{
    measure::{Measure, TextSize},
    plain::{is_plain, plain_text},
    table::{COLUMN_SEPARATOR, MAX_TABLE_WIDTH},
    tree::TableRow,
};

/// The size of a table of some rows.
#[derive(Debug, Clone)]
pub struct TableMeter {
    measure: Measure,
    /// What each heading adds to a record, with the colon.
    headings: Vec<TextSize>,
    /// As columns; `None` if it is too wide or can't be arranged so.
    columns: Option<ColumnSize>,
    records: TextSize,
    rows: usize,
}

/// The size of a table in columns.
#[derive(Debug, Clone, Default)]
struct ColumnSize {
    /// The width of each column.
    widths: Vec<usize>,
    /// How many cells of each column are filled up with blanks.
    padded: Vec<usize>,
    /// The characters less the width of what is filled up.
    units: isize,
    lines: usize,
}

impl TableMeter {
    /// Measures a table without rows.
    #[must_use]
    pub fn new(measure: Measure, head: &TableRow<'_>) -> Self {
        let heading = |cell| measure.inlines(cell, 1) + TextSize { units: 2, ..TextSize::default() };
        let headings: Vec<_> = head.cells.iter().map(|cell| heading(&cell.content)).collect();
        let mut meter =
            Self { measure, headings, columns: Some(ColumnSize::default()), records: TextSize::default(), rows: 0 };
        meter.push_columns(head);
        if meter.has_pairs() {
            meter.records += meter.row_size(head, true) + meter.bold();
        }
        meter
    }

    /// Adds a row.
    pub fn push(&mut self, row: &TableRow<'_>) {
        self.push_columns(row);
        self.rows += 1;
        let mut size = self.row_size(row, !self.has_pairs());
        if !self.has_pairs() {
            let headings = self.headings.iter().copied().fold(TextSize::default(), |sum, heading| sum + heading);
            let lines = self.headings.len().max(row.cells.len());
            // A blank line is before each record but the first.
            let breaks = lines.saturating_sub(1) + if self.rows > 1 { 2 } else { 0 };
            size += headings + self.bold() + TextSize { breaks, ..TextSize::default() };
        } else {
            size.breaks += 1;
        }
        self.records += size;
    }

    /// The size so far.
    #[must_use]
    pub fn size(&self) -> TextSize {
        match &self.columns {
            Some(columns) => columns.size(&self.measure),
            None if self.rows == 0 && !self.has_pairs() => {
                self.headings.iter().copied().fold(self.bold(), |sum, heading| sum + heading)
            }
            None => self.records,
        }
    }

    /// Whether a row is one line.
    fn has_pairs(&self) -> bool {
        self.headings.len() <= 2
    }

    fn bold(&self) -> TextSize {
        TextSize { units: self.measure.bold_delimiters(), spans: 1, breaks: 0 }
    }

    /// The cells of a row and what is between them. The first line is in a span, if `begins_with_span`.
    fn row_size(&self, row: &TableRow<'_>, begins_with_span: bool) -> TextSize {
        let mut size = TextSize::default();
        let mut nesting = usize::from(begins_with_span);
        for cell in &row.cells {
            size += self.measure.inlines(&cell.content, nesting);
            if !self.has_pairs() && !cell.content.is_empty() {
                nesting = 0;
            }
        }
        if self.has_pairs() {
            size.units += 2 * row.cells.len().saturating_sub(1);
        }
        size
    }

    fn push_columns(&mut self, row: &TableRow<'_>) {
        let Some(columns) = &mut self.columns else { return };
        let is_arranged = row.cells.iter().all(|cell| is_plain(&cell.content));
        if !is_arranged {
            self.columns = None;
            return;
        }
        let last = row.cells.iter().rposition(|cell| !cell.content.is_empty());
        columns.lines += 1;
        for (column, cell) in row.cells.iter().enumerate() {
            let text = plain_text(&cell.content);
            columns.push_cell(column, text.width(), self.measure.count(&text), last);
        }
        if columns.total_width() > MAX_TABLE_WIDTH {
            self.columns = None;
        }
    }
}

impl ColumnSize {
    fn push_cell(&mut self, column: usize, width: usize, units: usize, last: Option<usize>) {
        if self.widths.len() <= column {
            self.widths.resize(column + 1, 0);
            self.padded.resize(column + 1, 0);
        }
        self.widths[column] = self.widths[column].max(width);
        if last.is_none_or(|last| column > last) {
            return;
        }
        self.units += units as isize;
        if Some(column) != last {
            self.units += COLUMN_SEPARATOR.width() as isize - width as isize;
            self.padded[column] += 1;
        }
    }

    fn total_width(&self) -> usize {
        self.widths.iter().sum::<usize>() + COLUMN_SEPARATOR.width() * self.widths.len().saturating_sub(1)
    }

    fn size(&self, measure: &Measure) -> TextSize {
        let blanks: usize = self.widths.iter().zip(&self.padded).map(|(width, rows)| width * rows).sum();
        let units = self.units.saturating_add_unsigned(blanks).max(0) as usize + self.total_width();
        // The rule is one line more, and each line but the first has a break before it.
        let lines = TextSize { units, spans: 1, breaks: self.lines };
        let around = measure.fences("", "");
        if around == TextSize::default() {
            TextSize { units: units + self.lines, breaks: 0, ..lines }
        } else {
            lines + around
        }
    }
}
