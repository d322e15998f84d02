//! Renders a text as Telegram's Rich HTML: headings, tables, lists, quotations, code and formulas as blocks.
//!
//! <https://core.telegram.org/bots/api#rich-message-formatting-options>: only these tags are known, blocks can't stand
//! within a paragraph or a cell of a table, and a heading or code without characters is refused.

use satchel_markup::{
    Block, BlockKind, ColumnAlignment, Document, Inline, InlineKind, ListItem, TableBlock, TableRow, TexFormula,
    address_suffix, plain_text,
};

use super::html::{escape, escaped, is_web_link};

/// What is before the text of an image.
const IMAGE_SIGN: &str = "🖼 ";

/// What is shown of an image without a text.
const IMAGE_TEXT: &str = "image";

/// Renders a text; an empty string where nothing of it would be seen.
pub(crate) fn render_rich(text: &str) -> String {
    let document = Document::parse(text);
    let mut writer = RichWriter { notes: footnotes(&document.blocks), ..RichWriter::default() };
    writer.write_blocks(&document.blocks);
    writer.html
}

#[derive(Debug, Default)]
struct RichWriter {
    html: String,
    /// The labels of the text's footnotes, to which references link.
    notes: Vec<String>,
    /// How many links are open. They can't contain each other.
    links: usize,
}

impl RichWriter {
    fn push(&mut self, html: &str) {
        self.html.push_str(html);
    }

    fn push_text(&mut self, text: &str) {
        escape(text, &mut self.html);
    }

    /// Writes an element, unless nothing is seen of its content.
    fn write_element(&mut self, tag: &str, content: &[Inline<'_>]) {
        if is_blank(content) {
            return;
        }
        self.push(&format!("<{tag}>"));
        self.write_inlines(content);
        self.push(&format!("</{tag}>"));
    }

    fn write_blocks(&mut self, blocks: &[Block<'_>]) {
        blocks.iter().for_each(|block| self.write_block(&block.kind));
    }

    fn write_block(&mut self, block: &BlockKind<'_>) {
        match block {
            BlockKind::Paragraph(content) | BlockKind::Html(content) => self.write_element("p", content),
            BlockKind::Heading { level, content } => {
                self.write_element(&format!("h{}", (*level).clamp(1, 6)), content);
            }
            BlockKind::Quote { blocks, .. } => self.write_quote(blocks),
            BlockKind::List(items) => self.write_list(items),
            BlockKind::Code(code) if code.text.trim().is_empty() => {}
            BlockKind::Code(code) => self.write_code(&code.language(), &code.text),
            BlockKind::Table(table) => self.write_table(table),
            BlockKind::Formula(formula) => self.write_formula("tg-math-block", formula),
            BlockKind::Rule => self.push("<hr/>"),
            BlockKind::Footnote { label, blocks } => self.write_footnote(label, blocks),
        }
    }

    fn write_quote(&mut self, blocks: &[Block<'_>]) {
        self.push("<blockquote>");
        let start = self.html.len();
        self.write_blocks(blocks);
        if self.html.len() == start {
            return self.html.truncate(start - "<blockquote>".len());
        }
        self.push("</blockquote>");
    }

    fn write_code(&mut self, language: &str, code: &str) {
        self.push("<pre>");
        if language.is_empty() {
            self.push_text(code);
        } else {
            self.push(&format!("<code class=\"language-{}\">", escaped(language)));
            self.push_text(code);
            self.push("</code>");
        }
        self.push("</pre>");
    }

    fn write_list(&mut self, items: &[ListItem<'_>]) {
        let Some(first) = items.first() else { return };
        let mut next = first.number;
        match first.number {
            None => self.push("<ul>"),
            Some(1) => self.push("<ol>"),
            Some(number) => self.push(&format!("<ol start=\"{number}\">")),
        }
        for item in items {
            match item.number {
                number if number == next => self.push("<li>"),
                Some(number) => self.push(&format!("<li value=\"{number}\">")),
                None => self.push("<li>"),
            }
            next = item.number.map(|number| number.saturating_add(1));
            match item.task {
                Some(true) => self.push("<input type=\"checkbox\" checked>"),
                Some(false) => self.push("<input type=\"checkbox\">"),
                None => {}
            }
            self.write_item(&item.blocks);
            self.push("</li>");
        }
        self.push(if first.number.is_some() { "</ol>" } else { "</ul>" });
    }

    /// Writes the content of an item. Text at its beginning needs no tag.
    fn write_item(&mut self, blocks: &[Block<'_>]) {
        match blocks.split_first() {
            Some((Block { kind: BlockKind::Paragraph(content), .. }, rest)) => {
                self.write_inlines(content);
                self.write_blocks(rest);
            }
            _ => self.write_blocks(blocks),
        }
    }

    fn write_table(&mut self, table: &TableBlock<'_>) {
        let rows = || std::iter::once(&table.head).chain(&table.rows);
        let columns = rows().map(|row| row.cells.len()).max().unwrap_or(0);
        if columns == 0 {
            return;
        }
        self.push("<table bordered>");
        for (index, row) in rows().enumerate() {
            self.write_row(row, if index == 0 { "th" } else { "td" }, columns, &table.alignments);
        }
        self.push("</table>");
    }

    /// Writes a row with as many cells as the widest has.
    fn write_row(&mut self, row: &TableRow<'_>, tag: &str, columns: usize, alignments: &[ColumnAlignment]) {
        self.push("<tr>");
        for column in 0..columns {
            let align = match alignments.get(column) {
                Some(ColumnAlignment::Left) => " align=\"left\"",
                Some(ColumnAlignment::Center) => " align=\"center\"",
                Some(ColumnAlignment::Right) => " align=\"right\"",
                Some(ColumnAlignment::Default) | None => "",
            };
            self.push(&format!("<{tag}{align}>"));
            let start = self.html.len();
            if let Some(cell) = row.cells.get(column) {
                self.write_inlines(&cell.content);
            }
            if self.html.len() == start {
                // A cell without a text is invisible (`RichBlockTableCell`).
                self.push("&nbsp;");
            }
            self.push(&format!("</{tag}>"));
        }
        self.push("</tr>");
    }

    fn write_formula(&mut self, tag: &str, formula: &TexFormula<'_>) {
        if formula.tex.trim().is_empty() {
            // Without a formula in it, its delimiters are all that was written.
            let is_block = tag == "tg-math-block";
            self.push(if is_block { "<p>" } else { "" });
            self.push_text(&formula.source);
            return self.push(if is_block { "</p>" } else { "" });
        }
        self.push(&format!("<{tag}>"));
        self.push_text(&formula.tex);
        self.push(&format!("</{tag}>"));
    }

    fn write_footnote(&mut self, label: &str, blocks: &[Block<'_>]) {
        let name = self.note_name(label);
        self.push("<p>");
        if let Some(name) = name {
            self.push(&format!("<a name=\"{name}\"></a>"));
        }
        self.push_text(&format!("[{label}] "));
        match blocks.split_first() {
            Some((Block { kind: BlockKind::Paragraph(content), .. }, rest)) => {
                self.write_inlines(content);
                self.push("</p>");
                self.write_blocks(rest);
            }
            _ => {
                self.push("</p>");
                self.write_blocks(blocks);
            }
        }
    }

    /// The name of a footnote's anchor, if the text has the footnote.
    fn note_name(&self, label: &str) -> Option<String> {
        self.notes.iter().position(|note| note == label).map(|index| format!("note-{}", index + 1))
    }

    fn write_inlines(&mut self, content: &[Inline<'_>]) {
        content.iter().for_each(|inline| self.write_inline(&inline.kind));
    }

    fn write_inline(&mut self, inline: &InlineKind<'_>) {
        match inline {
            InlineKind::Text(text) => self.push_text(text),
            InlineKind::Code(code) => {
                self.push("<code>");
                self.push_text(code);
                self.push("</code>");
            }
            InlineKind::Emphasis(content) => self.write_element("i", content),
            InlineKind::Strong(content) => self.write_element("b", content),
            InlineKind::Struck(content) => self.write_element("s", content),
            InlineKind::Spoiler(content) => self.write_element("tg-spoiler", content),
            InlineKind::Link { address, content } => self.write_link(address, content, false),
            InlineKind::Image { address, content } => self.write_link(address, content, true),
            InlineKind::Address { text, address } => match self.open_link(address) {
                true => {
                    self.push_text(text);
                    self.close_link();
                }
                false => self.push_text(text),
            },
            InlineKind::Formula(formula) => self.write_formula("tg-math", formula),
            InlineKind::Break { .. } => self.push("<br/>"),
            InlineKind::FootnoteReference(label) => match self.note_name(label).filter(|_| self.links == 0) {
                Some(name) => {
                    self.push(&format!("<a href=\"#{name}\">"));
                    self.push_text(&format!("[{label}]"));
                    self.push("</a>");
                }
                None => self.push_text(&format!("[{label}]")),
            },
        }
    }

    fn write_link(&mut self, address: &str, content: &[Inline<'_>], is_image: bool) {
        // A link without a text can't be pressed.
        let is_link = (is_image || !is_blank(content)) && self.open_link(address);
        if is_image {
            self.push_text(IMAGE_SIGN);
        }
        if is_image && content.is_empty() {
            self.push_text(IMAGE_TEXT);
        }
        self.write_inlines(content);
        if is_link {
            self.close_link();
        } else if let Some(suffix) = address_suffix(address, &plain_text(content)) {
            self.push_text(&suffix);
        }
    }

    /// Opens a link to an address that Telegram takes. Others would have the whole message refused.
    fn open_link(&mut self, address: &str) -> bool {
        let can_link =
            self.links == 0 && (is_web_link(address) || address.strip_prefix("mailto:").is_some_and(is_email));
        if can_link {
            self.push(&format!("<a href=\"{}\">", escaped(address)));
            self.links += 1;
        }
        can_link
    }

    fn close_link(&mut self) {
        self.push("</a>");
        self.links -= 1;
    }
}

/// Whether nothing is seen of a text.
fn is_blank(content: &[Inline<'_>]) -> bool {
    content.iter().all(|inline| match &inline.kind {
        InlineKind::Text(text) | InlineKind::Code(text) => text.trim().is_empty(),
        InlineKind::Emphasis(content)
        | InlineKind::Strong(content)
        | InlineKind::Struck(content)
        | InlineKind::Spoiler(content) => is_blank(content),
        // Its address is shown where it has no text.
        InlineKind::Link { address, content } => {
            is_blank(content) && address_suffix(address, &plain_text(content)).is_none()
        }
        InlineKind::Break { .. } => true,
        InlineKind::Image { .. }
        | InlineKind::Address { .. }
        | InlineKind::Formula(_)
        | InlineKind::FootnoteReference(_) => false,
    })
}

/// Whether this is an e-mail address for every server: letters, digits and a few signs, and a domain of several names.
fn is_email(address: &str) -> bool {
    let is_plain = |part: &str, signs: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || signs.contains(c))
    };
    let Some((name, domain)) = address.split_once('@') else { return false };
    is_plain(name, "._%+-") && domain.contains('.') && domain.split('.').all(|label| is_plain(label, "-"))
}

/// The labels of the footnotes of a text, in their order.
fn footnotes(blocks: &[Block<'_>]) -> Vec<String> {
    let of_block = |block: &Block<'_>| match &block.kind {
        BlockKind::Footnote { label, .. } => vec![label.to_string()],
        BlockKind::Quote { blocks, .. } => footnotes(blocks),
        BlockKind::List(items) => items.iter().flat_map(|item| footnotes(&item.blocks)).collect(),
        _ => Vec::new(),
    };
    blocks.iter().flat_map(of_block).collect()
}

#[cfg(test)]
mod tests;
