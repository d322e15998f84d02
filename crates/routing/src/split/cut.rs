//! The kinds of places at which a chunk may end.

/// A kind of place, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CutKind {
    /// Between blocks with a blank line between them.
    Paragraph,
    /// Between lines, or other blocks.
    Line,
    /// Between lines of code, or rows of a table.
    CodeLine,
    /// Between sentences.
    Sentence,
    /// Between words.
    Word,
    /// Between sentences within a span.
    SentenceInSpan,
    /// Between words within a span, or within a line of code.
    WordInSpan,
}
