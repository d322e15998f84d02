//! Renders Markdown readably for Telegram, which has no headings, lists or tables.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};

use super::{
    html::{HtmlSpan, HtmlWriter, address_text, link_target},
    table::{self, MarkdownTable},
};

/// The Markdown extensions that models use.
fn parser_options() -> Options {
    Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_FOOTNOTES
}

/// Bullets by nesting depth.
const BULLETS: [&str; 3] = ["•", "◦", "▪"];

/// A container that prefixes the lines of its blocks.
enum RichContainer {
    /// A quote; Telegram's own (`has_tag`) if it is outermost, since those can't be nested.
    Quote { has_tag: bool },
    /// An item of a list, whose further lines are indented.
    Item { indent: usize },
}

/// An open link or image.
struct OpenLink {
    /// Its address, if it has to be shown as text.
    visible_address: Option<String>,
    has_tag: bool,
    text: String,
}

pub(super) struct RichRenderer<'text> {
    source: &'text str,
    html: HtmlWriter,
    containers: Vec<RichContainer>,
    /// The number of the next item of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    links: Vec<OpenLink>,
    code: Option<(String, String)>,
    table: Option<MarkdownTable<'text>>,
    /// Up to which byte the source has been rendered.
    rendered_to: usize,
    /// Line breaks to write before the next character.
    pending_breaks: usize,
    /// Whether the current line has content.
    line_has_content: bool,
    /// Whether a block ended, so that the next one starts on a new line.
    block_ended: bool,
}

pub(super) fn render(text: &str) -> HtmlWriter {
    let mut renderer = RichRenderer {
        source: text,
        html: HtmlWriter::default(),
        containers: Vec::new(),
        lists: Vec::new(),
        links: Vec::new(),
        code: None,
        table: None,
        rendered_to: 0,
        pending_breaks: 0,
        line_has_content: false,
        block_ended: false,
    };
    for (event, range) in Parser::new_ext(text, parser_options()).into_offset_iter() {
        renderer.handle_event(event, range);
    }
    renderer.html
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
                self.rendered_to = self.content_end(&range);
            }
            inline => {
                self.continue_block(range.start);
                self.handle_inline(&inline);
                self.rendered_to = range.end;
            }
        }
    }

    /// Renders an inline event. Tables call it for their cells.
    pub(super) fn handle_inline(&mut self, event: &Event<'text>) {
        match event {
            Event::Text(text) => self.push_text(text),
            Event::Code(code) => {
                self.flush_breaks();
                self.html.push_code(code);
                self.line_has_content = true;
            }
            Event::Html(html) | Event::InlineHtml(html) if is_line_break(html) => self.pending_breaks += 1,
            Event::Html(html) | Event::InlineHtml(html) => self.push_lines(html),
            Event::SoftBreak | Event::HardBreak => self.pending_breaks += 1,
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
                    self.line_has_content = false;
                }
            }
            Tag::CodeBlock(kind) => {
                self.begin_full_width_block(range.start);
                let language = match kind {
                    CodeBlockKind::Fenced(info) => sanitize_language(&info),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::HtmlBlock => self.begin_block(range.start),
            Tag::List(start) => {
                self.block_ended |= self.line_has_content;
                self.lists.push(start);
            }
            Tag::Item => self.start_item(range),
            Tag::FootnoteDefinition(label) => {
                self.begin_block(range.start);
                self.push_text(&format!("[{label}] "));
                self.line_has_content = false;
            }
            Tag::Table(_) => {
                self.begin_full_width_block(range.start);
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
                self.pending_breaks = 0;
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
                    self.line_has_content = true;
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
                    table::render_table(&table, &self.source[range.clone()], self);
                }
                self.block_ended = true;
            }
            inline => self.end_inline(inline),
        }
        self.rendered_to = self.content_end(range);
    }

    /// The end of a block's content; trailing line breaks belong to the gap after it.
    fn content_end(&self, range: &Range<usize>) -> usize {
        range.start + self.source[range.clone()].trim_end().len()
    }

    fn start_inline(&mut self, tag: &Tag<'text>) {
        match tag {
            Tag::Emphasis => self.html.open(HtmlSpan::Italic),
            Tag::Strong => self.html.open(HtmlSpan::Bold),
            Tag::Strikethrough => self.html.open(HtmlSpan::Struck),
            // Telegram detects bare addresses by itself.
            Tag::Link { link_type: LinkType::Autolink | LinkType::Email, .. } => self.start_link(""),
            Tag::Link { dest_url, .. } => self.start_link(dest_url),
            Tag::Image { dest_url, .. } => {
                self.flush_breaks();
                self.start_link(dest_url);
                self.html.push_text("🖼 ");
            }
            _ => {}
        }
    }

    fn end_inline(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => self.html.close(),
            TagEnd::Link | TagEnd::Image => {
                if tag == TagEnd::Image && self.links.last().is_some_and(|link| link.text.is_empty()) {
                    self.push_text("image");
                }
                let Some(link) = self.links.pop() else { return };
                if link.has_tag {
                    self.html.close();
                }
                if let Some(suffix) = link.visible_address.and_then(|address| address_text(&address, &link.text)) {
                    self.push_text(&suffix);
                }
            }
            _ => {}
        }
    }

    fn start_link(&mut self, address: &str) {
        let linkable = link_target(address);
        let has_tag = linkable.is_some();
        let address = (!has_tag && !address.is_empty()).then(|| address.to_owned());
        self.links.push(OpenLink { visible_address: address, has_tag, text: String::new() });
        if let Some(target_address) = linkable {
            self.html.open(HtmlSpan::Link(target_address));
        }
    }

    fn start_item(&mut self, range: &Range<usize>) {
        self.begin_block(range.start);
        let depth = self.lists.len().saturating_sub(1);
        let is_task = is_task(&self.source[range.clone()]);
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            // A task's checkbox replaces the bullet.
            _ if is_task => String::new(),
            _ => format!("{} ", BULLETS[depth.min(BULLETS.len() - 1)]),
        };
        self.push_text(&marker);
        self.line_has_content = false;
        self.containers.push(RichContainer::Item { indent: marker.chars().count().max(2) });
    }

    /// Starts a block on a new line.
    fn begin_block(&mut self, at: usize) {
        self.block_ended |= self.line_has_content;
        self.continue_block(at);
        self.flush_breaks();
    }

    /// Starts a block that Telegram shows across the full width, without prefixes.
    fn begin_full_width_block(&mut self, at: usize) {
        self.block_ended |= self.line_has_content;
        self.continue_block(at);
        self.html.push_before_open_spans(&"\n".repeat(self.pending_breaks));
        self.pending_breaks = 0;
        self.line_has_content = false;
    }

    /// Separates the next block from the last one, with an empty line if the source has one.
    fn continue_block(&mut self, at: usize) {
        if !self.block_ended {
            return;
        }
        self.block_ended = false;
        let gap = self.source.get(self.rendered_to..at).unwrap_or_default();
        self.pending_breaks = if gap.matches('\n').count() > 1 { 2 } else { 1 };
    }

    /// Writes text on the current line.
    pub(super) fn push_text(&mut self, text: &str) {
        self.flush_breaks();
        self.html.push_text(text);
        self.line_has_content = true;
        if let Some(link) = self.links.last_mut() {
            link.text.push_str(text);
        }
    }

    /// Writes inside a span.
    pub(super) fn with_span(&mut self, span: HtmlSpan, write: impl FnOnce(&mut Self)) {
        self.flush_breaks();
        self.html.open(span);
        write(self);
        self.html.close();
    }

    /// Adds a line break before the next character.
    pub(super) fn new_line(&mut self) {
        self.pending_breaks += 1;
    }

    /// Writes preformatted lines as a code block, which keeps their columns.
    pub(super) fn push_preformatted(&mut self, lines: &str) {
        self.html.code_block("", lines);
        self.line_has_content = true;
    }

    fn push_lines(&mut self, text: &str) {
        for (number, line) in text.split('\n').enumerate() {
            self.pending_breaks += usize::from(number > 0);
            if !line.is_empty() {
                self.push_text(line.trim_end_matches('\r'));
            }
        }
    }

    /// Writes the pending line breaks and the prefix of the new line.
    fn flush_breaks(&mut self) {
        if self.pending_breaks == 0 {
            return;
        }
        self.html.push_before_open_spans(&"\n".repeat(self.pending_breaks));
        self.pending_breaks = 0;
        self.line_has_content = false;
        let mut prefix = String::new();
        for container in &self.containers {
            match container {
                RichContainer::Quote { has_tag: true } => {}
                RichContainer::Quote { has_tag: false } => prefix.push_str("> "),
                RichContainer::Item { indent } => prefix.push_str(&" ".repeat(*indent)),
            }
        }
        self.html.push_before_open_spans(&prefix);
    }
}

/// Returns the language name of a code block if it is a safe attribute value, else an empty string.
fn sanitize_language(info: &str) -> String {
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '+' | '#' | '-' | '_' | '.');
    let first = info.split([' ', ',', '{']).next().unwrap_or_default();
    if first.chars().all(|c| is_allowed(&c)) { first.to_lowercase() } else { String::new() }
}

/// Whether HTML is `<br>`, which models use for line breaks in tables.
pub(super) fn is_line_break(html: &str) -> bool {
    matches!(html.trim().to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />")
}

/// Whether an item starts with a checkbox.
fn is_task(item: &str) -> bool {
    let text = item.trim_start().trim_start_matches(['-', '*', '+']).trim_start();
    ["[ ] ", "[x] ", "[X] "].iter().any(|mark| text.starts_with(mark))
}
