//! What the scan of a passage finds that the parser doesn't know: formulas, addresses, spoilers.

use std::ops::Range;

/// Something that is no Markdown, by its place in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) range: Range<usize>,
    pub(super) kind: NoteKind,
}

/// What it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoteKind {
    /// A formula without its delimiters.
    Formula {
        tex: Range<usize>,
        is_display: bool,
    },
    Address,
    SpoilerStart,
    SpoilerEnd,
}
