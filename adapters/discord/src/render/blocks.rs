//! Turns the blocks of a text into fragments: literal text, markup, and the beginnings of lines.

use std::iter;

use satchel_markup::{
    Block, BlockKind, Document, Inline, ListItem, RULE, RecordLineRole, TableBlock, TableLayout, TableRow, plain_text,
};

use super::{
    code,
    fragment::{Fragment, LineBeginning},
    grammar::DiscordSpan,
};

/// The language of code that is a formula.
const FORMULA_LANGUAGE: &str = "latex";

/// What is between the cells of a row where a table has a line for each.
const CELL_SEPARATOR: &str = " · ";

/// How much of its form a text has, where there is no room for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RenderDetail {
    /// All of it.
    Full,
    /// Tables have a line for each row.
    Compact,
    /// Nothing is bold, struck or a link.
    Unmarked,
    /// Nothing is escaped either.
    Unescaped,
}

/// What is before each line of a block.
#[derive(Debug, Clone, Copy)]
enum BlockPrefix {
    Quote,
    Indent(usize),
}

/// Writes blocks as fragments.
pub(super) struct FragmentWriter<'text> {
    pub(super) source: &'text str,
    pub(super) detail: RenderDetail,
    pub(super) fragments: Vec<Fragment>,
    prefixes: Vec<BlockPrefix>,
    /// The spans that are open; one within another of its kind is not written.
    pub(super) open: Vec<DiscordSpan>,
}

/// Writes a document as fragments.
pub(super) fn fragments(document: &Document<'_>, detail: RenderDetail) -> Vec<Fragment> {
    let mut writer = FragmentWriter::new(document.source, detail);
    writer.write_blocks(&document.blocks);
    writer.fragments
}

impl<'text> FragmentWriter<'text> {
    pub(super) fn new(source: &'text str, detail: RenderDetail) -> Self {
        Self { source, detail, fragments: Vec::new(), prefixes: Vec::new(), open: Vec::new() }
    }

    fn write_blocks(&mut self, blocks: &[Block<'text>]) {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                // A list would go on with the items of the next one.
                let is_list = |block: &Block<'_>| matches!(block.kind, BlockKind::List(_));
                let is_blank_before = block.blank_before || (is_list(&blocks[index - 1]) && is_list(block));
                let breaks = if is_blank_before { 2 } else { 1 };
                self.push_breaks(breaks, self.is_full_width(block));
            }
            self.write_block(&block.kind);
        }
    }

    fn write_block(&mut self, block: &BlockKind<'text>) {
        match block {
            BlockKind::Paragraph(content) | BlockKind::Html(content) => self.write_inlines(content),
            BlockKind::Heading { level, content } => self.write_heading(*level, content),
            BlockKind::Quote { to_end, blocks } => self.write_quote(*to_end, blocks),
            BlockKind::List(items) => self.write_list(items),
            BlockKind::Code(code) => self.push_code_block(&code.text, &code.language()),
            BlockKind::Table(table) => self.write_table(table),
            BlockKind::Formula(formula) => match &formula.unicode {
                Some(unicode) => self.push_literal(unicode),
                None => self.push_code_block(&formula.source, FORMULA_LANGUAGE),
            },
            BlockKind::Rule => self.push_literal(RULE),
            BlockKind::Footnote { label, blocks } => {
                self.push_literal(&format!("[{label}] "));
                self.write_blocks(blocks);
            }
        }
    }

    /// Discord has three levels, none of them in lists, and takes `#` away from the end of a heading.
    fn write_heading(&mut self, level: u8, content: &[Inline<'text>]) {
        let is_in_list = self.prefixes.iter().any(|prefix| matches!(prefix, BlockPrefix::Indent(_)));
        let text = plain_text(content);
        if text.trim().is_empty() {
            return;
        }
        if is_in_list || text.trim_end().ends_with('#') {
            return self.write_span(DiscordSpan::Bold, content);
        }
        self.push_line(&format!("{} ", "#".repeat(usize::from(level.clamp(1, 3)))), LineBeginning::Heading);
        self.write_on_one_line(content);
    }

    fn write_quote(&mut self, to_end: bool, blocks: &[Block<'text>]) {
        if blocks.is_empty() {
            // The mark alone would be seen.
            return;
        }
        if to_end && self.prefixes.is_empty() {
            self.push_line(">>> ", LineBeginning::Text);
            return self.write_blocks(blocks);
        }
        self.push_line("> ", LineBeginning::Text);
        self.prefixes.push(BlockPrefix::Quote);
        self.write_blocks(blocks);
        self.prefixes.pop();
    }

    fn write_list(&mut self, items: &[ListItem<'text>]) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.push_breaks(if item.blank_before { 2 } else { 1 }, false);
            }
            let mark = item.number.map_or("- ".to_owned(), |number| format!("{number}. "));
            let is_code_first = item.blocks.first().is_some_and(|block| self.is_full_width(block));
            let has_text = item.task.is_some() || !(is_code_first || item.blocks.is_empty());
            // An item without text would begin with the next line, whatever that is.
            self.push_line(if has_text { mark.as_str() } else { mark.trim_end() }, LineBeginning::Text);
            match item.task {
                Some(true) => self.push_literal("☑ "),
                Some(false) => self.push_literal("☐ "),
                None => {}
            }
            self.prefixes.push(BlockPrefix::Indent(item.indent()));
            if is_code_first {
                self.push_breaks(1, true);
            }
            self.write_blocks(&item.blocks);
            self.prefixes.pop();
        }
    }

    fn write_table(&mut self, table: &TableBlock<'text>) {
        if self.detail >= RenderDetail::Compact {
            for (index, row) in iter::once(&table.head).chain(&table.rows).enumerate() {
                if index > 0 {
                    self.push_breaks(1, false);
                }
                self.write_row(row);
            }
            return;
        }
        let lines = match table.layout() {
            TableLayout::Columns(lines) => return self.push_code_block(&lines.join("\n"), ""),
            TableLayout::Records(lines) => lines,
        };
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                self.push_breaks(if line.role == RecordLineRole::First { 2 } else { 1 }, false);
            }
            let span = match line.role {
                RecordLineRole::Headings => Some(DiscordSpan::Italic),
                RecordLineRole::First => Some(DiscordSpan::Bold),
                RecordLineRole::Further => None,
            };
            let is_open = span.is_some_and(|span| self.open_span(span));
            for (index, cell) in line.cells.iter().enumerate() {
                if index > 0 {
                    self.push_literal(": ");
                }
                self.write_inlines(&cell.content);
            }
            if is_open {
                self.close_span();
            }
        }
    }

    fn write_row(&mut self, row: &TableRow<'text>) {
        for (index, cell) in row.cells.iter().enumerate() {
            if index > 0 {
                self.push_literal(CELL_SEPARATOR);
            }
            self.write_on_one_line(&cell.content);
        }
    }

    fn push_code_block(&mut self, text: &str, language: &str) {
        let is_fence_broken = self.detail >= RenderDetail::Compact;
        let code = match self.is_in_quote_of_item() {
            true => code::code_lines(text, &self.line_prefix(false)),
            false => code::code_block(text, language, &self.line_prefix(true), is_fence_broken),
        };
        self.fragments.push(Fragment::Raw(code));
    }

    fn push_line(&mut self, mark: &str, kind: LineBeginning) {
        self.fragments.push(Fragment::LineStart { text: mark.to_owned(), kind });
    }

    /// Writes line breaks, and what is before the next line.
    pub(super) fn push_breaks(&mut self, breaks: usize, is_full_width: bool) {
        let prefix = self.line_prefix(is_full_width);
        // An empty line of a quotation has its mark, or would end it.
        let blank = prefix.rfind('>').map_or("", |mark| &prefix[..mark + 2]);
        let blank_line = format!("\n{blank}");
        self.push_line(&format!("{}\n{prefix}", blank_line.repeat(breaks.saturating_sub(1))), LineBeginning::Text);
    }

    /// What is before each line. Code and columns begin at the edge, which ends the list that they are in.
    fn line_prefix(&self, is_full_width: bool) -> String {
        let text = |prefix: &BlockPrefix| match prefix {
            BlockPrefix::Quote => "> ".to_owned(),
            BlockPrefix::Indent(_) if is_full_width => String::new(),
            BlockPrefix::Indent(width) => " ".repeat(*width),
        };
        self.prefixes.iter().map(text).collect()
    }

    /// Whether lines are quoted within an item: without indentation they would be neither's, so no fence can be there.
    fn is_in_quote_of_item(&self) -> bool {
        let mut prefixes = self.prefixes.iter().skip_while(|prefix| !matches!(prefix, BlockPrefix::Indent(_)));
        prefixes.any(|prefix| matches!(prefix, BlockPrefix::Quote))
    }

    /// Whether a block is code, which has no indentation.
    fn is_full_width(&self, block: &Block<'_>) -> bool {
        match &block.kind {
            _ if self.is_in_quote_of_item() => false,
            BlockKind::Code(_) => true,
            BlockKind::Table(table) => {
                self.detail < RenderDetail::Compact && matches!(table.layout(), TableLayout::Columns(_))
            }
            BlockKind::Formula(formula) => formula.unicode.is_none(),
            _ => false,
        }
    }
}
