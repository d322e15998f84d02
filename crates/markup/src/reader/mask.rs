//! A copy of a passage in which characters that aren't meant as marks are replaced by ones that a parser reads as letters.
//!
//! The copy has the same length, and all text is taken from the source by the ranges that the parser reports, so no
//! character can get lost. Only of addresses and labels the parser may make texts of its own, in which the replacements are
//! put back.

use std::{borrow::Cow, ops::Range};

use pulldown_cmark::CowStr;

/// The marks that are replaced, each by the control character at its place in [`STAND_INS`].
const DELIMITERS: &[u8; 23] = b"*_~|\\`<>[]()&!#+-=:.\"'$";
const STAND_INS: &[u8; 23] =
    b"\x01\x02\x03\x04\x05\x06\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1c\x1d\x1e\x1f";

const STAND_IN_OF: [u8; 256] = stand_ins();

const fn stand_ins() -> [u8; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < DELIMITERS.len() {
        table[DELIMITERS[index] as usize] = STAND_INS[index];
        index += 1;
    }
    table
}

/// Collects the replacements of a passage.
pub(super) struct MaskBuilder<'text> {
    source: &'text str,
    passage: Range<usize>,
    /// `None` while nothing is replaced.
    bytes: Option<Vec<u8>>,
}

impl<'text> MaskBuilder<'text> {
    pub(super) fn new(source: &'text str, passage: Range<usize>) -> Self {
        Self { source, passage, bytes: None }
    }

    /// Lets the marks of a range stand for themselves.
    pub(super) fn hide(&mut self, range: Range<usize>) {
        for at in range {
            let stand_in = STAND_IN_OF[usize::from(self.source.as_bytes()[at])];
            if stand_in != 0 {
                self.put(at, &[stand_in]);
            }
        }
    }

    /// Puts bytes in the place of as many others.
    pub(super) fn put(&mut self, at: usize, bytes: &[u8]) {
        let passage = &self.source.as_bytes()[self.passage.clone()];
        let masked = self.bytes.get_or_insert_with(|| passage.to_vec());
        let at = at - self.passage.start;
        masked[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Ends the mask.
    pub(super) fn finish(self) -> Mask<'text> {
        let source = &self.source[self.passage.clone()];
        let masked = self.bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        Mask { source, text: masked.map_or(Cow::Borrowed(source), Cow::Owned) }
    }
}

/// A passage and its copy for the parser.
pub(super) struct Mask<'text> {
    /// The passage as it was written.
    source: &'text str,
    /// The copy.
    text: Cow<'text, str>,
}

impl<'text> Mask<'text> {
    /// What the parser reads.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The text of the source for one that the parser returns.
    pub(super) fn unmask(&self, text: &CowStr<'_>) -> Cow<'text, str> {
        self.borrowed(text).unwrap_or_else(|| Cow::Owned(text.to_string()))
    }

    /// The same for an address or a label, of which the parser may have made a text of its own.
    pub(super) fn unmask_label(&self, text: &CowStr<'_>) -> Cow<'text, str> {
        let mark_of = |c: char| {
            let index = STAND_INS.iter().position(|stand_in| u32::from(*stand_in) == u32::from(c));
            index.filter(|_| matches!(self.text, Cow::Owned(_))).map_or(c, |index| char::from(DELIMITERS[index]))
        };
        self.borrowed(text).unwrap_or_else(|| Cow::Owned(text.chars().map(mark_of).collect()))
    }

    fn borrowed(&self, text: &CowStr<'_>) -> Option<Cow<'text, str>> {
        let CowStr::Borrowed(text) = text else { return None };
        let offset = (text.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        self.source.get(offset..offset.wrapping_add(text.len())).map(Cow::Borrowed)
    }
}
