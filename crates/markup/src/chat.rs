//! The lines of a chat message for channels that know spans, quotations and code, and neither lists nor tables.
//!
//! [`Measure`](crate::Measure) counts what this writes, so that a text that was cut to fit does fit.

use crate::{
    plain::{IMAGE_TEXT, address_suffix, plain_text},
    table::{RecordLineRole, TableLayout},
    tree::{Block, BlockKind, Document, Inline, InlineKind, ListItem, TableBlock},
};

/// A line that separates.
pub const RULE: &str = "────────";

/// Bullets by nesting depth.
const BULLETS: [&str; 3] = ["• ", "◦ ", "▪ "];

/// What is before the text of an image.
pub(crate) const IMAGE_SIGN: &str = "🖼 ";

/// The language of code that is a formula.
pub(crate) const FORMULA_LANGUAGE: &str = "latex";

/// A span of formatted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatSpan<'a> {
    /// Strong text, headings, and the first line of a record.
    Bold,
    /// Emphasis, and the headings of a table of one or two columns.
    Italic,
    /// Struck out.
    Struck,
    /// Hidden until it is pressed.
    Spoiler,
    /// A link to an address for which [`ChatWriter::can_link`] is true.
    Link(&'a str),
    /// An outermost quotation. Inner ones have `> ` before each line.
    Quote,
}

/// What writes the lines of a message in a channel's markup.
pub trait ChatWriter {
    /// Whether the channel links to an address. It must to those of the web (`http://`, `https://`); where it doesn't,
    /// the address follows the link's text in parentheses.
    fn can_link(&self, address: &str) -> bool;
    /// Opens a span around what follows.
    fn open(&mut self, span: ChatSpan<'_>);
    /// Closes the innermost span.
    fn close(&mut self);
    /// Writes characters that stand for themselves. There is no line break among them.
    fn push_text(&mut self, text: &str);
    /// Writes an address that is its own text.
    fn push_address(&mut self, text: &str, address: &str);
    /// Writes code within a line.
    fn push_code(&mut self, code: &str);
    /// Writes code on lines of its own, which have no prefix.
    fn push_code_block(&mut self, language: &str, code: &str);
    /// Writes line breaks and what is before the next line: the indentation, and `> ` for inner quotations. Spans that
    /// are open and empty so far begin behind it.
    fn push_breaks(&mut self, breaks: usize, prefix: &str);
}

/// Writes a document as the lines of a chat message.
pub fn write_message(document: &Document<'_>, writer: &mut impl ChatWriter) {
    let mut message = Message { writer, prefix: String::new(), lists: 0, is_nested: false };
    message.write_blocks(&document.blocks);
}

struct Message<'writer, W> {
    writer: &'writer mut W,
    /// What is before each line.
    prefix: String,
    /// How many lists are open.
    lists: usize,
    /// Whether a quotation or a list is open.
    is_nested: bool,
}

impl<W: ChatWriter> Message<'_, W> {
    fn write_blocks(&mut self, blocks: &[Block<'_>]) {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                let breaks = if block.blank_before { 2 } else { 1 };
                let prefix = if is_full_width(&block.kind) { "" } else { &self.prefix };
                self.writer.push_breaks(breaks, prefix);
            }
            self.write_block(&block.kind);
        }
    }

    fn write_block(&mut self, block: &BlockKind<'_>) {
        match block {
            BlockKind::Paragraph(content) | BlockKind::Html(content) => self.write_inlines(content),
            BlockKind::Heading { content, .. } => self.write_span(ChatSpan::Bold, content),
            BlockKind::Quote { blocks, .. } => self.write_quote(blocks),
            BlockKind::List(items) => self.write_list(items),
            BlockKind::Code(code) => self.writer.push_code_block(&code.language(), &code.text),
            BlockKind::Table(table) => self.write_table(table),
            BlockKind::Formula(formula) => match &formula.unicode {
                Some(unicode) => self.writer.push_text(unicode),
                None => self.writer.push_code_block(FORMULA_LANGUAGE, &formula.source),
            },
            BlockKind::Rule => self.writer.push_text(RULE),
            BlockKind::Footnote { label, blocks } => {
                self.writer.push_text(&format!("[{label}] "));
                self.write_blocks(blocks);
            }
        }
    }

    fn write_quote(&mut self, blocks: &[Block<'_>]) {
        if !self.is_nested {
            self.is_nested = true;
            self.writer.open(ChatSpan::Quote);
            self.write_blocks(blocks);
            self.writer.close();
            self.is_nested = false;
            return;
        }
        self.writer.push_text(if blocks.is_empty() { ">" } else { "> " });
        self.with_prefix("> ", |message| message.write_blocks(blocks));
    }

    fn write_list(&mut self, items: &[ListItem<'_>]) {
        let was_nested = std::mem::replace(&mut self.is_nested, true);
        let bullet = BULLETS[self.lists.min(BULLETS.len() - 1)];
        self.lists += 1;
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.writer.push_breaks(if item.blank_before { 2 } else { 1 }, &self.prefix);
            }
            let number = item.number.map(|number| format!("{number}. "));
            // The box of a task takes the place of the bullet.
            let mark = number.as_deref().unwrap_or(if item.task.is_some() { "" } else { bullet });
            let task = item.task.map_or("", |is_done| if is_done { "☑ " } else { "☐ " });
            let mark = format!("{mark}{task}");
            self.writer.push_text(if item.blocks.is_empty() { mark.trim_end() } else { &mark });
            self.with_prefix(&" ".repeat(item.indent()), |message| message.write_blocks(&item.blocks));
        }
        self.lists -= 1;
        self.is_nested = was_nested;
    }

    fn with_prefix(&mut self, prefix: &str, write: impl FnOnce(&mut Self)) {
        let length = self.prefix.len();
        self.prefix.push_str(prefix);
        write(self);
        self.prefix.truncate(length);
    }

    fn write_table(&mut self, table: &TableBlock<'_>) {
        let lines = match table.layout() {
            TableLayout::Columns(lines) => return self.writer.push_code_block("", &lines.join("\n")),
            TableLayout::Records(lines) => lines,
        };
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                let breaks = if line.role == RecordLineRole::First { 2 } else { 1 };
                self.writer.push_breaks(breaks, &self.prefix);
            }
            match line.role {
                RecordLineRole::Headings => self.writer.open(ChatSpan::Italic),
                RecordLineRole::First => self.writer.open(ChatSpan::Bold),
                RecordLineRole::Further => {}
            }
            for (index, cell) in line.cells.iter().enumerate() {
                if index > 0 {
                    self.writer.push_text(": ");
                }
                self.write_inlines(&cell.content);
            }
            if line.role != RecordLineRole::Further {
                self.writer.close();
            }
        }
    }

    fn write_inlines(&mut self, content: &[Inline<'_>]) {
        for inline in content {
            match &inline.kind {
                InlineKind::Text(text) => self.writer.push_text(text),
                InlineKind::Code(code) => self.writer.push_code(code),
                InlineKind::Emphasis(content) => self.write_span(ChatSpan::Italic, content),
                InlineKind::Strong(content) => self.write_span(ChatSpan::Bold, content),
                InlineKind::Struck(content) => self.write_span(ChatSpan::Struck, content),
                InlineKind::Spoiler(content) => self.write_span(ChatSpan::Spoiler, content),
                InlineKind::Link { address, content } => self.write_link(address, content, false),
                InlineKind::Image { address, content } => self.write_link(address, content, true),
                InlineKind::Address { text, address } => self.writer.push_address(text, address),
                InlineKind::Formula(formula) => match &formula.unicode {
                    Some(unicode) => self.writer.push_text(unicode),
                    None => self.writer.push_code(&formula.plain_text()),
                },
                InlineKind::Break { .. } => self.writer.push_breaks(1, &self.prefix),
                InlineKind::FootnoteReference(label) => self.writer.push_text(&format!("[{label}]")),
            }
        }
    }

    fn write_span(&mut self, span: ChatSpan<'_>, content: &[Inline<'_>]) {
        self.writer.open(span);
        self.write_inlines(content);
        self.writer.close();
    }

    fn write_link(&mut self, address: &str, content: &[Inline<'_>], is_image: bool) {
        let can_link = self.writer.can_link(address);
        if can_link {
            self.writer.open(ChatSpan::Link(address));
        }
        if is_image {
            self.writer.push_text(IMAGE_SIGN);
        }
        if is_image && content.is_empty() {
            self.writer.push_text(IMAGE_TEXT);
        }
        self.write_inlines(content);
        if can_link {
            return self.writer.close();
        }
        if let Some(suffix) = address_suffix(address, &plain_text(content)) {
            self.writer.push_text(&suffix);
        }
    }
}

/// Whether a block has no prefix before its lines.
fn is_full_width(block: &BlockKind<'_>) -> bool {
    match block {
        BlockKind::Code(_) => true,
        BlockKind::Table(table) => matches!(table.layout(), TableLayout::Columns(_)),
        BlockKind::Formula(formula) => formula.unicode.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
