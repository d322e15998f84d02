//! Renders Markdown to lines for a terminal.
//!
//! With colours the markers become styles; without, they stay as in Markdown, so that piped output loses nothing.
//! Line breaks inside a paragraph are kept and lists are always tight, so that streamed text never changes earlier
//! lines and they can be printed early.

mod word_wrap;

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::{sanitizer::clean, screen::ScreenStyle};
pub(crate) use word_wrap::truncate_line;
use word_wrap::{StyledRun, wrap_runs};

/// Renders Markdown to lines without line breaks.
pub(crate) fn render(text: &str, screen_style: ScreenStyle) -> Vec<String> {
    let mut renderer = TerminalRenderer { screen_style, ..TerminalRenderer::default() };
    for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH) {
        renderer.handle_event(event);
    }
    renderer.flush_block();
    renderer.lines
}

/// Splits plain text into sanitized lines.
pub(crate) fn plain_lines(text: &str) -> Vec<String> {
    clean(text).trim_end_matches('\n').split('\n').map(str::to_owned).collect()
}

/// Applies a style to a text if colours are on.
pub(crate) fn paint(text: &str, style: Style, screen_style: ScreenStyle) -> String {
    if screen_style.colour && style != Style::new() && !text.is_empty() {
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

#[derive(Debug)]
enum BlockContainer {
    Quote,
    Item { marker: String, shown: bool },
}

#[derive(Debug, Default)]
struct TerminalRenderer {
    screen_style: ScreenStyle,
    lines: Vec<String>,
    spans: Vec<StyledRun>,
    styles: Vec<Style>,
    containers: Vec<BlockContainer>,
    lists: Vec<Option<u64>>,
    links: Vec<(String, usize)>,
    code: Option<(String, String)>,
}

impl TerminalRenderer {
    fn handle_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.push_text(&text),
            },
            Event::Code(code) => {
                let style = self.style().fg_color(Some(AnsiColor::Cyan.into()));
                let text = if self.screen_style.colour { code.to_string() } else { format!("`{code}`") };
                self.spans.push(StyledRun { text: clean(&text), style });
            }
            Event::Html(text) | Event::InlineHtml(text) => self.push_text(&text),
            Event::SoftBreak | Event::HardBreak => self.push_text("\n"),
            Event::Rule => {
                self.flush_block();
                self.push_gap();
                let rule = paint("────────", Style::new().dimmed(), self.screen_style);
                self.push_lines(vec![rule]);
            }
            // Their parser options are off, so these don't occur.
            Event::FootnoteReference(_) | Event::TaskListMarker(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.flush_block();
                if !self.screen_style.colour {
                    self.push_text(&format!("{} ", "#".repeat(level as usize)));
                }
                let style = Style::new().bold();
                self.styles.push(if level == HeadingLevel::H1 { style.underline() } else { style });
            }
            Tag::BlockQuote(_) => {
                self.flush_block();
                if self.lists.is_empty()
                    && !self.containers.iter().any(|container| matches!(container, BlockContainer::Quote))
                {
                    self.push_gap();
                }
                self.containers.push(BlockContainer::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.flush_block();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => clean(&language),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(start) => {
                self.flush_block();
                if self.lists.is_empty() {
                    self.push_gap();
                }
                self.lists.push(start);
            }
            Tag::Item => {
                self.flush_block();
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{number}. ");
                        *number += 1;
                        marker
                    }
                    _ if self.screen_style.colour => "• ".to_owned(),
                    _ => "- ".to_owned(),
                };
                self.containers.push(BlockContainer::Item { marker, shown: false });
            }
            Tag::Emphasis => self.push_style("*", self.style().italic()),
            Tag::Strong => self.push_style("**", self.style().bold()),
            Tag::Strikethrough => self.push_style("~~", self.style().strikethrough()),
            Tag::Link { dest_url, .. } => self.links.push((dest_url.to_string(), self.spans.len())),
            Tag::Image { dest_url, .. } => {
                self.push_text("image: ");
                self.links.push((dest_url.to_string(), self.spans.len()));
            }
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush_block(),
            TagEnd::Heading(_) => {
                self.flush_block();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush_block();
                self.containers.pop();
            }
            TagEnd::Item => {
                self.flush_block();
                if let Some(BlockContainer::Item { shown: false, .. }) = self.containers.last() {
                    self.push_lines(vec![String::new()]);
                }
                self.containers.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => self.end_code_block(),
            TagEnd::Emphasis => self.pop_style("*"),
            TagEnd::Strong => self.pop_style("**"),
            TagEnd::Strikethrough => self.pop_style("~~"),
            TagEnd::Link | TagEnd::Image => {
                if let Some((url, from)) = self.links.pop() {
                    let label: String =
                        self.spans[from.min(self.spans.len())..].iter().map(|span| &*span.text).collect();
                    let url = clean(&url);
                    if label != url && format!("mailto:{label}") != url {
                        let style = Style::new().fg_color(Some(AnsiColor::Blue.into())).underline();
                        self.push_text(" (");
                        self.spans.push(StyledRun { text: url, style });
                        self.push_text(")");
                    }
                }
            }
            _ => {}
        }
    }

    fn end_code_block(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        self.push_gap();
        let code = clean(&code);
        let longest_run = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat((longest_run + 1).max(3));
        let (dim, body) = (Style::new().dimmed(), Style::new().fg_color(Some(AnsiColor::Cyan.into())));
        let mut lines = vec![paint(&format!("{fence}{language}"), dim, self.screen_style)];
        // `lines` would drop an empty last line, and an empty block has no line.
        let ends_with_newline = code.is_empty() || code.ends_with('\n');
        let code = if ends_with_newline { code } else { code + "\n" };
        lines.extend(code.split_terminator('\n').map(|line| paint(line, body, self.screen_style)));
        lines.push(paint(&fence, dim, self.screen_style));
        self.push_lines(lines);
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push_text(&mut self, text: &str) {
        self.spans.push(StyledRun { text: clean(text), style: self.style() });
    }

    fn push_style(&mut self, mark: &str, style: Style) {
        if !self.screen_style.colour {
            self.push_text(mark);
        }
        self.styles.push(style);
    }

    fn pop_style(&mut self, mark: &str) {
        self.styles.pop();
        if !self.screen_style.colour {
            self.push_text(mark);
        }
    }

    /// Wraps the collected spans and emits them as a block.
    fn flush_block(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        self.push_gap();
        let indent = self.containers.iter().map(|container| match container {
            BlockContainer::Quote => 2,
            BlockContainer::Item { marker, .. } => marker.chars().count(),
        });
        let width = self.screen_style.width.map(|columns| columns.saturating_sub(indent.sum()).max(20));
        self.push_lines(wrap_runs(&spans, width, self.screen_style));
    }

    /// Adds an empty line between blocks, but not inside lists.
    fn push_gap(&mut self) {
        if self.lists.is_empty() && self.lines.last().is_some_and(|line| !line.is_empty()) {
            let bar = self.next_prefix();
            self.lines.push(bar.trim_end().to_owned());
        }
    }

    fn push_lines(&mut self, lines: Vec<String>) {
        for line in lines {
            let prefix = self.next_prefix();
            self.lines.push(if line.is_empty() { prefix.trim_end().to_owned() } else { format!("{prefix}{line}") });
        }
    }

    /// Returns the prefix of the next line: quote bars, and an item's marker on its first line.
    fn next_prefix(&mut self) -> String {
        let screen_style = self.screen_style;
        let mut prefix = String::new();
        for container in &mut self.containers {
            match container {
                BlockContainer::Quote if screen_style.colour => {
                    prefix.push_str(&paint("│ ", Style::new().dimmed(), screen_style))
                }
                BlockContainer::Quote => prefix.push_str("> "),
                BlockContainer::Item { marker, shown: shown @ false } => {
                    prefix.push_str(marker);
                    *shown = true;
                }
                BlockContainer::Item { marker, .. } => prefix.extend(std::iter::repeat_n(' ', marker.chars().count())),
            }
        }
        prefix
    }
}

#[cfg(test)]
mod tests;
