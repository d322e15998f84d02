//! Rewrites Markdown where Discord parses it differently from CommonMark.
//!
//! Only ranges of the source are replaced and everything else is copied verbatim, so unknown syntax can't get lost.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::{
    is_address,
    table::{self, TableCell},
};

/// The replacement for a thematic break, which Discord doesn't render.
const RULE: &str = "———";

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

pub(super) fn rewrite(text: &str) -> String {
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
            self.replace(range.start..end, &table::render_table(&rows, source));
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
