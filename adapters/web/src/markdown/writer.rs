//! Writes the events of a Markdown parser as HTML, one piece for each block at the top.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, LinkType, Tag, TagEnd};

use super::{escape, links};

/// How deep elements are nested; what lies deeper is written without its own element.
const MAX_DEPTH: usize = 48;

/// How much longer than its Markdown the HTML may become.
const GROWTH: usize = 32;

/// The longest name of a programming language.
const LONGEST_LANGUAGE: usize = 32;

/// The pieces so far.
pub(super) struct MarkdownHtmlWriter {
    room: usize,
    done: Vec<String>,
    html: String,
    /// What ends each element that is open, in the order in which they were opened.
    open: Vec<&'static str>,
    links: usize,
    in_code: bool,
    in_head: bool,
    columns: Vec<Alignment>,
    column: usize,
}

impl MarkdownHtmlWriter {
    pub(super) fn new(length: usize) -> Self {
        Self {
            room: length.saturating_mul(GROWTH) + 64 * 1024,
            done: Vec::new(),
            html: String::new(),
            open: Vec::new(),
            links: 0,
            in_code: false,
            in_head: false,
            columns: Vec::new(),
            column: 0,
        }
    }

    /// Writes an event; `false` when the HTML has become too long.
    pub(super) fn write(&mut self, event: Event<'_>) -> bool {
        match event {
            Event::Start(tag) => self.start_tag(&tag),
            Event::End(end) => self.end_tag(end),
            Event::Text(text) if self.in_code || self.links > 0 => escape(&text, &mut self.html),
            Event::Text(text) => links::with_links(&text, &mut self.html),
            Event::Code(code) => {
                self.html.push_str("<code>");
                escape(&code, &mut self.html);
                self.html.push_str("</code>");
            }
            Event::Html(raw) | Event::InlineHtml(raw) => escape(&raw, &mut self.html),
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(done) => self.html.push_str(if done {
                "<span class=\"task\" role=\"img\" aria-label=\"done\">☑</span> "
            } else {
                "<span class=\"task\" role=\"img\" aria-label=\"to do\">☐</span> "
            }),
            Event::FootnoteReference(words) | Event::InlineMath(words) | Event::DisplayMath(words) => {
                escape(&words, &mut self.html);
            }
        }
        if self.open.is_empty() && !self.html.is_empty() {
            let block = std::mem::take(&mut self.html);
            self.room = self.room.saturating_sub(block.len());
            self.done.push(block);
        }
        self.html.len() <= self.room
    }

    pub(super) fn finish(self) -> Vec<String> {
        self.done
    }

    fn start_tag(&mut self, tag: &Tag<'_>) {
        let closing = match tag {
            Tag::Paragraph => self.element("<p>", "</p>"),
            Tag::HtmlBlock => self.element("<p class=\"plain\">", "</p>"),
            // The page has headings of its own above these.
            Tag::Heading { level, .. } => match level {
                HeadingLevel::H1 => self.element("<h3>", "</h3>"),
                HeadingLevel::H2 => self.element("<h4>", "</h4>"),
                HeadingLevel::H3 => self.element("<h5>", "</h5>"),
                HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => self.element("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => self.element("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(kind) => self.push_code(kind),
            Tag::List(None) => self.element("<ul>", "</ul>"),
            Tag::List(Some(1)) => self.element("<ol>", "</ol>"),
            Tag::List(Some(first)) => self.element(&format!("<ol start=\"{first}\">"), "</ol>"),
            Tag::Item => self.element("<li>", "</li>"),
            Tag::Table(columns) => {
                self.columns.clone_from(columns);
                self.element("<div class=\"table\"><table>", "</table></div>")
            }
            Tag::TableHead => {
                (self.in_head, self.column) = (true, 0);
                self.element("<thead><tr>", "</tr></thead>")
            }
            Tag::TableRow => {
                self.column = 0;
                self.element("<tr>", "</tr>")
            }
            Tag::TableCell => self.cell(),
            Tag::Emphasis => self.element("<em>", "</em>"),
            Tag::Strong => self.element("<strong>", "</strong>"),
            Tag::Strikethrough => self.element("<del>", "</del>"),
            Tag::Link { link_type: LinkType::Email, dest_url, .. } => self.link(&format!("mailto:{dest_url}")),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.link(dest_url),
            _ => "",
        };
        self.open.push(closing);
    }

    fn end_tag(&mut self, end: TagEnd) {
        match end {
            TagEnd::TableHead => self.in_head = false,
            TagEnd::CodeBlock => self.in_code = false,
            TagEnd::Link | TagEnd::Image => self.links -= 1,
            _ => {}
        }
        let closing = self.open.pop().unwrap_or_default();
        self.html.push_str(closing);
    }

    /// Opens an element and returns what ends it.
    fn element(&mut self, opening: &str, closing: &'static str) -> &'static str {
        if self.open.len() >= MAX_DEPTH {
            return "";
        }
        self.html.push_str(opening);
        closing
    }

    fn push_code(&mut self, kind: &CodeBlockKind<'_>) -> &'static str {
        self.in_code = true;
        let plain = |c: &char| c.is_ascii_alphanumeric() || "+#-_.".contains(*c);
        let language: String = match kind {
            CodeBlockKind::Fenced(info) => info.chars().take_while(plain).take(LONGEST_LANGUAGE).collect(),
            CodeBlockKind::Indented => String::new(),
        };
        if language.is_empty() {
            self.element("<pre><code>", "</code></pre>")
        } else {
            self.element(&format!("<pre><code class=\"language-{language}\">"), "</code></pre>")
        }
    }

    fn cell(&mut self) -> &'static str {
        let class = match self.columns.get(self.column) {
            Some(Alignment::Center) => " class=\"center\"",
            Some(Alignment::Right) => " class=\"right\"",
            _ => "",
        };
        self.column += 1;
        match self.in_head {
            true => self.element(&format!("<th{class}>"), "</th>"),
            false => self.element(&format!("<td{class}>"), "</td>"),
        }
    }

    /// A picture is a link too: the page loads nothing from elsewhere. Links in links don't exist in HTML.
    fn link(&mut self, address: &str) -> &'static str {
        self.links += 1;
        if self.links > 1 || self.open.len() >= MAX_DEPTH || !links::may_be_followed(address) {
            return "";
        }
        links::open(address, &mut self.html);
        "</a>"
    }
}
