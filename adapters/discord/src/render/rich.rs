//! Markdown as models write it, rewritten where Discord reads it otherwise.
//!
//! The text stays as it stands, character for character, and only pieces of it are replaced: what isn't understood here
//! can't get lost.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::{
    plain::is_address,
    table::{self, TableCell},
};

/// The line that stands for a rule, which Discord doesn't draw.
const RULE: &str = "———";

type MarkdownEvents<'events, 'text> = &'events mut dyn Iterator<Item = (Event<'text>, Range<usize>)>;

/// A text on its way into another one.
struct MarkdownRewriter<'text> {
    source: &'text str,
    written: String,
    /// How far the source is written.
    done: usize,
    /// How deep in lists and quotes, whose lines begin with marks of theirs.
    depth: usize,
    in_link: bool,
    in_code: bool,
}

pub(super) fn rewrite(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut events = Parser::new_ext(text, options).into_offset_iter();
    let mut rewriter = MarkdownRewriter {
        source: text,
        written: String::with_capacity(text.len()),
        done: 0,
        depth: 0,
        in_link: false,
        in_code: false,
    };
    while let Some((event, range)) = events.next() {
        rewriter.handle_event(event, range, &mut events);
    }
    rewriter.replace(text.len()..text.len(), "");
    rewriter.written
}

impl<'text> MarkdownRewriter<'text> {
    fn replace(&mut self, range: Range<usize>, by: &str) {
        // Pieces come in order; one inside of another that was replaced is gone with it.
        let Some(kept) = self.source.get(self.done..range.start) else { return };
        self.written.push_str(kept);
        self.written.push_str(by);
        self.done = range.end;
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
            Event::Start(Tag::Heading { level, .. }) => self.heading(level, &range),
            Event::End(TagEnd::Heading(_)) => self.underline(&range),
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
                let image = image(&image_text(events), &dest_url, self.in_link);
                self.replace(range, &image);
            }
            Event::Start(Tag::CodeBlock(kind)) => self.push_code(&kind, &range),
            Event::End(TagEnd::CodeBlock) => self.in_code = false,
            Event::Start(Tag::Table(_)) => self.table(range, events),
            Event::InlineHtml(html) | Event::Html(html) if is_line_break(&html) => {
                let breaks_already = self.source[range.end..].starts_with('\n') || html.ends_with('\n');
                let kept = if html.ends_with('\n') { "\n" } else { "" };
                self.replace(range, if breaks_already { kept } else { "\n" });
            }
            // A line that ends with a backslash is broken there; every line of Discord's is.
            Event::HardBreak if self.source[range.start..].starts_with('\\') => {
                self.replace(range.start..range.start + 1, "");
            }
            Event::Text(text) if !self.in_code => self.push_text(&text, range),
            _ => {}
        }
    }

    /// Whether strong words are written as those that Discord underlines. Both ends tell the same.
    fn is_underlined(&self, range: &Range<usize>) -> bool {
        self.source[range.start..].starts_with("__") && !is_in_an_address(self.source, range.start)
    }

    /// Discord knows three levels, and none that are underlined.
    fn heading(&mut self, level: HeadingLevel, range: &Range<usize>) {
        let marks = self.source[range.start..].bytes().take_while(|byte| *byte == b'#').count();
        match (marks, level) {
            (0, HeadingLevel::H1) => self.replace(range.start..range.start, "# "),
            (0, _) => self.replace(range.start..range.start, "## "),
            (4.., _) => self.replace(range.start..range.start + marks, "###"),
            _ => {}
        }
    }

    fn underline(&mut self, range: &Range<usize>) {
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

    /// Discord fences code with grave accents only.
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
                let unindented = |line: &str| {
                    let spaces = line.bytes().take(4).take_while(|byte| *byte == b' ').count();
                    let indent = if line.starts_with('\t') { 1 } else { spaces };
                    line[indent..].to_owned()
                };
                // The first line's own indent stands before the block.
                let before = self.source[..range.start].rfind('\n').map_or(0, |end| end + 1);
                let lines: Vec<String> = self.source[before..range.end].trim_end().lines().map(unindented).collect();
                let end = before + self.source[before..range.end].trim_end().len();
                self.replace(before..end, &format!("```\n{}\n```", lines.join("\n")));
            }
            _ => {}
        }
    }

    fn table(&mut self, range: Range<usize>, events: MarkdownEvents<'_, 'text>) {
        let mut rows: Vec<Vec<TableCell>> = Vec::new();
        for (event, part) in events {
            match event {
                Event::End(TagEnd::Table) => break,
                Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => {
                    let written = self.source[part].trim().trim_matches('|').trim().replace("\\|", "|");
                    let cell = TableCell { markdown: rewrite(&written).trim().to_owned(), ..TableCell::default() };
                    rows.last_mut().expect("a cell is in a row").push(cell);
                }
                inline => {
                    if let Some(cell) = rows.last_mut().and_then(|row| row.last_mut()) {
                        cell.links |= matches!(&inline, Event::Start(Tag::Link { .. } | Tag::Image { .. }));
                        cell.plain.push_str(&visible_text(&inline));
                    }
                }
            }
        }
        let source = &self.source[range.clone()];
        // In a list or a quote each line would need its marks, and code in code can't be written.
        if self.depth == 0 && !source.contains("```") {
            let end = range.start + source.trim_end().len();
            self.replace(range.start..end, &table::show(&rows, source));
        }
    }

    /// Words in which Discord would see marks where there are none, and the names of characters, which it doesn't know.
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
            if looks_like_a_mark(source, at, mark) && !is_in_an_address(source, at) {
                self.replace(at..at, "\\");
            }
        }
    }
}

/// Whether Discord could take a character for a mark that CommonMark takes for itself.
fn looks_like_a_mark(source: &str, at: usize, mark: char) -> bool {
    let before = source[..at].chars().next_back().unwrap_or(' ');
    let behind = source[at + mark.len_utf8()..].chars().next().unwrap_or(' ');
    let is_escaped = source[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    let is_mark = match mark {
        '*' => !(before.is_whitespace() && behind.is_whitespace()),
        // In the middle of a word Discord takes it for itself as well.
        '_' => before.is_alphanumeric() != behind.is_alphanumeric() || before == '_' || behind == '_',
        '~' => before == '~' || behind == '~',
        _ => false,
    };
    is_mark && !is_escaped
}

/// Whether a place is inside an address, a mention or an emoji, which a backslash would break.
fn is_in_an_address(source: &str, at: usize) -> bool {
    let begin = source[..at].rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
    let end = source[at..].find(char::is_whitespace).map_or(source.len(), |blank| at + blank);
    let word = source.get(begin..end).unwrap_or_default();
    is_address(word) || (word.starts_with('<') && word.contains('>'))
}

/// An image as a link; one that is a link already is its words.
fn image(words: &str, address: &str, in_link: bool) -> String {
    let words: String = words.chars().filter(|c| !"[]\n".contains(*c)).collect();
    let words = words.trim();
    let is_link = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme))
        && !address.contains(|c: char| c.is_whitespace() || "()<>".contains(c));
    match (words, is_link) {
        ("", _) if in_link => "image".to_owned(),
        (words, _) if in_link => words.to_owned(),
        ("", _) => address.to_owned(),
        (words, true) => format!("[{words}]({address})"),
        (words, false) => format!("{words} ({address})"),
    }
}

/// What is seen of an image's description, which is read to its end.
fn image_text(events: MarkdownEvents<'_, '_>) -> String {
    let (mut words, mut depth) = (String::new(), 0);
    for (event, _) in events {
        match event {
            Event::Start(Tag::Image { .. }) => depth += 1,
            Event::End(TagEnd::Image) if depth == 0 => break,
            Event::End(TagEnd::Image) => depth -= 1,
            inline => words.push_str(&visible_text(&inline)),
        }
    }
    words
}

/// What is seen of a piece of a line.
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
