//! Renders tables, which Telegram lacks: narrow ones in columns, wide ones as one record after another.

use pulldown_cmark::{Event, Tag};
use unicode_width::UnicodeWidthStr;

use super::{html::HtmlSpan, rich::RichRenderer};

/// Widest table that a phone shows without wrapping, in character columns.
const MAX_TABLE_WIDTH: usize = 44;

const COLUMN_SEPARATOR: &str = " │ ";

/// The unrendered content of a cell.
type TableCell<'text> = Vec<Event<'text>>;

/// A parsed table; its first row holds the headings.
#[derive(Default)]
pub(super) struct MarkdownTable<'text> {
    rows: Vec<Vec<TableCell<'text>>>,
}

impl<'text> MarkdownTable<'text> {
    /// Adds the next event inside the table.
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

    /// How many letters and digits it contains, including those in link addresses.
    fn alphanumeric_count(&self) -> usize {
        let event_letters = |event: &Event<'_>| match event {
            Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) | Event::FootnoteReference(text) => {
                count_alphanumeric(text)
            }
            Event::Start(Tag::Link { dest_url, title, .. } | Tag::Image { dest_url, title, .. }) => {
                count_alphanumeric(dest_url) + count_alphanumeric(title)
            }
            _ => 0,
        };
        self.rows.iter().flatten().flatten().map(event_letters).sum()
    }

    /// Formats the rows in columns; `None` if that is too wide or would hide a link's address.
    fn render_columns(&self) -> Option<String> {
        let is_link = |event: &Event<'_>| matches!(event, Event::Start(Tag::Link { .. } | Tag::Image { .. }));
        if self.rows.iter().flatten().flatten().any(is_link) {
            return None;
        }
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(cell_text).collect()).collect();
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let column_width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
        let widths: Vec<usize> = (0..columns).map(|column| column_width(column).unwrap_or(0)).collect();
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

/// Renders a table; `source` is its Markdown.
pub(super) fn render_table<'text>(table: &MarkdownTable<'text>, source: &str, renderer: &mut RichRenderer<'text>) {
    // The parser drops cells beyond the number of headings. Such a table is shown as its source.
    if table.alphanumeric_count() < count_alphanumeric(source) {
        return renderer.push_preformatted(source.trim_end());
    }
    if let Some(columns) = table.render_columns() {
        return renderer.push_preformatted(&columns);
    }
    let Some((headings, records)) = table.rows.split_first() else { return };
    if headings.len() <= 2 || records.is_empty() {
        renderer.with_span(HtmlSpan::Italic, |renderer| write_cells(headings, renderer));
    }
    for (number, record) in records.iter().enumerate() {
        if headings.len() <= 2 {
            renderer.new_line();
            write_cells(record, renderer);
            continue;
        }
        if number > 0 {
            renderer.new_line();
            renderer.new_line();
        }
        for (column, (heading, value)) in headings.iter().zip(record).enumerate() {
            if column == 0 {
                renderer.with_span(HtmlSpan::Bold, |renderer| write_labelled(heading, value, renderer));
            } else {
                renderer.new_line();
                write_labelled(heading, value, renderer);
            }
        }
    }
}

/// Writes the cells of a row on one line.
fn write_cells<'text>(cells: &[TableCell<'text>], renderer: &mut RichRenderer<'text>) {
    for (number, content) in cells.iter().enumerate() {
        if number > 0 {
            renderer.push_text(": ");
        }
        write_cell(content, renderer);
    }
}

fn write_labelled<'text>(heading: &TableCell<'text>, value: &TableCell<'text>, renderer: &mut RichRenderer<'text>) {
    if !heading.is_empty() {
        write_cell(heading, renderer);
        renderer.push_text(": ");
    }
    write_cell(value, renderer);
}

fn write_cell<'text>(cell: &TableCell<'text>, renderer: &mut RichRenderer<'text>) {
    cell.iter().for_each(|event| renderer.handle_inline(event));
}

fn cell_text(cell: &TableCell<'_>) -> String {
    let mut output = String::new();
    for event in cell {
        match event {
            Event::Text(text) | Event::Code(text) => output.push_str(text),
            Event::FootnoteReference(label) => output.push_str(&format!("[{label}]")),
            Event::InlineHtml(html) if !super::rich::is_line_break(html) => output.push_str(html),
            Event::InlineHtml(_) | Event::SoftBreak | Event::HardBreak => output.push(' '),
            _ => {}
        }
    }
    output
}

fn count_alphanumeric(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

fn is_inline(end: pulldown_cmark::TagEnd) -> bool {
    use pulldown_cmark::TagEnd::{Emphasis, Image, Link, Strikethrough, Strong};
    matches!(end, Emphasis | Image | Link | Strikethrough | Strong)
}
