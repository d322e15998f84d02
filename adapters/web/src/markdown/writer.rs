//! Writes the tree of a text as HTML, one item for each outermost block.

use std::collections::HashMap;

use satchel_markup::{
    Block, BlockKind, CodeBlock, ColumnAlignment, Document, Inline, InlineKind, ListItem, TableBlock, TableRow,
    TexFormula,
};

use super::{escape, links, mathml};

/// The maximum ratio of the HTML's size to that of the text.
const MAX_GROWTH_FACTOR: usize = 32;

/// The maximum length of a code block's language.
const MAX_LANGUAGE_CHARS: usize = 32;

/// How many formulas of a text become MathML, and how long one of them may be; the others are shown as they were written.
/// Together they bound the time that a text of nothing but formulas takes.
const MAX_FORMULAS: usize = 2_000;
pub(super) const MAX_FORMULA_BYTES: usize = 4_000;

/// Writes the blocks of a text; `None` if the HTML would be too long. The tree bounds how deep they are nested.
pub(super) fn write_blocks(document: &Document<'_>) -> Option<Vec<String>> {
    let mut writer = MarkdownHtmlWriter {
        source: document.source,
        remaining_bytes: document.source.len().saturating_mul(MAX_GROWTH_FACTOR) + 64 * 1024,
        remaining_formulas: MAX_FORMULAS,
        html: String::new(),
        is_too_long: false,
        is_in_link: false,
        footnotes: Footnotes::default(),
    };
    let mut blocks = Vec::new();
    for block in &document.blocks {
        writer.push_block(block);
        if writer.check_length() {
            return None;
        }
        let html = std::mem::take(&mut writer.html);
        writer.remaining_bytes = writer.remaining_bytes.saturating_sub(html.len());
        if !html.is_empty() {
            blocks.push(html);
        }
    }
    blocks.extend(writer.footnotes.into_list());
    Some(blocks)
}

/// Writes one block after the other.
struct MarkdownHtmlWriter<'t> {
    source: &'t str,
    remaining_bytes: usize,
    remaining_formulas: usize,
    html: String,
    is_too_long: bool,
    is_in_link: bool,
    footnotes: Footnotes,
}

/// The footnotes of a text, which are shown at its end.
#[derive(Debug, Default)]
struct Footnotes {
    /// By label: in the order in which they are mentioned first.
    numbers: HashMap<String, usize>,
    notes: Vec<(usize, String)>,
}

impl Footnotes {
    fn number(&mut self, label: &str) -> usize {
        let next = self.numbers.len() + 1;
        *self.numbers.entry(label.to_owned()).or_insert(next)
    }

    fn into_list(self) -> Option<String> {
        let mut notes = self.notes;
        // A label that is defined twice keeps its first note.
        notes.sort_by_key(|(number, _)| *number);
        notes.dedup_by_key(|(number, _)| *number);
        let items: String = notes.into_iter().map(|(_, note)| format!("<li>{note}</li>")).collect();
        (!items.is_empty()).then(|| format!("<ol class=\"footnotes\">{items}</ol>"))
    }
}

impl MarkdownHtmlWriter<'_> {
    /// Returns whether the HTML is too long; nothing more is written then.
    fn check_length(&mut self) -> bool {
        self.is_too_long |= self.html.len() > self.remaining_bytes;
        self.is_too_long
    }

    fn push_blocks(&mut self, blocks: &[Block<'_>]) {
        for block in blocks {
            if self.check_length() {
                return;
            }
            self.push_block(block);
        }
    }

    fn push_block(&mut self, block: &Block<'_>) {
        match &block.kind {
            BlockKind::Paragraph(content) => self.push_element("p", content),
            // The page has headings of its own above these.
            BlockKind::Heading { level: 1, content } => self.push_element("h3", content),
            BlockKind::Heading { level: 2, content } => self.push_element("h4", content),
            BlockKind::Heading { level: 3, content } => self.push_element("h5", content),
            BlockKind::Heading { content, .. } => self.push_element("h6", content),
            BlockKind::Quote { blocks, .. } => {
                self.html.push_str("<blockquote>");
                self.push_blocks(blocks);
                self.html.push_str("</blockquote>");
            }
            BlockKind::List(items) => self.push_list(items),
            BlockKind::Code(code) => self.push_code_block(code),
            BlockKind::Table(table) => self.push_table(table),
            BlockKind::Formula(formula) => {
                self.html.push_str("<p>");
                self.push_formula(formula);
                self.html.push_str("</p>");
            }
            BlockKind::Rule => self.html.push_str("<hr>"),
            BlockKind::Footnote { label, blocks } => self.push_footnote(label, blocks),
            BlockKind::Html(content) => self.push_html_lines(content),
        }
    }

    fn push_element(&mut self, element: &str, content: &[Inline<'_>]) {
        self.html.push_str(&format!("<{element}>"));
        self.push_inlines(content);
        self.html.push_str(&format!("</{element}>"));
    }

    /// Writes lines of HTML as text. The style keeps their line breaks.
    fn push_html_lines(&mut self, content: &[Inline<'_>]) {
        self.html.push_str("<p class=\"plain\">");
        for inline in content {
            match &inline.kind {
                InlineKind::Break { .. } => self.html.push('\n'),
                _ => self.push_inline(inline),
            }
        }
        self.html.push_str("</p>");
    }

    fn push_list(&mut self, items: &[ListItem<'_>]) {
        let has_blank = |item: &ListItem<'_>| item.blank_before || item.blocks.iter().any(|block| block.blank_before);
        let is_loose = items.iter().any(has_blank);
        let closing = match items.first().and_then(|item| item.number) {
            None => {
                self.html.push_str("<ul>");
                "</ul>"
            }
            Some(first) => {
                self.html.push_str(&if first == 1 { "<ol>".to_owned() } else { format!("<ol start=\"{first}\">") });
                "</ol>"
            }
        };
        for item in items {
            if self.check_length() {
                return;
            }
            self.push_item(item, is_loose);
        }
        self.html.push_str(closing);
    }

    /// Writes an item. Without blank lines in the list, its first paragraph needs no element.
    fn push_item(&mut self, item: &ListItem<'_>, is_loose: bool) {
        self.html.push_str("<li>");
        match item.task {
            None => {}
            Some(true) => self.html.push_str("<span class=\"task\" role=\"img\" aria-label=\"done\">☑</span> "),
            Some(false) => self.html.push_str("<span class=\"task\" role=\"img\" aria-label=\"to do\">☐</span> "),
        }
        match item.blocks.split_first() {
            Some((Block { kind: BlockKind::Paragraph(content), .. }, rest)) if !is_loose || item.task.is_some() => {
                self.push_inlines(content);
                self.push_blocks(rest);
            }
            _ => self.push_blocks(&item.blocks),
        }
        self.html.push_str("</li>");
    }

    fn push_code_block(&mut self, code: &CodeBlock<'_>) {
        let is_language_char = |c: &char| c.is_ascii_alphanumeric() || "+#-_.".contains(*c);
        let language: String = code.info.chars().take_while(is_language_char).take(MAX_LANGUAGE_CHARS).collect();
        if language.is_empty() {
            self.html.push_str("<pre><code>");
        } else {
            self.html.push_str(&format!("<pre><code class=\"language-{language}\">"));
        }
        escape(&code.text, &mut self.html);
        // What is copied ends as the code does.
        if code.lines.last().is_some_and(|line| self.source[line.end..].starts_with(['\n', '\r'])) {
            self.html.push('\n');
        }
        self.html.push_str("</code></pre>");
    }

    /// Writes a table. Each row gets as many cells as the longest one has.
    fn push_table(&mut self, table: &TableBlock<'_>) {
        let columns = table.rows.iter().chain([&table.head]).map(|row| row.cells.len()).max().unwrap_or(0);
        let columns = columns.max(table.alignments.len());
        self.html.push_str("<div class=\"table\"><table><thead><tr>");
        self.push_cells("th", &table.head, columns, &table.alignments);
        self.html.push_str("</tr></thead>");
        for row in &table.rows {
            if self.check_length() {
                return;
            }
            self.html.push_str("<tr>");
            self.push_cells("td", row, columns, &table.alignments);
            self.html.push_str("</tr>");
        }
        self.html.push_str("</table></div>");
    }

    fn push_cells(&mut self, element: &str, row: &TableRow<'_>, columns: usize, alignments: &[ColumnAlignment]) {
        for column in 0..columns {
            let class = match alignments.get(column) {
                Some(ColumnAlignment::Center) => " class=\"center\"",
                Some(ColumnAlignment::Right) => " class=\"right\"",
                _ => "",
            };
            self.html.push_str(&format!("<{element}{class}>"));
            if let Some(cell) = row.cells.get(column) {
                self.push_inlines(&cell.content);
            }
            self.html.push_str(&format!("</{element}>"));
        }
    }

    /// Writes a footnote by itself, for the end of the text.
    fn push_footnote(&mut self, label: &str, blocks: &[Block<'_>]) {
        let number = self.footnotes.number(label);
        let html = std::mem::take(&mut self.html);
        self.push_blocks(blocks);
        if !self.check_length() {
            self.remaining_bytes -= self.html.len();
        }
        let note = std::mem::replace(&mut self.html, html);
        self.footnotes.notes.push((number, note));
    }

    fn push_inlines(&mut self, content: &[Inline<'_>]) {
        for inline in content {
            if self.check_length() {
                return;
            }
            self.push_inline(inline);
        }
    }

    fn push_inline(&mut self, inline: &Inline<'_>) {
        match &inline.kind {
            InlineKind::Text(text) => escape(text, &mut self.html),
            InlineKind::Code(code) => self.push_code(code),
            InlineKind::Emphasis(content) => self.push_element("em", content),
            InlineKind::Strong(content) => self.push_element("strong", content),
            InlineKind::Struck(content) => self.push_element("del", content),
            InlineKind::Spoiler(content) => {
                self.html.push_str("<span class=\"spoiler\">");
                self.push_inlines(content);
                self.html.push_str("</span>");
            }
            // An image is a link, because the page loads nothing from other sites.
            InlineKind::Link { address, content } | InlineKind::Image { address, content } => {
                self.push_link(address, |writer| writer.push_inlines(content));
            }
            InlineKind::Address { text, address } => {
                self.push_link(address, |writer| escape(text, &mut writer.html));
            }
            InlineKind::Formula(formula) => self.push_formula(formula),
            InlineKind::Break { is_hard: true } => self.html.push_str("<br>\n"),
            InlineKind::Break { is_hard: false } => self.html.push('\n'),
            InlineKind::FootnoteReference(label) => {
                let number = self.footnotes.number(label);
                self.html.push_str(&format!("<sup class=\"footnote-ref\">{number}</sup>"));
            }
        }
    }

    fn push_code(&mut self, code: &str) {
        self.html.push_str("<code>");
        escape(code, &mut self.html);
        self.html.push_str("</code>");
    }

    /// Writes a formula, or its source if it isn't understood.
    fn push_formula(&mut self, formula: &TexFormula<'_>) {
        let is_tried = self.remaining_formulas > 0 && formula.tex.len() <= MAX_FORMULA_BYTES;
        self.remaining_formulas = self.remaining_formulas.saturating_sub(1);
        match is_tried.then(|| mathml::to_mathml(formula)).flatten() {
            Some(mathml) => self.html.push_str(&mathml),
            None => self.push_code(&formula.source),
        }
    }

    /// Writes a link, or its text if it may not lead there. Nested links are invalid HTML.
    fn push_link(&mut self, address: &str, push_content: impl FnOnce(&mut Self)) {
        let is_link = !self.is_in_link && links::is_allowed_address(address);
        if is_link {
            links::open_anchor(address, &mut self.html);
        }
        let was_in_link = std::mem::replace(&mut self.is_in_link, true);
        push_content(self);
        self.is_in_link = was_in_link;
        if is_link {
            self.html.push_str("</a>");
        }
    }
}
