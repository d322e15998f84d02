//! Renders a text of a model to lines for a terminal.
//!
//! With colours the marks become styles; without, they stay as in Markdown, so that piped output loses nothing.
//! Line breaks inside a paragraph are kept, lists are always tight, and the rows of a table stay as they were written, so
//! that streamed text never changes earlier lines and they can be printed early.

mod word_wrap;

use anstyle::{AnsiColor, Style};
use satchel_markup::{
    Block, BlockKind, CodeBlock, Document, Inline, InlineKind, ListItem, TableBlock, TableRow, TexFormula,
};

use crate::{sanitizer::clean, screen::ScreenStyle};
pub(crate) use word_wrap::truncate_line;
use word_wrap::{StyledRun, wrap_runs};

/// Renders a text to lines without line breaks.
pub(crate) fn render(text: &str, screen_style: ScreenStyle) -> Vec<String> {
    let mut renderer = TerminalRenderer { source: text, screen_style, ..TerminalRenderer::default() };
    renderer.push_blocks(&Document::parse(text).blocks);
    renderer.lines
}

/// Returns how much of a text means the same whatever follows: bullets and code behind a numbered list belong to its last
/// item if the list goes on behind them.
pub(crate) fn settled_len(text: &str) -> usize {
    let blocks = Document::parse(text).blocks;
    let is_numbered = |block: &Block<'_>| {
        let BlockKind::List(items) = &block.kind else { return false };
        items.first().is_some_and(|item| item.number.is_some())
    };
    let may_be_part =
        |block: &&Block<'_>| matches!(block.kind, BlockKind::List(_) | BlockKind::Code(_)) && !is_numbered(block);
    let settled = blocks.len() - blocks.iter().rev().take_while(may_be_part).count();
    match (blocks[..settled].last(), blocks.get(settled)) {
        (Some(before), Some(open)) if is_numbered(before) => open.range.start,
        _ => text.len(),
    }
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
struct TerminalRenderer<'t> {
    source: &'t str,
    screen_style: ScreenStyle,
    lines: Vec<String>,
    spans: Vec<StyledRun>,
    styles: Vec<Style>,
    containers: Vec<BlockContainer>,
    /// How many lists are open.
    list_depth: usize,
    /// Whether the next block follows the last one without an empty line.
    is_joined: bool,
}

impl TerminalRenderer<'_> {
    fn push_blocks(&mut self, blocks: &[Block<'_>]) {
        let mut is_after_text = false;
        for block in blocks {
            // Before its line of dashes was written, the headings of a table were the text of a paragraph.
            let is_text = matches!(block.kind, BlockKind::Paragraph(_) | BlockKind::Table(_));
            self.is_joined = is_text && is_after_text && !block.blank_before;
            self.push_block(block);
            is_after_text = is_text;
        }
    }

    fn push_block(&mut self, block: &Block<'_>) {
        self.flush_block();
        match &block.kind {
            BlockKind::Paragraph(content) | BlockKind::Html(content) => self.push_inlines(content),
            BlockKind::Heading { level, content } => self.push_heading(*level, content),
            BlockKind::Quote { blocks, .. } => self.push_quote(blocks),
            BlockKind::List(items) => self.push_list(items),
            BlockKind::Code(code) => self.push_code_block(code),
            BlockKind::Table(table) => self.push_table(table),
            BlockKind::Formula(formula) => self.push_formula(formula),
            BlockKind::Rule => {
                self.push_gap();
                let rule = paint("────────", Style::new().dimmed(), self.screen_style);
                self.push_lines(vec![rule]);
            }
            BlockKind::Footnote { label, blocks } => self.push_item(format!("[^{}]: ", clean(label)), None, blocks),
        }
        self.flush_block();
    }

    fn push_heading(&mut self, level: u8, content: &[Inline<'_>]) {
        if !self.screen_style.colour {
            self.push_text(&format!("{} ", "#".repeat(usize::from(level))));
        }
        let style = Style::new().bold();
        self.styles.push(if level == 1 { style.underline() } else { style });
        self.push_inlines(content);
        self.flush_block();
        self.styles.pop();
    }

    fn push_quote(&mut self, blocks: &[Block<'_>]) {
        let is_quote = |container: &BlockContainer| matches!(container, BlockContainer::Quote);
        if !self.containers.iter().any(is_quote) {
            self.push_gap();
        }
        self.containers.push(BlockContainer::Quote);
        self.push_blocks(blocks);
        self.containers.pop();
    }

    fn push_list(&mut self, items: &[ListItem<'_>]) {
        self.push_gap();
        self.list_depth += 1;
        for item in items {
            let marker = match item.number {
                Some(number) => format!("{number}. "),
                None if self.screen_style.colour => "• ".to_owned(),
                None => "- ".to_owned(),
            };
            self.push_item(marker, item.task, &item.blocks);
        }
        self.list_depth -= 1;
    }

    fn push_item(&mut self, marker: String, task: Option<bool>, blocks: &[Block<'_>]) {
        self.push_gap();
        self.containers.push(BlockContainer::Item { marker, shown: false });
        match task {
            Some(true) => self.push_text("[x] "),
            Some(false) => self.push_text("[ ] "),
            None => {}
        }
        match blocks.split_first() {
            Some((Block { kind: BlockKind::Paragraph(content), .. }, rest)) => {
                self.push_inlines(content);
                self.flush_block();
                self.push_blocks(rest);
            }
            _ => self.push_blocks(blocks),
        }
        self.flush_block();
        if let Some(BlockContainer::Item { shown: false, .. }) = self.containers.last() {
            self.push_lines(vec![String::new()]);
        }
        self.containers.pop();
    }

    fn push_code_block(&mut self, block: &CodeBlock<'_>) {
        self.push_gap();
        let code = clean(&block.text);
        let longest_run = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat((longest_run + 1).max(3));
        let (dim, body) = (Style::new().dimmed(), Style::new().fg_color(Some(AnsiColor::Cyan.into())));
        let mut lines = vec![paint(&format!("{fence}{}", clean(&block.info)), dim, self.screen_style)];
        // A block without code has no line, not even an empty one.
        if !block.lines.is_empty() {
            lines.extend(code.split('\n').map(|line| paint(line, body, self.screen_style)));
        }
        lines.push(paint(&fence, dim, self.screen_style));
        self.push_lines(lines);
    }

    /// Writes the rows as they were written.
    fn push_table(&mut self, table: &TableBlock<'_>) {
        let source = self.source;
        self.push_row(&table.head);
        self.push_text("\n");
        self.push_text(&source[table.delimiter.clone()]);
        for row in &table.rows {
            self.push_text("\n");
            self.push_row(row);
        }
    }

    fn push_row(&mut self, row: &TableRow<'_>) {
        let source = self.source;
        let mut written_to = row.range.start;
        for cell in &row.cells {
            self.push_text(source.get(written_to..cell.range.start).unwrap_or_default());
            self.push_inlines(&cell.content);
            written_to = cell.range.end;
        }
        self.push_text(source.get(written_to..row.range.end).unwrap_or_default());
    }

    fn push_inlines(&mut self, content: &[Inline<'_>]) {
        for inline in content {
            self.push_inline(inline);
        }
    }

    fn push_inline(&mut self, inline: &Inline<'_>) {
        match &inline.kind {
            InlineKind::Text(text) => self.push_text(text),
            InlineKind::Code(code) if self.screen_style.colour => self.push_code(code),
            InlineKind::Code(code) => self.push_code(&format!("`{code}`")),
            InlineKind::Emphasis(content) => self.push_marked("*", self.style().italic(), content),
            InlineKind::Strong(content) => self.push_marked("**", self.style().bold(), content),
            InlineKind::Struck(content) => self.push_marked("~~", self.style().strikethrough(), content),
            // A terminal can't show it at a press, so it is marked with colours, too.
            InlineKind::Spoiler(content) => {
                self.push_text("||");
                self.push_inlines(content);
                self.push_text("||");
            }
            InlineKind::Link { address, content } => self.push_link(address, content),
            InlineKind::Image { address, content } => {
                self.push_text("image: ");
                self.push_link(address, content);
            }
            InlineKind::Address { text, .. } => self.push_text(text),
            InlineKind::Formula(formula) => self.push_formula(formula),
            InlineKind::Break { .. } => self.push_text("\n"),
            InlineKind::FootnoteReference(label) => self.push_text(&format!("[^{label}]")),
        }
    }

    fn push_marked(&mut self, mark: &str, style: Style, content: &[Inline<'_>]) {
        self.push_style(mark, style);
        self.push_inlines(content);
        self.pop_style(mark);
    }

    fn push_link(&mut self, address: &str, content: &[Inline<'_>]) {
        let from = self.spans.len();
        self.push_inlines(content);
        let label: String = self.spans[from..].iter().map(|span| &*span.text).collect();
        let address = clean(address);
        if label != address && format!("mailto:{label}") != address {
            let style = Style::new().fg_color(Some(AnsiColor::Blue.into())).underline();
            self.push_text(" (");
            self.spans.push(StyledRun { text: address, style });
            self.push_text(")");
        }
    }

    fn push_formula(&mut self, formula: &TexFormula<'_>) {
        match &formula.unicode {
            Some(unicode) if self.screen_style.colour => self.push_text(unicode),
            _ => self.push_code(&formula.source),
        }
    }

    fn push_code(&mut self, code: &str) {
        let style = self.style().fg_color(Some(AnsiColor::Cyan.into()));
        self.spans.push(StyledRun { text: clean(code), style });
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
        let is_joined = std::mem::take(&mut self.is_joined);
        if !is_joined && self.list_depth == 0 && self.lines.last().is_some_and(|line| !line.is_empty()) {
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
