//! A table, which Telegram doesn't know: in columns where it is narrow, one record after another where it is wide.

use pulldown_cmark::{Event, Tag};
use unicode_width::UnicodeWidthStr;

use super::{html::HtmlSpan, rich::RichRenderer};

/// The widest table that a telephone shows without breaking its lines, in columns.
const MAX_TABLE_WIDTH: usize = 44;

/// What parts two columns.
const COLUMN_SEPARATOR: &str = " │ ";

/// What stands in a cell, unrendered.
type TableCell<'text> = Vec<Event<'text>>;

/// A table as it is read; its first row holds the headings.
#[derive(Default)]
pub(super) struct MarkdownTable<'text> {
    rows: Vec<Vec<TableCell<'text>>>,
}

impl<'text> MarkdownTable<'text> {
    /// Reads what comes next in it.
    pub(super) fn handle_event(&mut self, event: Event<'text>) {
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => self.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => self.rows.last_mut().expect("a cell is in a row").push(Vec::new()),
            Event::End(end) if !is_inline(end) => {}
            inline => {
                let cell = self.rows.last_mut().and_then(|row| row.last_mut());
                cell.expect("words are in a cell").push(inline);
            }
        }
    }

    /// How many letters and digits it holds, those of its addresses included.
    fn letters(&self) -> usize {
        let of = |event: &Event<'_>| match event {
            Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) | Event::FootnoteReference(text) => {
                letters(text)
            }
            Event::Start(Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. }) => {
                letters(dest_url) + letters(title)
            }
            _ => 0,
        };
        self.rows.iter().flatten().flatten().map(of).sum()
    }

    /// The rows in columns, unless that would be too wide or hide where a link goes.
    fn in_columns(&self) -> Option<String> {
        let links = |event: &Event<'_>| matches!(event, Event::Start(Tag::Link { .. } | Tag::Image { .. }));
        if self.rows.iter().flatten().flatten().any(links) {
            return None;
        }
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(cell_text).collect()).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
        let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
        let width = widths.iter().sum::<usize>() + COLUMN_SEPARATOR.width() * columns.saturating_sub(1);
        if width > MAX_TABLE_WIDTH {
            return None;
        }
        let line = |row: &Vec<String>| {
            let cells =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.width())));
            cells.collect::<Vec<_>>().join(COLUMN_SEPARATOR).trim_end().to_owned()
        };
        let mut lines: Vec<String> = rows.iter().map(line).collect();
        lines.insert(1.min(lines.len()), "─".repeat(width));
        Some(lines.join("\n"))
    }
}

/// Shows a table; `source` is how it was written.
pub(super) fn show<'text>(table: &MarkdownTable<'text>, source: &str, rich: &mut RichRenderer<'text>) {
    // A row with more cells than there are headings loses them when it is read. It is shown as it stands.
    if table.letters() < letters(source) {
        return rich.columns(source.trim_end());
    }
    if let Some(columns) = table.in_columns() {
        return rich.columns(&columns);
    }
    let Some((headings, records)) = table.rows.split_first() else { return };
    if headings.len() <= 2 || records.is_empty() {
        rich.with_span(HtmlSpan::Italic, |rich| pair(headings, rich));
    }
    for (number, record) in records.iter().enumerate() {
        if headings.len() <= 2 {
            rich.new_line();
            pair(record, rich);
            continue;
        }
        if number > 0 {
            rich.new_line();
            rich.new_line();
        }
        for (column, (heading, value)) in headings.iter().zip(record).enumerate() {
            if column == 0 {
                rich.with_span(HtmlSpan::Bold, |rich| write_labelled(heading, value, rich));
            } else {
                rich.new_line();
                write_labelled(heading, value, rich);
            }
        }
    }
}

/// The cells of a row after each other.
fn pair<'text>(cells: &[TableCell<'text>], rich: &mut RichRenderer<'text>) {
    for (number, words) in cells.iter().enumerate() {
        if number > 0 {
            rich.push_text(": ");
        }
        cell(words, rich);
    }
}

fn write_labelled<'text>(heading: &TableCell<'text>, value: &TableCell<'text>, rich: &mut RichRenderer<'text>) {
    if !heading.is_empty() {
        cell(heading, rich);
        rich.push_text(": ");
    }
    cell(value, rich);
}

fn cell<'text>(cell: &TableCell<'text>, rich: &mut RichRenderer<'text>) {
    cell.iter().for_each(|event| rich.inline(event));
}

fn cell_text(cell: &TableCell<'_>) -> String {
    let mut words = String::new();
    for event in cell {
        match event {
            Event::Text(text) | Event::Code(text) => words.push_str(text),
            Event::FootnoteReference(label) => words.push_str(&format!("[{label}]")),
            Event::InlineHtml(html) if !super::rich::is_line_break(html) => words.push_str(html),
            Event::InlineHtml(_) | Event::SoftBreak | Event::HardBreak => words.push(' '),
            _ => {}
        }
    }
    words
}

fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

fn is_inline(end: pulldown_cmark::TagEnd) -> bool {
    use pulldown_cmark::TagEnd::{Emphasis, Image, Link, Strikethrough, Strong};
    matches!(end, Emphasis | Image | Link | Strikethrough | Strong)
}
