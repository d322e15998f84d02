//! Renders Markdown to lines for a terminal.
//!
//! With colours the marks become styles; without, they stay as they are in Markdown, so that a pipe loses nothing.
//! Line breaks inside a paragraph stay line breaks and lists are always tight: a growing text then never changes the
//! lines above its end, which is what lets the stream show them early.

mod wrap;

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::{clean::clean, screen::ScreenStyle};
pub(crate) use wrap::cut;
use wrap::{StyledRun, wrap};

/// Renders a text to lines without their ends.
pub(crate) fn render(text: &str, look: ScreenStyle) -> Vec<String> {
    let mut renderer = TerminalRenderer { look, ..TerminalRenderer::default() };
    for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH) {
        renderer.handle_event(event);
    }
    renderer.flush();
    renderer.lines
}

/// Splits a text that isn't Markdown into harmless lines.
pub(crate) fn plain_lines(text: &str) -> Vec<String> {
    clean(text).trim_end_matches('\n').split('\n').map(str::to_owned).collect()
}

/// Puts a style around a text when there are colours.
pub(crate) fn paint(text: &str, style: Style, look: ScreenStyle) -> String {
    if look.colour && style != Style::new() && !text.is_empty() {
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
    look: ScreenStyle,
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
                None => self.push(&text),
            },
            Event::Code(code) => {
                let style = self.style().fg_color(Some(AnsiColor::Cyan.into()));
                let text = if self.look.colour { code.to_string() } else { format!("`{code}`") };
                self.spans.push(StyledRun { text: clean(&text), style });
            }
            Event::Html(text) | Event::InlineHtml(text) => self.push(&text),
            Event::SoftBreak | Event::HardBreak => self.push("\n"),
            Event::Rule => {
                self.flush();
                self.gap();
                let rule = paint("────────", Style::new().dimmed(), self.look);
                self.emit(vec![rule]);
            }
            // Their options are off, so that these stay text.
            Event::FootnoteReference(_) | Event::TaskListMarker(_) | Event::InlineMath(_) | Event::DisplayMath(_) => {}
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.flush();
                if !self.look.colour {
                    self.push(&format!("{} ", "#".repeat(level as usize)));
                }
                let style = Style::new().bold();
                self.styles.push(if level == HeadingLevel::H1 { style.underline() } else { style });
            }
            Tag::BlockQuote(_) => {
                self.flush();
                if self.lists.is_empty() && !self.containers.iter().any(|it| matches!(it, BlockContainer::Quote)) {
                    self.gap();
                }
                self.containers.push(BlockContainer::Quote);
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                let language = match kind {
                    CodeBlockKind::Fenced(language) => clean(&language),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(start) => {
                self.flush();
                if self.lists.is_empty() {
                    self.gap();
                }
                self.lists.push(start);
            }
            Tag::Item => {
                self.flush();
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{number}. ");
                        *number += 1;
                        marker
                    }
                    _ if self.look.colour => "• ".to_owned(),
                    _ => "- ".to_owned(),
                };
                self.containers.push(BlockContainer::Item { marker, shown: false });
            }
            Tag::Emphasis => self.push_style("*", self.style().italic()),
            Tag::Strong => self.push_style("**", self.style().bold()),
            Tag::Strikethrough => self.push_style("~~", self.style().strikethrough()),
            Tag::Link { dest_url, .. } => self.links.push((dest_url.to_string(), self.spans.len())),
            Tag::Image { dest_url, .. } => {
                self.push("image: ");
                self.links.push((dest_url.to_string(), self.spans.len()));
            }
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.containers.pop();
            }
            TagEnd::Item => {
                self.flush();
                if let Some(BlockContainer::Item { shown: false, .. }) = self.containers.last() {
                    self.emit(vec![String::new()]);
                }
                self.containers.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => self.end_of_code(),
            TagEnd::Emphasis => self.pop_style("*"),
            TagEnd::Strong => self.pop_style("**"),
            TagEnd::Strikethrough => self.pop_style("~~"),
            TagEnd::Link | TagEnd::Image => {
                if let Some((url, from)) = self.links.pop() {
                    let words: String = self.spans[from.min(self.spans.len())..].iter().map(|it| &*it.text).collect();
                    let url = clean(&url);
                    if words != url && format!("mailto:{words}") != url {
                        let style = Style::new().fg_color(Some(AnsiColor::Blue.into())).underline();
                        self.push(" (");
                        self.spans.push(StyledRun { text: url, style });
                        self.push(")");
                    }
                }
            }
            _ => {}
        }
    }

    fn end_of_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        self.gap();
        let code = clean(&code);
        let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat((longest + 1).max(3));
        let (dim, body) = (Style::new().dimmed(), Style::new().fg_color(Some(AnsiColor::Cyan.into())));
        let mut lines = vec![paint(&format!("{fence}{language}"), dim, self.look)];
        // `lines` would take an empty last line away, and an empty block has no line at all.
        let ended = code.is_empty() || code.ends_with('\n');
        let code = if ended { code } else { code + "\n" };
        lines.extend(code.split_terminator('\n').map(|line| paint(line, body, self.look)));
        lines.push(paint(&fence, dim, self.look));
        self.emit(lines);
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push(&mut self, text: &str) {
        self.spans.push(StyledRun { text: clean(text), style: self.style() });
    }

    fn push_style(&mut self, mark: &str, style: Style) {
        if !self.look.colour {
            self.push(mark);
        }
        self.styles.push(style);
    }

    fn pop_style(&mut self, mark: &str) {
        self.styles.pop();
        if !self.look.colour {
            self.push(mark);
        }
    }

    /// Ends the block whose words have been gathered.
    fn flush(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        self.gap();
        let indent = self.containers.iter().map(|it| match it {
            BlockContainer::Quote => 2,
            BlockContainer::Item { marker, .. } => marker.chars().count(),
        });
        let room = self.look.width.map(|width| width.saturating_sub(indent.sum()).max(20));
        self.emit(wrap(&spans, room, self.look));
    }

    /// Leaves a line between blocks, but not inside lists.
    fn gap(&mut self) {
        if self.lists.is_empty() && self.lines.last().is_some_and(|line| !line.is_empty()) {
            let bar = self.prefix();
            self.lines.push(bar.trim_end().to_owned());
        }
    }

    fn emit(&mut self, lines: Vec<String>) {
        for line in lines {
            let prefix = self.prefix();
            self.lines.push(if line.is_empty() { prefix.trim_end().to_owned() } else { format!("{prefix}{line}") });
        }
    }

    /// What stands before a line: bars of quotes, the marker of an item on its first line.
    fn prefix(&mut self) -> String {
        let look = self.look;
        let mut prefix = String::new();
        for container in &mut self.containers {
            match container {
                BlockContainer::Quote if look.colour => prefix.push_str(&paint("│ ", Style::new().dimmed(), look)),
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
