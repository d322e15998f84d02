//! The tree of a text: blocks and inlines with the ranges of the source that they were read from.
//!
//! Text is always that of the source: nothing is decoded but character references, and backslashes that escape a mark are
//! left out. Ranges are bytes of [`Document::source`] and include the marks.

use std::{borrow::Cow, ops::Range};

use crate::reader;

/// A text and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<'text> {
    /// The text as the model wrote it.
    pub source: &'text str,
    /// The blocks, in the order of the text.
    pub blocks: Vec<Block<'text>>,
}

impl<'text> Document<'text> {
    /// Reads a text as models write it. Every text can be read.
    #[must_use]
    pub fn parse(source: &'text str) -> Self {
        Self { source, blocks: reader::read_blocks(source) }
    }
}

/// A paragraph, a list, a table …
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block<'text> {
    /// Where it is in the source: from its first mark to its last character, line breaks behind it not included.
    pub range: Range<usize>,
    /// Whether a blank line is before it in the source; `false` for the first block of a container.
    pub blank_before: bool,
    /// What it is.
    pub kind: BlockKind<'text>,
}

/// What a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockKind<'text> {
    /// Text. Its line breaks are [`InlineKind::Break`].
    Paragraph(Vec<Inline<'text>>),
    /// A heading.
    Heading {
        /// From 1, the highest, to 6.
        level: u8,
        /// Its text.
        content: Vec<Inline<'text>>,
    },
    /// A quotation.
    Quote {
        /// Whether it was begun by `>>> `, which quotes everything to the end of the text.
        to_end: bool,
        /// What is quoted.
        blocks: Vec<Block<'text>>,
    },
    /// A list, of bullets or of numbers.
    List(Vec<ListItem<'text>>),
    /// Code.
    Code(CodeBlock<'text>),
    /// A table.
    Table(TableBlock<'text>),
    /// A formula on lines of its own.
    Formula(TexFormula<'text>),
    /// A line that separates.
    Rule,
    /// The text of a footnote.
    Footnote {
        /// What refers to it, without brackets.
        label: Cow<'text, str>,
        /// Its text.
        blocks: Vec<Block<'text>>,
    },
    /// HTML, which is shown as it was written. Line breaks (`<br>`) in it are line breaks of the text.
    Html(Vec<Inline<'text>>),
}

/// An item of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListItem<'text> {
    /// Where it is in the source, its mark included.
    pub range: Range<usize>,
    /// Its mark, such as `-` or `12.`, without blanks.
    pub mark: Range<usize>,
    /// Whether a blank line is before it in the source; `false` for the first item.
    pub blank_before: bool,
    /// The number that is meant, whatever was written: items go on counting behind unindented bullets. `None` in a list
    /// of bullets.
    pub number: Option<u64>,
    /// Whether the task is done, where the item is one.
    pub task: Option<bool>,
    /// What it says.
    pub blocks: Vec<Block<'text>>,
}

impl ListItem<'_> {
    /// The indentation of the item's further lines, in characters: as wide as its number, two behind a bullet.
    #[must_use]
    pub fn indent(&self) -> usize {
        self.number.map_or(2, |number| decimal_digits(number) + 2)
    }
}

fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Code, fenced or indented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeBlock<'text> {
    /// What is behind the opening fence: the language, and what some add to it. Empty for indented code.
    pub info: Cow<'text, str>,
    /// The code, without the line break at its end.
    pub text: Cow<'text, str>,
    /// Where the code is in the source: one range, or one for each line in a quotation or a list.
    pub lines: Vec<Range<usize>>,
}

impl CodeBlock<'_> {
    /// The language, in small letters, if it is a plain word; else an empty string.
    #[must_use]
    pub fn language(&self) -> String {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '#' | '-' | '_' | '.');
        let first = self.info.split([' ', ',', '{']).next().unwrap_or_default();
        if first.chars().all(is_allowed) { first.to_lowercase() } else { String::new() }
    }
}

/// A table. [`TableBlock::layout`] arranges it for channels that have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableBlock<'text> {
    /// One for each column; rows may have more cells and may have fewer.
    pub alignments: Vec<ColumnAlignment>,
    /// The headings.
    pub head: TableRow<'text>,
    /// Where the line of dashes is in the source.
    pub delimiter: Range<usize>,
    /// The rows below the headings.
    pub rows: Vec<TableRow<'text>>,
}

/// How the cells of a column are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnAlignment {
    /// As the reader's language is.
    Default,
    /// To the left.
    Left,
    /// In the middle.
    Center,
    /// To the right.
    Right,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRow<'text> {
    /// Where it is in the source.
    pub range: Range<usize>,
    /// All cells that were written, also those beyond the number of headings.
    pub cells: Vec<Cell<'text>>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell<'text> {
    /// Where its content is in the source, blanks around it not included.
    pub range: Range<usize>,
    /// Its text; line breaks (`<br>`) are [`InlineKind::Break`].
    pub content: Vec<Inline<'text>>,
}

/// A formula in TeX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TexFormula<'text> {
    /// As it was written, with its delimiters.
    pub source: Cow<'text, str>,
    /// The formula without delimiters and blanks around it.
    pub tex: Cow<'text, str>,
    /// Whether it is meant to be on a line of its own.
    pub is_display: bool,
    /// The same in plain characters, where these say the same. A channel without formulas shows this as text, or else
    /// the source as code, never a part of it.
    pub unicode: Option<String>,
}

/// A piece of text within a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inline<'text> {
    /// Where it is in the source, with its marks.
    pub range: Range<usize>,
    /// What it is.
    pub kind: InlineKind<'text>,
}

/// What a piece of text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InlineKind<'text> {
    /// Characters that stand for themselves, on one line; inline HTML too.
    Text(Cow<'text, str>),
    /// Code within a line.
    Code(Cow<'text, str>),
    /// Usually shown in italics.
    Emphasis(Vec<Inline<'text>>),
    /// Usually shown bold.
    Strong(Vec<Inline<'text>>),
    /// Struck out.
    Struck(Vec<Inline<'text>>),
    /// Hidden until it is pressed: `||text||`.
    Spoiler(Vec<Inline<'text>>),
    /// A link with a text of its own. The address may have any scheme, or none.
    Link {
        /// Where it leads.
        address: Cow<'text, str>,
        /// Its text.
        content: Vec<Inline<'text>>,
    },
    /// An image.
    Image {
        /// Where it is.
        address: Cow<'text, str>,
        /// The text in its place.
        content: Vec<Inline<'text>>,
    },
    /// An address that is its own text, bare or between `<` and `>`: shown as it was written, and a link.
    Address {
        /// What is shown. Marks that were escaped have no backslash.
        text: Cow<'text, str>,
        /// Where it leads: the text, or the text with `mailto:` before it.
        address: Cow<'text, str>,
    },
    /// A formula within the text.
    Formula(Box<TexFormula<'text>>),
    /// A line break. Its range goes on to the first character of the next line, over the marks of quotations and the
    /// indentation.
    Break {
        /// Whether it is one in CommonMark too, which joins lines. In a chat every line break is one.
        is_hard: bool,
    },
    /// A reference to a footnote, by its label.
    FootnoteReference(Cow<'text, str>),
}
