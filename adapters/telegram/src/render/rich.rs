//! Markdown as a person would want to read it in Telegram, which knows neither headings nor lists nor tables.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::{
    html::{HtmlSpan, HtmlWriter},
    link::{address_text, linkable},
    table::{self, MarkdownTable},
};

/// What models write beyond CommonMark.
fn options() -> Options {
    Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_FOOTNOTES
}

/// What the marks of an item are, by how deep it lies.
const BULLETS: [&str; 3] = ["•", "◦", "▪"];

/// What the lines of a block begin with.
enum RichContainer {
    /// A quote; Telegram's own where nothing is around it, for it can't be nested.
    Quote { has_tag: bool },
    /// An item of a list, whose further lines stand below its words.
    Item { indent: usize },
}

/// A link or an image that is open.
struct OpenLink {
    /// Where it goes, if that has to be said in words.
    address: Option<String>,
    has_tag: bool,
    said: String,
}

/// A text as it is rendered.
pub(super) struct RichRenderer<'text> {
    source: &'text str,
    html: HtmlWriter,
    containers: Vec<RichContainer>,
    /// The number of the next item of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    links: Vec<OpenLink>,
    code: Option<(String, String)>,
    table: Option<MarkdownTable<'text>>,
    /// Up to where the source has been shown.
    shown: usize,
    /// Line breaks that are due before the next character.
    breaks: usize,
    /// Whether something stands on this line.
    line_begun: bool,
    /// Whether a block ended, so that what follows begins a new line.
    block_ended: bool,
}

pub(super) fn render(text: &str) -> HtmlWriter {
    let mut rich = RichRenderer {
        source: text,
        html: HtmlWriter::default(),
        containers: Vec::new(),
        lists: Vec::new(),
        links: Vec::new(),
        code: None,
        table: None,
        shown: 0,
        breaks: 0,
        line_begun: false,
        block_ended: false,
    };
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        rich.handle_event(event, range);
    }
    rich.html
}

impl<'text> RichRenderer<'text> {
    fn handle_event(&mut self, event: Event<'text>, range: Range<usize>) {
        if let Some(table) = &mut self.table
            && event != Event::End(TagEnd::Table)
        {
            table.handle_event(event);
            return;
        }
        if let Some((_, code)) = &mut self.code
            && let Event::Text(text) = &event
        {
            code.push_str(text);
            return;
        }
        match event {
            Event::Start(tag) => self.start_tag(tag, &range),
            Event::End(tag) => self.end_tag(tag, &range),
            Event::Rule => {
                self.begin_block(range.start);
                self.push_text("────────");
                self.block_ended = true;
                self.shown = self.end_of(&range);
            }
            inline => {
                self.continue_block(range.start);
                self.inline(&inline);
                self.shown = range.end;
            }
        }
    }

    /// What stands on a line. Tables call it for their cells.
    pub(super) fn inline(&mut self, event: &Event<'text>) {
        match event {
            Event::Text(text) => self.push_text(text),
            Event::Code(code) => {
                self.break_lines();
                self.html.push_code(code);
                self.line_begun = true;
            }
            Event::Html(html) | Event::InlineHtml(html) if is_line_break(html) => self.breaks += 1,
            Event::Html(html) | Event::InlineHtml(html) => self.lines(html),
            Event::SoftBreak | Event::HardBreak => self.breaks += 1,
            Event::TaskListMarker(done) => self.push_text(if *done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(label) => self.push_text(&format!("[{label}]")),
            Event::Start(tag) => self.start_inline(tag),
            Event::End(tag) => self.end_inline(*tag),
            // Rules are blocks, and the extension for formulas is off.
            Event::Rule | Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    fn start_tag(&mut self, tag: Tag<'text>, range: &Range<usize>) {
        match tag {
            Tag::Paragraph => self.continue_block(range.start),
            Tag::Heading { .. } => {
                self.begin_block(range.start);
                self.html.open(HtmlSpan::Bold);
            }
            Tag::BlockQuote(_) => {
                self.begin_block(range.start);
                let has_tag = self.containers.is_empty();
                self.containers.push(RichContainer::Quote { has_tag });
                if has_tag {
                    self.html.open(HtmlSpan::Quote);
                } else {
                    self.push_text("> ");
                    self.line_begun = false;
                }
            }
            Tag::CodeBlock(kind) => {
                self.begin_block_of_columns(range.start);
                let language = match kind {
                    CodeBlockKind::Fenced(info) => language(&info),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::HtmlBlock => self.begin_block(range.start),
            Tag::List(start) => {
                self.block_ended |= self.line_begun;
                self.lists.push(start);
            }
            Tag::Item => self.item(range),
            Tag::FootnoteDefinition(label) => {
                self.begin_block(range.start);
                self.push_text(&format!("[{label}] "));
                self.line_begun = false;
            }
            Tag::Table(_) => {
                self.begin_block_of_columns(range.start);
                self.table = Some(MarkdownTable::default());
            }
            inline => {
                self.continue_block(range.start);
                self.start_inline(&inline);
            }
        }
    }

    fn end_tag(&mut self, tag: TagEnd, range: &Range<usize>) {
        match tag {
            TagEnd::Paragraph | TagEnd::FootnoteDefinition => self.block_ended = true,
            TagEnd::HtmlBlock => {
                self.breaks = 0;
                self.block_ended = true;
            }
            TagEnd::Heading(_) => {
                self.html.close();
                self.block_ended = true;
            }
            TagEnd::BlockQuote(_) => {
                if let Some(RichContainer::Quote { has_tag: true }) = self.containers.pop() {
                    self.html.close();
                }
                self.block_ended = true;
            }
            TagEnd::CodeBlock => {
                if let Some((language, code)) = self.code.take() {
                    self.html.code_block(&language, code.trim_end_matches('\n'));
                    self.line_begun = true;
                }
                self.block_ended = true;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.block_ended = true;
            }
            TagEnd::Item => {
                self.containers.pop();
                self.block_ended = true;
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    table::show(&table, &self.source[range.clone()], self);
                }
                self.block_ended = true;
            }
            inline => self.end_inline(inline),
        }
        self.shown = self.end_of(range);
    }

    /// Where a block ends: the line breaks behind it belong to the gap that follows.
    fn end_of(&self, range: &Range<usize>) -> usize {
        range.start + self.source[range.clone()].trim_end().len()
    }

    fn start_inline(&mut self, tag: &Tag<'text>) {
        match tag {
            Tag::Emphasis => self.html.open(HtmlSpan::Italic),
            Tag::Strong => self.html.open(HtmlSpan::Bold),
            Tag::Strikethrough => self.html.open(HtmlSpan::Struck),
            // Telegram finds bare addresses by itself.
            Tag::Link { link_type: LinkType::Autolink | LinkType::Email, .. } => self.link(""),
            Tag::Link { dest_url, .. } => self.link(dest_url),
            Tag::Image { dest_url, .. } => {
                self.break_lines();
                self.link(dest_url);
                self.html.push_text("🖼 ");
            }
            _ => {}
        }
    }

    fn end_inline(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.html.close(),
            TagEnd::Link | TagEnd::Image => {
                if tag == TagEnd::Image && self.links.last().is_some_and(|link| link.said.is_empty()) {
                    self.push_text("image");
                }
                let Some(link) = self.links.pop() else { return };
                if link.has_tag {
                    self.html.close();
                }
                if let Some(words) = link.address.and_then(|address| address_text(&address, &link.said)) {
                    self.push_text(&words);
                }
            }
            _ => {}
        }
    }

    fn link(&mut self, address: &str) {
        let linkable = linkable(address);
        let has_tag = linkable.is_some();
        let address = (!has_tag && !address.is_empty()).then(|| address.to_owned());
        self.links.push(OpenLink { address, has_tag, said: String::new() });
        if let Some(address) = linkable {
            self.html.open(HtmlSpan::Link(address));
        }
    }

    fn item(&mut self, range: &Range<usize>) {
        self.begin_block(range.start);
        let depth = self.lists.len().saturating_sub(1);
        let is_task = is_task(&self.source[range.clone()]);
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            // The box takes the place of the bullet.
            _ if is_task => String::new(),
            _ => format!("{} ", BULLETS[depth.min(BULLETS.len() - 1)]),
        };
        self.push_text(&marker);
        self.line_begun = false;
        self.containers.push(RichContainer::Item { indent: marker.chars().count().max(2) });
    }

    /// Begins a block that stands on lines of its own.
    fn begin_block(&mut self, at: usize) {
        self.block_ended |= self.line_begun;
        self.continue_block(at);
        self.break_lines();
    }

    /// Begins a block that Telegram shows across the whole width, so that nothing stands before it.
    fn begin_block_of_columns(&mut self, at: usize) {
        self.block_ended |= self.line_begun;
        self.continue_block(at);
        self.html.between(&"\n".repeat(self.breaks));
        self.breaks = 0;
        self.line_begun = false;
    }

    /// Goes on after a block that has ended, with an empty line where the source has one.
    fn continue_block(&mut self, at: usize) {
        if !self.block_ended {
            return;
        }
        self.block_ended = false;
        let between = self.source.get(self.shown..at).unwrap_or_default();
        self.breaks = if between.matches('\n').count() > 1 { 2 } else { 1 };
    }

    /// Writes words on the current line.
    pub(super) fn push_text(&mut self, words: &str) {
        self.break_lines();
        self.html.push_text(words);
        self.line_begun = true;
        if let Some(link) = self.links.last_mut() {
            link.said.push_str(words);
        }
    }

    /// Writes words in bold or italic.
    pub(super) fn with_span(&mut self, span: HtmlSpan, write: impl FnOnce(&mut Self)) {
        self.break_lines();
        self.html.open(span);
        write(self);
        self.html.close();
    }

    /// Breaks the line before whatever comes next.
    pub(super) fn new_line(&mut self) {
        self.breaks += 1;
    }

    /// Writes a block of code, for what has to keep its columns.
    pub(super) fn columns(&mut self, lines: &str) {
        self.html.code_block("", lines);
        self.line_begun = true;
    }

    fn lines(&mut self, text: &str) {
        for (number, line) in text.split('\n').enumerate() {
            self.breaks += usize::from(number > 0);
            if !line.is_empty() {
                self.push_text(line.trim_end_matches('\r'));
            }
        }
    }

    /// Writes the line breaks that are due, and what the new line begins with.
    fn break_lines(&mut self) {
        if self.breaks == 0 {
            return;
        }
        self.html.between(&"\n".repeat(self.breaks));
        self.breaks = 0;
        self.line_begun = false;
        let mut prefix = String::new();
        for container in &self.containers {
            match container {
                RichContainer::Quote { has_tag: true } => {}
                RichContainer::Quote { has_tag: false } => prefix.push_str("> "),
                RichContainer::Item { indent } => prefix.push_str(&" ".repeat(*indent)),
            }
        }
        self.html.between(&prefix);
    }
}

/// The name of a language as an attribute takes it.
fn language(info: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '#' | '-' | '_' | '.');
    let first = info.split([' ', ',', '{']).next().unwrap_or_default();
    if first.chars().all(|c| plain(&c)) { first.to_lowercase() } else { String::new() }
}

/// Whether HTML is the one tag that models use for line breaks inside of tables.
pub(super) fn is_line_break(html: &str) -> bool {
    matches!(html.trim().to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />")
}

/// Whether an item begins with a box.
fn is_task(item: &str) -> bool {
    let words = item.trim_start().trim_start_matches(['-', '*', '+']).trim_start();
    ["[ ] ", "[x] ", "[X] "].iter().any(|mark| words.starts_with(mark))
}
