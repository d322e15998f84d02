//! Writes the events of a Markdown parser as HTML, one item for each top-level block.

use std::collections::HashMap;

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, LinkType, Tag, TagEnd};

use super::{
    escape, links,
    math::{Formula, Formulas, Piece},
    mathml,
};

/// The maximum nesting of elements; deeper content is written without its element.
const MAX_DEPTH: usize = 48;

/// The maximum ratio of the HTML's size to that of the Markdown.
const MAX_GROWTH_FACTOR: usize = 32;

/// The maximum length of a code block's language.
const MAX_LANGUAGE_CHARS: usize = 32;

/// Collects the HTML of top-level blocks.
pub(super) struct MarkdownHtmlWriter<'t> {
    formulas: Formulas<'t>,
    remaining_bytes: usize,
    blocks: Vec<String>,
    html: String,
    /// The closing tags of the open elements, outermost first.
    open_tags: Vec<&'static str>,
    link_depth: usize,
    in_code: bool,
    in_head: bool,
    columns: Vec<Alignment>,
    column: usize,
    footnotes: Footnotes,
}

/// The footnotes of a text, which stand at its end.
#[derive(Debug, Default)]
struct Footnotes {
    /// By label: in the order in which they are mentioned first.
    numbers: HashMap<String, usize>,
    notes: Vec<(usize, String)>,
    /// What was being written where a note is defined, with the number of the note.
    suspended: Vec<(usize, String)>,
}

impl Footnotes {
    fn number(&mut self, label: &str) -> usize {
        let next = self.numbers.len() + 1;
        *self.numbers.entry(label.to_owned()).or_insert(next)
    }
}

impl<'t> MarkdownHtmlWriter<'t> {
    pub(super) fn new(markdown_bytes: usize, formulas: Formulas<'t>) -> Self {
        Self {
            formulas,
            remaining_bytes: markdown_bytes.saturating_mul(MAX_GROWTH_FACTOR) + 64 * 1024,
            blocks: Vec::new(),
            html: String::new(),
            open_tags: Vec::new(),
            link_depth: 0,
            in_code: false,
            in_head: false,
            columns: Vec::new(),
            column: 0,
            footnotes: Footnotes::default(),
        }
    }

    /// Writes an event; returns `false` if the HTML is too long.
    pub(super) fn write(&mut self, event: Event<'_>) -> bool {
        match event {
            Event::Start(tag) => self.start_tag(&tag),
            Event::End(end) => self.end_tag(end),
            Event::Text(text) => self.push_text(&text),
            Event::Code(code) => self.push_inline_code(&code),
            Event::Html(raw) | Event::InlineHtml(raw) => escape(&self.formulas.restore(&raw), &mut self.html),
            Event::SoftBreak => self.html.push('\n'),
            Event::HardBreak => self.html.push_str("<br>\n"),
            Event::Rule => self.html.push_str("<hr>"),
            Event::TaskListMarker(done) => self.html.push_str(if done {
                "<span class=\"task\" role=\"img\" aria-label=\"done\">☑</span> "
            } else {
                "<span class=\"task\" role=\"img\" aria-label=\"to do\">☐</span> "
            }),
            Event::FootnoteReference(label) => {
                let number = self.footnotes.number(&label);
                self.html.push_str(&format!("<sup class=\"footnote-ref\">{number}</sup>"));
            }
            // The parser looks for no formulas: they were taken out before.
            Event::InlineMath(words) | Event::DisplayMath(words) => escape(&words, &mut self.html),
        }
        if self.open_tags.is_empty() && !self.html.is_empty() {
            let block = std::mem::take(&mut self.html);
            self.remaining_bytes = self.remaining_bytes.saturating_sub(block.len());
            self.blocks.push(block);
        }
        self.html.len() <= self.remaining_bytes
    }

    pub(super) fn finish(mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.footnotes.notes);
        // A label that is defined twice keeps its first note.
        notes.sort_by_key(|(number, _)| *number);
        notes.dedup_by_key(|(number, _)| *number);
        if !notes.is_empty() {
            let items: String = notes.into_iter().map(|(_, note)| format!("<li>{note}</li>")).collect();
            self.blocks.push(format!("<ol class=\"footnotes\">{items}</ol>"));
        }
        self.blocks
    }

    fn push_text(&mut self, text: &str) {
        if self.in_code {
            escape(&self.formulas.restore(text), &mut self.html);
            return;
        }
        for piece in self.formulas.split(text) {
            if self.html.len() > self.remaining_bytes {
                return;
            }
            match piece {
                Piece::Text(words) if self.link_depth > 0 => escape(words, &mut self.html),
                Piece::Text(words) => links::push_linked_text(words, &mut self.html),
                Piece::Formula(formula) => self.push_formula(formula),
            }
        }
    }

    /// Writes a formula, or its source if it isn't understood.
    fn push_formula(&mut self, formula: Formula<'_>) {
        match mathml::to_mathml(formula) {
            Some(mathml) => self.html.push_str(&mathml),
            None => self.push_inline_code(formula.source),
        }
    }

    fn push_inline_code(&mut self, code: &str) {
        self.html.push_str("<code>");
        escape(&self.formulas.restore(code), &mut self.html);
        self.html.push_str("</code>");
    }

    /// Lets a footnote be written by itself.
    fn start_footnote(&mut self, label: &str) -> &'static str {
        let number = self.footnotes.number(label);
        self.footnotes.suspended.push((number, std::mem::take(&mut self.html)));
        ""
    }

    fn end_footnote(&mut self) {
        let Some((number, html)) = self.footnotes.suspended.pop() else { return };
        let note = std::mem::replace(&mut self.html, html);
        self.remaining_bytes = self.remaining_bytes.saturating_sub(note.len());
        self.footnotes.notes.push((number, note));
    }

    fn start_tag(&mut self, tag: &Tag<'_>) {
        let closing = match tag {
            Tag::Paragraph => self.open_element("<p>", "</p>"),
            Tag::HtmlBlock => self.open_element("<p class=\"plain\">", "</p>"),
            // The page has headings of its own above these.
            Tag::Heading { level, .. } => match level {
                HeadingLevel::H1 => self.open_element("<h3>", "</h3>"),
                HeadingLevel::H2 => self.open_element("<h4>", "</h4>"),
                HeadingLevel::H3 => self.open_element("<h5>", "</h5>"),
                HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => self.open_element("<h6>", "</h6>"),
            },
            Tag::BlockQuote(_) => self.open_element("<blockquote>", "</blockquote>"),
            Tag::CodeBlock(kind) => self.push_code(kind),
            Tag::List(None) => self.open_element("<ul>", "</ul>"),
            Tag::List(Some(1)) => self.open_element("<ol>", "</ol>"),
            Tag::List(Some(first)) => self.open_element(&format!("<ol start=\"{first}\">"), "</ol>"),
            Tag::Item => self.open_element("<li>", "</li>"),
            Tag::Table(columns) => {
                self.columns.clone_from(columns);
                self.open_element("<div class=\"table\"><table>", "</table></div>")
            }
            Tag::TableHead => {
                (self.in_head, self.column) = (true, 0);
                self.open_element("<thead><tr>", "</tr></thead>")
            }
            Tag::TableRow => {
                self.column = 0;
                self.open_element("<tr>", "</tr>")
            }
            Tag::TableCell => self.open_cell(),
            Tag::Emphasis => self.open_element("<em>", "</em>"),
            Tag::Strong => self.open_element("<strong>", "</strong>"),
            Tag::Strikethrough => self.open_element("<del>", "</del>"),
            Tag::Link { link_type: LinkType::Email, dest_url, .. } => self.open_link(&format!("mailto:{dest_url}")),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                let address = self.formulas.restore(dest_url).into_owned();
                self.open_link(&address)
            }
            Tag::FootnoteDefinition(label) => self.start_footnote(label),
            _ => "",
        };
        self.open_tags.push(closing);
    }

    fn end_tag(&mut self, end: TagEnd) {
        match end {
            TagEnd::TableHead => self.in_head = false,
            TagEnd::CodeBlock => self.in_code = false,
            TagEnd::Link | TagEnd::Image => self.link_depth -= 1,
            TagEnd::FootnoteDefinition => self.end_footnote(),
            _ => {}
        }
        let closing = self.open_tags.pop().unwrap_or_default();
        self.html.push_str(closing);
    }

    /// Opens an element and returns its closing tag.
    fn open_element(&mut self, opening: &str, closing: &'static str) -> &'static str {
        if self.open_tags.len() >= MAX_DEPTH {
            return "";
        }
        self.html.push_str(opening);
        closing
    }

    fn push_code(&mut self, kind: &CodeBlockKind<'_>) -> &'static str {
        self.in_code = true;
        let is_language_char = |c: &char| c.is_ascii_alphanumeric() || "+#-_.".contains(*c);
        let language: String = match kind {
            CodeBlockKind::Fenced(info) => info.chars().take_while(is_language_char).take(MAX_LANGUAGE_CHARS).collect(),
            CodeBlockKind::Indented => String::new(),
        };
        if language.is_empty() {
            self.open_element("<pre><code>", "</code></pre>")
        } else {
            self.open_element(&format!("<pre><code class=\"language-{language}\">"), "</code></pre>")
        }
    }

    fn open_cell(&mut self) -> &'static str {
        let class = match self.columns.get(self.column) {
            Some(Alignment::Center) => " class=\"center\"",
            Some(Alignment::Right) => " class=\"right\"",
            _ => "",
        };
        self.column += 1;
        match self.in_head {
            true => self.open_element(&format!("<th{class}>"), "</th>"),
            false => self.open_element(&format!("<td{class}>"), "</td>"),
        }
    }

    /// Opens a link, also for an image, because the page loads nothing from other sites. Nested links are invalid HTML.
    fn open_link(&mut self, address: &str) -> &'static str {
        self.link_depth += 1;
        if self.link_depth > 1 || self.open_tags.len() >= MAX_DEPTH || !links::is_allowed_address(address) {
            return "";
        }
        links::open_anchor(address, &mut self.html);
        "</a>"
    }
}
