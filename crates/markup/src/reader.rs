//! Reads a text into its tree: a scan finds out which marks are meant, a parser of CommonMark reads the rest.
//!
//! A long text is read in windows: the time and the memory for reading then grow with the text and no faster. A window
//! ends at a blank line before a line that isn't indented and no item of a list. There every paragraph, list and
//! quotation is closed, and only a fence or HTML might go on, in which case the next window begins with it.

mod addresses;
mod builder;
mod characters;
mod definitions;
mod formulas;
mod frames;
mod html;
mod inlines;
mod lines;
mod mask;
mod names;
mod notes;
mod prefix;
mod scan;
mod siblings;
mod tables;

use self::{builder::PassageReader, prefix::item_mark, scan::scan};
use crate::tree::{Block, BlockKind};

/// How much of a text is read at once, in bytes; what this takes to read stays in the processor's cache.
const WINDOW_BYTES: usize = 32 * 1024;

/// Reads a text window by window. Each item has the outermost blocks of one.
#[derive(Debug)]
pub struct MarkupReader<'text> {
    source: &'text str,
    /// How much is read at once.
    window_bytes: usize,
    /// Where the next window begins.
    start: usize,
    /// How long it is to be.
    size: usize,
    may_quote_to_end: bool,
    defines_links: bool,
    last_end: usize,
}

impl<'text> MarkupReader<'text> {
    /// Reads a text from its beginning.
    #[must_use]
    pub fn new(source: &'text str) -> Self {
        Self::with_window(source, WINDOW_BYTES)
    }

    pub(crate) fn with_window(source: &'text str, window_bytes: usize) -> Self {
        // A link may be defined anywhere behind its use, and lines may end in more ways than one: a text with either is
        // read as a whole.
        let defines_links = definitions::has_definitions(source);
        let is_single_window = source.len() <= window_bytes || defines_links || source.contains('\r');
        let window_bytes = if is_single_window { source.len() } else { window_bytes };
        Self { source, window_bytes, start: 0, size: window_bytes, may_quote_to_end: true, defines_links, last_end: 0 }
    }

    /// Whether what a passage means depends on other passages: links or footnotes are defined somewhere in the text.
    #[must_use]
    pub fn has_definitions(&self) -> bool {
        self.defines_links
    }

    fn read_window(&mut self) -> Vec<Block<'text>> {
        let (source, start) = (self.source, self.start);
        let end = window_end(source, start.saturating_add(self.size));
        let scan = scan(source, start..end, self.may_quote_to_end);
        let stop = scan.quote_to_end.unwrap_or(end);
        let mut blocks = Vec::new();
        let mut passage_start = start;
        for passage_end in scan.boundaries.iter().copied().filter(|boundary| *boundary < stop).chain([stop]) {
            let mut reader = PassageReader::new(source, &scan, start, self.last_end);
            let tail = reader.read(passage_start..passage_end, &mut blocks);
            // Where the scan has found a boundary, nothing is open.
            if let Some(tail) = tail.filter(|_| passage_end == end && end < source.len()) {
                // A list that the tail might belong to is read again with it.
                let first = siblings::open_list(&blocks[..tail.blocks]);
                let at = blocks.get(first).map_or(tail.at, |block| block.range.start);
                blocks.truncate(first);
                self.continue_at(at.min(tail.at));
                return self.finish(blocks);
            }
            passage_start = passage_end;
        }
        (self.start, self.size) = (end, self.window_bytes);
        if let Some(at) = scan.quote_to_end {
            self.start = source.len();
            blocks.push(self.quote_to_end(at, &blocks));
        }
        self.finish(blocks)
    }

    /// Lets the next window begin with a block that goes on behind this one.
    fn continue_at(&mut self, block: usize) {
        let line = self.source[..block].rfind('\n').map_or(0, |newline| newline + 1).max(self.start);
        // A block longer than the window is read again in ever longer ones, most of it once.
        self.size = if line > self.start { self.window_bytes } else { self.size.saturating_mul(4) };
        self.start = line;
    }

    /// Everything behind `>>> `.
    fn quote_to_end(&self, at: usize, before: &[Block<'text>]) -> Block<'text> {
        let mut reader = Self { start: at + 4, may_quote_to_end: false, size: self.source.len(), ..*self };
        reader.last_end = at + 4;
        let blocks: Vec<_> = reader.by_ref().flatten().collect();
        let last_end = before.last().map_or(self.last_end, |block| block.range.end);
        let end = blocks.last().map_or(at + 4, |block| block.range.end);
        Block {
            range: at..end,
            blank_before: last_end > 0 && has_blank_line(&self.source[last_end..at]),
            kind: BlockKind::Quote { to_end: true, blocks },
        }
    }

    fn finish(&mut self, mut blocks: Vec<Block<'text>>) -> Vec<Block<'text>> {
        siblings::join_siblings(&mut blocks, self.source);
        self.last_end = blocks.last().map_or(self.last_end, |block| block.range.end);
        blocks
    }
}

impl<'text> Iterator for MarkupReader<'text> {
    type Item = Vec<Block<'text>>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.start < self.source.len()).then(|| self.read_window())
    }
}

/// Reads the blocks of a text.
pub(crate) fn read_blocks(source: &str) -> Vec<Block<'_>> {
    MarkupReader::new(source).flatten().collect()
}

/// Whether a blank line is in the gap between two blocks.
fn has_blank_line(gap: &str) -> bool {
    gap.bytes().filter(|byte| *byte == b'\n').take(2).count() > 1
}

/// The first place at or behind `from` at which a window may end.
fn window_end(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes().get(from..).unwrap_or_default();
    let is_boundary = |line: &[u8]| {
        !line[0].is_ascii_whitespace() && item_mark(line) == 0 && !line.starts_with(b"```") && !line.starts_with(b"~~~")
    };
    let mut at = 0;
    while let Some(newline) = bytes[at..].windows(2).position(|pair| pair == b"\n\n") {
        at += newline + 2;
        if bytes.get(at).is_some_and(|_| is_boundary(&bytes[at..])) {
            return from + at;
        }
        at -= 1;
    }
    text.len()
}

#[cfg(test)]
mod tests;
