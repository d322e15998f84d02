//! How long a text is where it is shown, piece by piece.
//!
//! For a channel with formatted spans this is what [`write_message`](crate::write_message) writes. For a channel that reads
//! Markdown it is the most that its own Markdown needs, which its writer must not exceed: the marks of spans (`*`, `**`, `~~`,
//! `||`, backticks as the code needs them, `[]()` with the address), `> ` before each line of a quotation, `- ` or the number
//! before an item and its width before further lines, `#` of a heading, fences with the language, one more character for each
//! fence within code, and one backslash before each of ``\ * _ ~ ` | < > [ #`` in text and before the first character of a
//! text that begins with `-`, `+` or a digit. Tables are as [`TableBlock::layout`](crate::TableBlock::layout) has them: columns
//! in a fence, the first line of a record bold.

use crate::{
    chat::{FORMULA_LANGUAGE, IMAGE_SIGN, RULE},
    plain::{IMAGE_TEXT, address_suffix, plain_text},
    tree::{CodeBlock, Inline, InlineKind, ListItem, TexFormula},
    units::{count_bytes, scalar_values, utf16_units, weighted_units},
};

/// What a channel counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// The characters that a person sees.
    Visible,
    /// Those of the Markdown that the channel is sent.
    Markdown,
}

/// Measures texts for a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Which characters count.
    pub form: TextForm,
    /// Whether they are counted as Unicode scalar values, and not as UTF-16 code units.
    pub counts_scalars: bool,
}

/// How long a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextSize {
    /// Its characters in the channel's unit, without line breaks.
    pub units: usize,
    /// Its formatted spans.
    pub spans: usize,
    /// Its line breaks. Each counts one, and what is before the next line.
    pub breaks: usize,
}

impl std::ops::Add for TextSize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { units: self.units + other.units, spans: self.spans + other.spans, breaks: self.breaks + other.breaks }
    }
}

impl std::ops::AddAssign for TextSize {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl TextSize {
    fn units(units: usize) -> Self {
        Self { units, ..Self::default() }
    }

    fn span(units: usize) -> Self {
        Self { units, spans: 1, ..Self::default() }
    }
}

impl Measure {
    /// Counts characters, whatever they mean.
    #[must_use]
    pub fn count(&self, text: &str) -> usize {
        if self.counts_scalars { scalar_values(text) } else { utf16_units(text) }
    }

    /// Counts characters that stand for themselves.
    #[must_use]
    pub fn text(&self, text: &str) -> usize {
        if !self.is_markdown() {
            return self.count(text);
        }
        // A line that begins like an item or a quotation needs a backslash, too.
        let begins_block = text.starts_with(|c: char| matches!(c, '-' | '+') || c.is_ascii_digit());
        weighted_units(text, self.counts_scalars, is_mark) + usize::from(begins_block)
    }

    fn is_markdown(&self) -> bool {
        self.form == TextForm::Markdown
    }

    /// Measures the text of a block, or of a part of it within `nesting` spans.
    #[must_use]
    pub fn inlines(&self, content: &[Inline<'_>], nesting: usize) -> TextSize {
        let mut size = TextSize::default();
        for inline in content {
            size += self.inline(inline, nesting);
        }
        size
    }

    /// Measures a piece of text.
    #[must_use]
    pub fn inline(&self, inline: &Inline<'_>, nesting: usize) -> TextSize {
        match &inline.kind {
            InlineKind::Text(text) => TextSize::units(self.text(text)),
            InlineKind::Code(code) => self.code(code, nesting),
            InlineKind::Formula(formula) => self.inline_formula(formula, nesting),
            InlineKind::Address { text, .. } => {
                TextSize::units(self.count(text) + if self.is_markdown() { 2 } else { 0 })
            }
            InlineKind::Break { .. } => TextSize { breaks: 1, ..TextSize::default() },
            InlineKind::FootnoteReference(label) => TextSize::units(self.text(label) + self.text("[]")),
            InlineKind::Image { content, address } => {
                let text = self.inlines(content, nesting + 1);
                let nothing = if content.is_empty() { self.text(IMAGE_TEXT) } else { 0 };
                let units = self.count(IMAGE_SIGN) + nothing + self.link_delimiters(address, content);
                text + TextSize::span(units)
            }
            InlineKind::Emphasis(content)
            | InlineKind::Strong(content)
            | InlineKind::Struck(content)
            | InlineKind::Spoiler(content)
            | InlineKind::Link { content, .. } => {
                let (open, close) = self.span_delimiters(inline);
                self.inlines(content, nesting + 1) + TextSize::span(open + close)
            }
        }
    }

    /// The length of the marks of a span: before it, and behind it.
    #[must_use]
    pub fn span_delimiters(&self, inline: &Inline<'_>) -> (usize, usize) {
        match &inline.kind {
            InlineKind::Link { address, content } => {
                let marks = self.link_delimiters(address, content);
                (usize::from(self.is_markdown()).min(marks), marks.saturating_sub(usize::from(self.is_markdown())))
            }
            _ if !self.is_markdown() => (0, 0),
            InlineKind::Emphasis(_) => (1, 1),
            InlineKind::Strong(_) | InlineKind::Struck(_) | InlineKind::Spoiler(_) => (2, 2),
            InlineKind::Code(code) => (tick_delimiters(code), tick_delimiters(code)),
            _ => (0, 0),
        }
    }

    fn link_delimiters(&self, address: &str, content: &[Inline<'_>]) -> usize {
        let is_web = address.starts_with("https://") || address.starts_with("http://");
        match self.form {
            TextForm::Markdown => self.count(address) + "[]()".len(),
            TextForm::Visible if is_web => 0,
            TextForm::Visible => address_suffix(address, &plain_text(content)).map_or(0, |suffix| self.count(&suffix)),
        }
    }

    /// Measures code within a line. Spans around it may be closed before it and opened again behind it.
    #[must_use]
    pub fn code(&self, code: &str, nesting: usize) -> TextSize {
        let marks = if self.is_markdown() { 2 * tick_delimiters(code) } else { 0 };
        TextSize { units: self.count(code) + marks, spans: 1 + nesting, breaks: 0 }
    }

    fn inline_formula(&self, formula: &TexFormula<'_>, nesting: usize) -> TextSize {
        match &formula.unicode {
            Some(unicode) => TextSize::units(self.text(unicode)),
            None => self.code(&formula.plain_text(), nesting),
        }
    }

    /// Measures a formula on lines of its own.
    #[must_use]
    pub fn formula(&self, formula: &TexFormula<'_>) -> TextSize {
        match &formula.unicode {
            Some(unicode) => TextSize::units(self.text(unicode)),
            None => self.preformatted(&formula.source, FORMULA_LANGUAGE),
        }
    }

    /// Measures code on lines of its own.
    #[must_use]
    pub fn code_block(&self, code: &CodeBlock<'_>) -> TextSize {
        self.preformatted(&code.text, &code.language())
    }

    fn preformatted(&self, text: &str, language: &str) -> TextSize {
        let lines = self.code_lines(text);
        if self.is_markdown() { lines + self.fences(text, language) } else { lines }
    }

    /// Measures lines of code without what is around them.
    #[must_use]
    pub fn code_lines(&self, text: &str) -> TextSize {
        let breaks = count_bytes(text, |byte| byte == b'\n');
        // A fence in it has to be broken up where a channel has none that is longer.
        let fences = if self.is_markdown() { text.matches("```").count() } else { 0 };
        let size = TextSize { units: self.count(text) - breaks + fences, spans: 1, breaks };
        // Without a prefix, a line break in code is like any other character.
        if self.is_markdown() { size } else { TextSize { units: size.units + breaks, breaks: 0, ..size } }
    }

    /// Measures the lines before and behind code. Empty code isn't shown at all.
    #[must_use]
    pub fn fences(&self, text: &str, language: &str) -> TextSize {
        if text.trim().is_empty() {
            return TextSize::default();
        }
        let fence = longest_run(text, '`').saturating_add(1).max(3);
        let units = if self.is_markdown() { 2 * fence + language.len() } else { 0 };
        TextSize { units, spans: 0, breaks: if self.is_markdown() { 2 } else { 0 } }
    }

    /// Measures the marks of a heading.
    #[must_use]
    pub fn heading(&self, level: u8) -> TextSize {
        TextSize::span(if self.is_markdown() { usize::from(level) + 1 } else { 0 })
    }

    /// Measures a rule.
    #[must_use]
    pub fn rule(&self) -> TextSize {
        TextSize::units(self.count(RULE))
    }

    /// Measures the mark of an item, with the box of a task.
    #[must_use]
    pub fn item_mark(&self, item: &ListItem<'_>) -> usize {
        let has_box_beside_mark = item.task.is_some() && (item.number.is_some() || self.is_markdown());
        item.indent() + if has_box_beside_mark { 2 } else { 0 }
    }

    /// Measures what is before the lines of a quotation; `is_nested` if it is within another block.
    #[must_use]
    pub fn quote_mark(&self, is_nested: bool) -> usize {
        if self.is_markdown() || is_nested { 2 } else { 0 }
    }

    /// Measures the label of a footnote.
    #[must_use]
    pub fn footnote_label(&self, label: &str) -> usize {
        self.text(label) + self.text("[] ")
    }

    /// The length of the marks around a bold line.
    pub(crate) fn bold_delimiters(&self) -> usize {
        if self.is_markdown() { 4 } else { 0 }
    }
}

/// Whether a channel that reads Markdown may need a backslash before a character.
fn is_mark(byte: u8) -> bool {
    matches!(byte, b'\\' | b'*' | b'_' | b'~' | b'`' | b'|' | b'<' | b'>' | b'[' | b'#')
}

/// The length of the backticks on one side of code, with the blank that parts them from a backtick of the code.
fn tick_delimiters(code: &str) -> usize {
    match longest_run(code, '`') {
        0 => 1,
        run => run + 2,
    }
}

fn longest_run(text: &str, mark: char) -> usize {
    if !text.contains(mark) {
        return 0;
    }
    text.split(|c| c != mark).map(str::len).max().unwrap_or(0)
}
