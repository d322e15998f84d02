//! A table, which Discord doesn't know: in columns where it is narrow, one record after another where it is wide.

use unicode_width::UnicodeWidthStr;

/// The widest table that a telephone shows without breaking its lines, in columns.
const MAX_TABLE_WIDTH: usize = 44;

/// What parts two columns.
const COLUMN_SEPARATOR: &str = " │ ";

#[derive(Debug, Default, Clone)]
pub(super) struct TableCell {
    /// How it is written, for where Markdown is read.
    pub(super) markdown: String,
    /// What is seen of it, for where it isn't.
    pub(super) plain: String,
    /// Whether it leads somewhere, which only Markdown shows.
    pub(super) links: bool,
}

/// The table in a form that Discord shows; its first row holds the headings. `source` is how it was written.
pub(super) fn show(rows: &[Vec<TableCell>], source: &str) -> String {
    let shown: usize = rows.iter().flatten().map(|cell| letters(&cell.markdown)).sum();
    // A row with more cells than there are headings loses them when it is read. It is shown as it stands.
    if shown < letters(source) {
        return code(source.trim_end());
    }
    in_columns(rows).map_or_else(|| in_records(rows), |columns| code(&columns))
}

/// The rows in columns, unless that would be too wide or hide where a link goes.
fn in_columns(rows: &[Vec<TableCell>]) -> Option<String> {
    if rows.iter().flatten().any(|cell| cell.links) {
        return None;
    }
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.plain.width()).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    let width = widths.iter().sum::<usize>() + COLUMN_SEPARATOR.width() * columns.saturating_sub(1);
    if width > MAX_TABLE_WIDTH {
        return None;
    }
    let line = |row: &Vec<TableCell>| {
        let padded =
            |(cell, width): (&TableCell, &usize)| format!("{}{}", cell.plain, " ".repeat(width - cell.plain.width()));
        row.iter().zip(&widths).map(padded).collect::<Vec<_>>().join(COLUMN_SEPARATOR).trim_end().to_owned()
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.insert(1.min(lines.len()), "─".repeat(width));
    Some(lines.join("\n"))
}

/// The rows after each other: pairs on a line each, longer ones with a line for each cell under its heading.
fn in_records(rows: &[Vec<TableCell>]) -> String {
    let Some((headings, records)) = rows.split_first() else { return String::new() };
    let pair = |row: &[TableCell]| row.iter().map(|cell| cell.markdown.as_str()).collect::<Vec<_>>().join(": ");
    if headings.len() <= 2 || records.is_empty() {
        let heading = pair(headings);
        let heading = if heading.is_empty() { Vec::new() } else { vec![heading] };
        return heading.into_iter().chain(records.iter().map(|record| pair(record))).collect::<Vec<_>>().join("\n");
    }
    let named = |(heading, value): (&TableCell, &TableCell)| match heading.markdown.as_str() {
        "" => value.markdown.clone(),
        heading => format!("{heading}: {}", value.markdown),
    };
    let record = |record: &Vec<TableCell>| headings.iter().zip(record).map(named).collect::<Vec<_>>().join("\n");
    records.iter().map(record).collect::<Vec<_>>().join("\n\n")
}

fn code(text: &str) -> String {
    format!("```\n{text}\n```")
}

fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}
