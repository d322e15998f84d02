//! The lines of a chat message for channels that know spans, quotations and code, and neither lists nor tables.
//!
//! How long a text is there is measured by the same walk, so that a text that was cut to fit does fit.

use crate::tree::Document;

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
    /// A link to this address, as the text has it; the channel decides whether it is one that it links to.
    Link(&'a str),
    /// An outermost quotation. Inner ones have `> ` before each line.
    Quote,
}

/// What writes the lines of a message in a channel's markup.
pub trait ChatWriter {
    /// Opens a span around what follows.
    fn open(&mut self, span: ChatSpan<'_>);
    /// Closes the innermost span.
    fn close(&mut self);
    /// Writes characters that stand for themselves. There is no line break among them.
    fn push_text(&mut self, text: &str);
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
    let _ = (document, writer);
}
