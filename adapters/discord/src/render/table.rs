//! Renders tables, which Discord doesn't support: as columns if narrow, as a list of records if wide.

use unicode_width::UnicodeWidthStr;

/// The widest table that a phone shows without wrapping, in columns.
const MAX_TABLE_WIDTH: usize = 44;

/// The separator between two columns.
const COLUMN_SEPARATOR: &str = " │ ";

#[derive(Debug, Default, Clone)]
pub(super) struct TableCell {
    /// The source, for records.
    pub(super) markdown: String,
    /// The visible text, for columns.
    pub(super) plain: String,
    /// Whether it contains a link, which only Markdown can show.
    pub(super) has_link: bool,
}

/// Renders a table whose first row holds the headings. `source` is its Markdown.
pub(super) fn render_table(rows: &[Vec<TableCell>], source: &str) -> String {
    let shown_chars: usize = rows.iter().flatten().map(|cell| count_alphanumeric(&cell.markdown)).sum();
    // The parser drops the cells of a row beyond the headings. Such a table is shown as its source.
    if shown_chars < count_alphanumeric(source) {
        return to_code_block(source.trim_end());
    }
    render_columns(rows).map_or_else(|| render_records(rows), |columns| to_code_block(&columns))
}

/// Renders the rows as columns, unless that would be too wide or hide a link's target.
fn render_columns(rows: &[Vec<TableCell>]) -> Option<String> {
    if rows.iter().flatten().any(|cell| cell.has_link) {
        return None;
    }
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let max_width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.plain.width()).max();
    let widths: Vec<usize> = (0..columns).map(|column| max_width(column).unwrap_or(0)).collect();
    let width = widths.iter().sum::<usize>() + COLUMN_SEPARATOR.width() * columns.saturating_sub(1);
    if width > MAX_TABLE_WIDTH {
        return None;
    }
    let to_line = |row: &Vec<TableCell>| {
        let pad_cell =
            |(cell, width): (&TableCell, &usize)| format!("{}{}", cell.plain, " ".repeat(width - cell.plain.width()));
        row.iter().zip(&widths).map(pad_cell).collect::<Vec<_>>().join(COLUMN_SEPARATOR).trim_end().to_owned()
    };
    let mut lines: Vec<String> = rows.iter().map(to_line).collect();
    lines.insert(1.min(lines.len()), "─".repeat(width));
    Some(lines.join("\n"))
}

/// Renders the rows as records: a pair per line, or for more columns a line for each cell with its heading.
fn render_records(rows: &[Vec<TableCell>]) -> String {
    let Some((headings, records)) = rows.split_first() else { return String::new() };
    let join_cells = |row: &[TableCell]| row.iter().map(|cell| cell.markdown.as_str()).collect::<Vec<_>>().join(": ");
    if headings.len() <= 2 || records.is_empty() {
        let heading = join_cells(headings);
        let heading = if heading.is_empty() { Vec::new() } else { vec![heading] };
        return heading
            .into_iter()
            .chain(records.iter().map(|record| join_cells(record)))
            .collect::<Vec<_>>()
            .join("\n");
    }
    let label_cell = |(heading, value): (&TableCell, &TableCell)| match heading.markdown.as_str() {
        "" => value.markdown.clone(),
        heading => format!("{heading}: {}", value.markdown),
    };
    let to_record =
        |record: &Vec<TableCell>| headings.iter().zip(record).map(label_cell).collect::<Vec<_>>().join("\n");
    records.iter().map(to_record).collect::<Vec<_>>().join("\n\n")
}

fn to_code_block(text: &str) -> String {
    format!("```\n{text}\n```")
}

fn count_alphanumeric(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}
