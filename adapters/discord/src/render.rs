//! Markdown as Discord shows it, and plain text escaped so that Discord shows it literally.
//!
//! Discord parses most Markdown itself, so only what it would render differently or not at all is rewritten: ranges of
//! the source are replaced and everything else is copied verbatim, so unknown syntax can't get lost. The replacement
//! can be longer than what was measured when the text was split; then the text is sent unchanged.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr;

/// The replacement for a thematic break, which Discord doesn't render.
const RULE: &str = "———";

/// The widest table that a phone shows without wrapping, in columns.
const MAX_TABLE_WIDTH: usize = 44;

/// The separator between two columns.
const COLUMN_SEPARATOR: &str = " │ ";

/// Rewrites Markdown that Discord doesn't support. The result has at most `limit` UTF-16 units if the text has.
pub(crate) fn render_markdown(text: &str, limit: usize) -> String {
    let rewritten = rewrite(text);
    let is_usable = utf16_len(&rewritten) <= limit && !rewritten.trim().is_empty();
    if is_usable { rewritten } else { text.to_owned() }
}

/// Escapes a text so that Discord shows it literally. The result has at most `limit` UTF-16 units if the text has.
pub(crate) fn to_plain_text(text: &str, limit: usize) -> String {
    let escaped = escape_markup(text);
    if utf16_len(&escaped) <= limit {
        return escaped;
    }
    // A code block shows its characters literally too, at a fixed cost.
    let code = format!("```\n{text}\n```");
    if !text.contains("```") && utf16_len(&code) <= limit { code } else { text.to_owned() }
}

fn utf16_len(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Puts a backslash before every character that Discord would interpret as markup. URLs stay unchanged: a backslash
/// would become part of them.
fn escape_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let (indent, rest) = line.split_at(line.len() - trimmed.len());
        escaped.push_str(indent);
        let rest = escape_line_start(rest, &mut escaped);
        for word in rest.split_inclusive(char::is_whitespace) {
            if is_address(word) {
                escaped.push_str(word);
            } else {
                word.chars().for_each(|c| {
                    if "\\*_~`|[<".contains(c) {
                        escaped.push('\\');
                    }
                    escaped.push(c);
                });
            }
        }
    }
    escaped
}

/// Whether a word is a URL, which Discord turns into a link.
fn is_address(word: &str) -> bool {
    word.contains("://")
}

/// Escapes markup that counts only at the start of a line. Returns the rest of the line.
fn escape_line_start<'line>(line: &'line str, escaped: &mut String) -> &'line str {
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is_number = digits > 0 && line[digits..].starts_with(". ");
    let mark = if is_number { digits } else { 0 };
    if is_number || line.starts_with(['#', '>', '-', '+']) {
        let (before, rest_from_mark) = line.split_at(mark);
        let (mark, rest) = rest_from_mark.split_at(1);
        escaped.extend([before, "\\", mark]);
        return rest;
    }
    line
}

type MarkdownEvents<'events, 'text> = &'events mut dyn Iterator<Item = (Event<'text>, Range<usize>)>;

/// Copies the source to the output and replaces ranges of it.
struct MarkdownRewriter<'text> {
    source: &'text str,
    output: String,
    /// The end of the source range that was copied or replaced.
    copied_to: usize,
    /// The nesting depth of lists and quotes, whose lines start with markers.
    depth: usize,
    in_link: bool,
    in_code: bool,
}

fn rewrite(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Parser::new_ext(text, options).into_offset_iter();
    let mut rewriter = MarkdownRewriter {
        source: text,
        output: String::with_capacity(text.len()),
        copied_to: 0,
        depth: 0,
        in_link: false,
        in_code: false,
    };
    while let Some((event, range)) = events.next() {
        rewriter.handle_event(event, range, &mut events);
    }
    rewriter.replace(text.len()..text.len(), "");
    rewriter.output
}

impl<'text> MarkdownRewriter<'text> {
    fn replace(&mut self, range: Range<usize>, replacement: &str) {
        // Ranges come in order; a range inside a replaced one is skipped.
        let Some(unchanged) = self.source.get(self.copied_to..range.start) else { return };
        self.output.push_str(unchanged);
        self.output.push_str(replacement);
        self.copied_to = range.end;
    }

    fn handle_event(&mut self, event: Event<'text>, range: Range<usize>, events: MarkdownEvents<'_, 'text>) {
        match event {
            Event::Start(Tag::Strong) if self.is_underlined(&range) => {
                self.replace(range.start..range.start + 2, "**");
            }
            Event::End(TagEnd::Strong) if self.is_underlined(&range) => {
                self.replace(range.end - 2..range.end, "**");
            }
            Event::Start(Tag::Strikethrough) if !self.source[range.start..].starts_with("~~") => {
                self.replace(range.start..range.start + 1, "~~");
            }
            Event::End(TagEnd::Strikethrough) if !self.source[..range.end].ends_with("~~") => {
                self.replace(range.end - 1..range.end, "~~");
            }
            Event::Start(Tag::Heading { level, .. }) => self.rewrite_heading(level, &range),
            Event::End(TagEnd::Heading(_)) => self.remove_heading_underline(&range),
            Event::Start(Tag::List(_) | Tag::BlockQuote(_)) => self.depth += 1,
            Event::End(TagEnd::List(_) | TagEnd::BlockQuote(_)) => self.depth -= 1,
            Event::Start(Tag::Item) if self.source[range.start..].starts_with('+') => {
                self.replace(range.start..range.start + 1, "-");
            }
            Event::TaskListMarker(is_done) => self.replace(range, if is_done { "☑" } else { "☐" }),
            Event::Rule => self.replace(range.start..range.start + self.source[range].trim_end().len(), RULE),
            Event::Start(Tag::Link { .. }) => self.in_link = true,
            Event::End(TagEnd::Link) => self.in_link = false,
            Event::Start(Tag::Image { dest_url, .. }) => {
                let image = image_link(&image_text(events), &dest_url, self.in_link);
                self.replace(range, &image);
            }
            Event::Start(Tag::CodeBlock(kind)) => self.push_code(&kind, &range),
            Event::End(TagEnd::CodeBlock) => self.in_code = false,
            Event::Start(Tag::Table(_)) => self.rewrite_table(range, events),
            Event::InlineHtml(html) | Event::Html(html) if is_line_break(&html) => {
                let is_already_broken = self.source[range.end..].starts_with('\n') || html.ends_with('\n');
                let trailing_newline = if html.ends_with('\n') { "\n" } else { "" };
                self.replace(range, if is_already_broken { trailing_newline } else { "\n" });
            }
            // A backslash at the end of a line breaks it; Discord breaks every line anyway.
            Event::HardBreak if self.source[range.start..].starts_with('\\') => {
                self.replace(range.start..range.start + 1, "");
            }
            Event::Text(text) if !self.in_code => self.push_text(&text, range),
            _ => {}
        }
    }

    /// Whether strong text is written with `__`, which Discord underlines.
    fn is_underlined(&self, range: &Range<usize>) -> bool {
        self.source[range.start..].starts_with("__") && !is_inside_address(self.source, range.start)
    }

    /// Discord supports three heading levels, and no setext headings.
    fn rewrite_heading(&mut self, level: HeadingLevel, range: &Range<usize>) {
        let marks = self.source[range.start..].bytes().take_while(|byte| *byte == b'#').count();
        match (marks, level) {
            (0, HeadingLevel::H1) => self.replace(range.start..range.start, "# "),
            (0, _) => self.replace(range.start..range.start, "## "),
            (4.., _) => self.replace(range.start..range.start + marks, "###"),
            _ => {}
        }
    }

    fn remove_heading_underline(&mut self, range: &Range<usize>) {
        let heading = self.source[range.clone()].trim_end();
        if heading.starts_with('#') {
            return;
        }
        let Some((above, line)) = heading.rsplit_once('\n') else { return };
        let marks = line.trim_start_matches([' ', '>']).trim_end();
        if !marks.is_empty() && marks.bytes().all(|byte| byte == b'=' || byte == b'-') {
            self.replace(range.start + above.len()..range.start + heading.len(), "");
        }
    }

    /// Discord supports only code fences of backticks.
    fn push_code(&mut self, kind: &CodeBlockKind<'_>, range: &Range<usize>) {
        self.in_code = true;
        let block = &self.source[range.clone()];
        if block.contains("```") {
            return;
        }
        let tildes = block.bytes().take_while(|byte| *byte == b'~').count();
        match kind {
            CodeBlockKind::Fenced(_) if tildes >= 3 => {
                let body = block.trim_end();
                let closing = body.bytes().rev().take_while(|byte| *byte == b'~').count();
                self.replace(range.start..range.start + tildes, "```");
                if closing >= 3 && closing < body.len() {
                    let end = range.start + body.len();
                    self.replace(end - closing..end, "```");
                }
            }
            CodeBlockKind::Indented if self.depth == 0 => {
                let strip_indent = |line: &str| {
                    let spaces = line.bytes().take(4).take_while(|byte| *byte == b' ').count();
                    let indent = if line.starts_with('\t') { 1 } else { spaces };
                    line[indent..].to_owned()
                };
                // The first line's indent is before the range of the block.
                let line_start = self.source[..range.start].rfind('\n').map_or(0, |end| end + 1);
                let lines: Vec<String> =
                    self.source[line_start..range.end].trim_end().lines().map(strip_indent).collect();
                let end = line_start + self.source[line_start..range.end].trim_end().len();
                self.replace(line_start..end, &format!("```\n{}\n```", lines.join("\n")));
            }
            _ => {}
        }
    }

    fn rewrite_table(&mut self, range: Range<usize>, events: MarkdownEvents<'_, 'text>) {
        let mut rows: Vec<Vec<TableCell>> = Vec::new();
        for (event, part) in events {
            match event {
                Event::End(TagEnd::Table) => break,
                Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => {
                    let cell_source = self.source[part].trim().trim_matches('|').trim().replace("\\|", "|");
                    let cell = TableCell { markdown: rewrite(&cell_source).trim().to_owned(), ..TableCell::default() };
                    rows.last_mut().expect("a cell is in a row").push(cell);
                }
                inline => {
                    if let Some(cell) = rows.last_mut().and_then(|row| row.last_mut()) {
                        cell.has_link |= matches!(&inline, Event::Start(Tag::Link { .. } | Tag::Image { .. }));
                        cell.plain.push_str(&visible_text(&inline));
                    }
                }
            }
        }
        let source = &self.source[range.clone()];
        // In a list or a quote each line would need its markers, and code blocks can't be nested.
        if self.depth == 0 && !source.contains("```") {
            let end = range.start + source.trim_end().len();
            self.replace(range.start..end, &render_table(&rows, source));
        }
    }

    /// Escapes text that Discord would parse as markup, and decodes character entities, which it doesn't support.
    fn push_text(&mut self, text: &str, range: Range<usize>) {
        let source = self.source;
        if text != &source[range.clone()] {
            if source[range.clone()].starts_with('&') && !text.chars().any(char::is_control) {
                let needs_escape = text.chars().all(|c| "*_~`|<>\\[]#".contains(c));
                self.replace(range, &format!("{}{text}", if needs_escape { "\\" } else { "" }));
            }
            return;
        }
        for (at, mark) in text.char_indices().map(|(at, mark)| (range.start + at, mark)) {
            if is_ambiguous_mark(source, at, mark) && !is_inside_address(source, at) {
                self.replace(at..at, "\\");
            }
        }
    }
}

/// Whether Discord could parse a character as markup that CommonMark treats as text.
fn is_ambiguous_mark(source: &str, at: usize, mark: char) -> bool {
    let previous = source[..at].chars().next_back().unwrap_or(' ');
    let next = source[at + mark.len_utf8()..].chars().next().unwrap_or(' ');
    let is_escaped = source[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    let is_mark = match mark {
        '*' => !(previous.is_whitespace() && next.is_whitespace()),
        // Inside a word Discord treats it as text, too.
        '_' => previous.is_alphanumeric() != next.is_alphanumeric() || previous == '_' || next == '_',
        '~' => previous == '~' || next == '~',
        _ => false,
    };
    is_mark && !is_escaped
}

/// Whether a position is inside a URL, a mention or an emoji, which a backslash would break.
fn is_inside_address(source: &str, at: usize) -> bool {
    let start = source[..at].rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    let end = source[at..].find(char::is_whitespace).map_or(source.len(), |blank| at + blank);
    let word = source.get(start..end).unwrap_or_default();
    is_address(word) || (word.starts_with('<') && word.contains('>'))
}

/// Returns an image as a link; inside a link, only its text.
fn image_link(label: &str, address: &str, in_link: bool) -> String {
    let label: String = label.chars().filter(|c| !"[]\n".contains(*c)).collect();
    let label = label.trim();
    let is_link = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme))
        && !address.contains(|c: char| c.is_whitespace() || "()<>".contains(c));
    match (label, is_link) {
        ("", _) if in_link => "image".to_owned(),
        (label, _) if in_link => label.to_owned(),
        ("", _) => address.to_owned(),
        (label, true) => format!("[{label}]({address})"),
        (label, false) => format!("{label} ({address})"),
    }
}

/// Consumes the events of an image and returns its visible text.
fn image_text(events: MarkdownEvents<'_, '_>) -> String {
    let (mut text, mut depth) = (String::new(), 0);
    for (event, _) in events {
        match event {
            Event::Start(Tag::Image { .. }) => depth += 1,
            Event::End(TagEnd::Image) if depth == 0 => break,
            Event::End(TagEnd::Image) => depth -= 1,
            inline => text.push_str(&visible_text(&inline)),
        }
    }
    text
}

/// Returns the visible text of an inline event.
fn visible_text(event: &Event<'_>) -> String {
    match event {
        Event::Text(text) | Event::Code(text) => text.to_string(),
        Event::InlineHtml(html) if !is_line_break(html) => html.to_string(),
        Event::InlineHtml(_) | Event::SoftBreak | Event::HardBreak => " ".to_owned(),
        _ => String::new(),
    }
}

fn is_line_break(html: &str) -> bool {
    ["<br>", "<br/>", "<br />"].iter().any(|tag| html.trim_end().eq_ignore_ascii_case(tag))
}

#[derive(Debug, Default, Clone)]
struct TableCell {
    /// The source, for records.
    markdown: String,
    /// The visible text, for columns.
    plain: String,
    /// Whether it contains a link, which only Markdown can show.
    has_link: bool,
}

/// Renders a table whose first row holds the headings. `source` is its Markdown.
fn render_table(rows: &[Vec<TableCell>], source: &str) -> String {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("**bold**, *italic*, ~~gone~~, ||spoiler||, `code` and [a link](https://example.com/a_b_c)")]
    #[case("# One\n## Two\n### Three\n- item\n  - inner\n1. first\n> quote")]
    #[case("@everyone, @here, <@42>, <@&7>, <#9>, <:a_b:1> and <t:1700000000:R>")]
    #[case("```rust\nlet __x__ = 2 ** 3;\n```")]
    #[case("snake_case and 2 * 3 * 4 and a ~ b")]
    #[case("https://example.com/_a_/__b__?c=*d*")]
    #[case("kept as #1: <https://x.example/links/_a_.b-_c__>, #2: <https://x.example/links/__d*> (for 7 days)")]
    #[case("an escape \\*stays\\* and so does \\_this\\_")]
    #[case("- [link][1]\n\n[1]: https://example.com")]
    fn what_discord_reads_stays_as_it_was_written(#[case] text: &str) {
        assert_eq!(render_markdown(text, 2000), text);
    }

    #[rstest]
    #[case("__bold__ and __two words__", "**bold** and **two words**")]
    #[case("~gone~", "~~gone~~")]
    #[case("#### Four\n###### Six", "### Four\n### Six")]
    #[case("Title\n=====\n\nSub\n---\ntext", "# Title\n\n## Sub\ntext")]
    #[case("above\n\n---\n\nbelow", "above\n\n———\n\nbelow")]
    #[case("- [ ] open\n- [x] done", "- ☐ open\n- ☑ done")]
    #[case("+ plus", "- plus")]
    #[case("![a chart](https://example.com/c.png)", "[a chart](https://example.com/c.png)")]
    #[case("![](https://example.com/c.png)", "https://example.com/c.png")]
    #[case("![a chart](chart.png)", "a chart (chart.png)")]
    #[case("[![badge](https://a.b/c.svg)](https://a.b)", "[badge](https://a.b)")]
    #[case("one<br>two<br/>\nthree", "one\ntwo\nthree")]
    #[case("one\\\ntwo", "one\ntwo")]
    #[case("a &amp; b &lt;c&gt; &quot;d&quot; 1 &#42; 2", "a & b \\<c\\> \"d\" 1 \\* 2")]
    #[case("a__b__c and 2**3 and x**y", "a\\_\\_b\\_\\_c and 2**3 and x**y")]
    #[case("~~~py\nx = 1\n~~~", "```py\nx = 1\n```")]
    #[case("text\n\n    let a = *b;\n      indented\n\nmore", "text\n\n```\nlet a = *b;\n  indented\n```\n\nmore")]
    fn what_discord_reads_otherwise_is_rewritten(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(render_markdown(text, 2000), expected);
    }

    #[test]
    fn narrow_table_has_columns() {
        let table = "| Name | Sum |\n| --- | ---: |\n| **Ann** | 12 |\n| Bob \\| Co | 7 |";
        let shown = "```\nName     │ Sum\n──────────────\nAnn      │ 12\nBob | Co │ 7\n```";
        assert_eq!(
            render_markdown(&format!("Before\n\n{table}\n\nAfter"), 2000),
            format!("Before\n\n{shown}\n\nAfter")
        );
    }

    #[test]
    fn table_with_links_or_long_cells_becomes_rows() {
        let links = "| Name | Page | Note |\n|---|---|---|\n| Ann | [home](https://a.b) | ![x](https://a.b/c.png) |";
        assert_eq!(render_markdown(links, 2000), "Name: Ann\nPage: [home](https://a.b)\nNote: [x](https://a.b/c.png)");
        let wide = format!("| Word | Meaning |\n|---|---|\n| one | {} |\n| two | short |", "long ".repeat(12));
        assert_eq!(
            render_markdown(&wide, 2000),
            format!("Word: Meaning\none: {}\ntwo: short", "long ".repeat(12).trim())
        );
    }

    #[test]
    fn table_with_surplus_cells_stays_literal() {
        let table = "| a |\n|---|\n| b | lost |";
        assert_eq!(render_markdown(table, 2000), format!("```\n{table}\n```"));
    }

    #[test]
    fn text_that_outgrows_limit_stays_unrendered() {
        let table = "|a|b|c|\n|-|-|-|\n|1|2|3|\n|4|5|6|";
        assert_ne!(render_markdown(table, 2000), table);
        assert_eq!(render_markdown(table, table.len()), table);
        let marks = "*".repeat(1_990);
        assert_eq!(to_plain_text(&marks, 2000), format!("```\n{marks}\n```"));
        let fences = "```".repeat(660);
        assert_eq!(to_plain_text(&fences, 2000), fences);
    }

    #[rstest]
    #[case("*a* _b_ ~~c~~ `d` ||e|| [f](g)", "\\*a\\* \\_b\\_ \\~\\~c\\~\\~ \\`d\\` \\|\\|e\\|\\| \\[f](g)")]
    #[case("# a\n> b\n- c\n12. d\n  * e", "\\# a\n\\> b\n\\- c\n12\\. d\n  \\* e")]
    #[case("<@42> and @everyone", "\\<@42> and @everyone")]
    #[case("see https://a.b/c_d_e*f now_then", "see https://a.b/c_d_e*f now\\_then")]
    #[case("at <https://a.b/_c_>, <https://a.b/*d*>", "at <https://a.b/_c_>, <https://a.b/*d*>")]
    #[case("back\\slash and plain words", "back\\\\slash and plain words")]
    #[case("12 apples - and 3.5 pears", "12 apples - and 3.5 pears")]
    fn plain_text_shows_its_characters(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(to_plain_text(text, 2000), expected);
    }

    /// The letters and digits of a text, of which none may get lost.
    fn letters(text: &str) -> String {
        text.chars().filter(|c| c.is_alphanumeric()).collect()
    }

    proptest! {
        #[test]
        fn no_letter_is_lost_and_no_limit_broken(text in "[a-z0-9 \n*_~`|#>+<()!\\[\\]:.=\\\\-]{0,200}") {
            let rewritten = render_markdown(&text, 300);
            prop_assert!(utf16_len(&rewritten) <= 300.max(utf16_len(&text)));
            for letter in letters(&text).chars() {
                let count = |text: &str| text.chars().filter(|c| *c == letter).count();
                prop_assert!(count(&rewritten) >= count(&text.replace("<br>", "")), "{text:?} became {rewritten:?}");
            }
            prop_assert_eq!(letters(&to_plain_text(&text, usize::MAX)), letters(&text));
        }

        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,80}") {
            render_markdown(&text, 2000);
            to_plain_text(&text, 2000);
        }
    }
}
