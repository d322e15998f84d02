//! Where a Markdown text may be cut: its inline spans with their markers, and its code blocks with their lines.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::windows;

/// How much of a text is read at once, in bytes; what this takes to read stays in the processor's cache.
const WINDOW_BYTES: usize = 32 * 1024;

/// An inline span: what stands between an opening and a closing marker.
#[derive(Debug)]
pub(super) struct InlineSpan {
    /// The marker before it; what is put before the next chunk when the span is cut.
    pub(super) open: Range<usize>,
    /// The marker after it.
    pub(super) close: Range<usize>,
    /// The length of its markers and of those of the spans around it.
    pub(super) nesting: usize,
    /// How many spans it lies in, itself included.
    pub(super) depth: usize,
}

/// A marker of a span, in the order of the text.
#[derive(Debug)]
pub(super) struct SpanMarker {
    /// Where it stands.
    pub(super) range: Range<usize>,
    /// Its span.
    pub(super) span: usize,
    /// Whether it begins the span.
    pub(super) opens: bool,
}

/// A code block, fenced or indented.
#[derive(Debug)]
pub(super) struct CodeBlock {
    /// All of it, fence lines included.
    pub(super) range: Range<usize>,
    /// Its lines, from the first character of code to the last.
    pub(super) code: Range<usize>,
    /// What stands within `code` and is no code: the indentation and the quote marks of what the block stands in.
    pub(super) gaps: Vec<Range<usize>>,
    /// The line that opens it again.
    pub(super) opening: String,
    /// The line that closes it where it was reopened.
    pub(super) fence: String,
    /// The line that closes it where it stands; empty for an indented block, which needs none.
    pub(super) closing: String,
}

/// A code block of which the end has not been read yet.
struct OpenCodeBlock {
    range: Range<usize>,
    fenced: bool,
    lines: Vec<Range<usize>>,
}

/// A block at the end of a passage that might go on behind it.
#[derive(Debug)]
pub(super) struct OpenTail {
    /// Where it begins.
    pub(super) at: usize,
    blocks: usize,
    entities: usize,
    seams: usize,
}

/// Where a text may be cut.
#[derive(Debug, Default)]
pub(super) struct MarkdownStructure {
    pub(super) spans: Vec<InlineSpan>,
    pub(super) markers: Vec<SpanMarker>,
    pub(super) blocks: Vec<CodeBlock>,
    /// Where formatted spans begin, each as often as one does.
    pub(super) entities: Vec<usize>,
    /// Where a block begins behind a blank line and in no other block, and the ends of the text: what stands before
    /// such a place and what stands behind it are read alone as they are read together.
    pub(super) seams: Vec<usize>,
}

/// The extensions of Markdown that models write and channels show.
fn parser_options() -> Options {
    Options::ENABLE_STRIKETHROUGH
}

impl MarkdownStructure {
    /// Reads the structure of a Markdown text.
    pub(super) fn parse(text: &str) -> Self {
        windows::parse_in_windows(text, WINDOW_BYTES)
    }

    /// Reads a passage, which must begin where no block is open, and adds what it finds.
    ///
    /// Returns where the last block begins if the text behind the passage might belong to it.
    pub(super) fn parse_passage(&mut self, text: &str, passage: Range<usize>) -> Option<OpenTail> {
        let (first_marker, first_entity) = (self.markers.len(), self.entities.len());
        let mut block: Option<OpenCodeBlock> = None;
        // Where the last event inside the open link ended: its closing marker begins there.
        let mut last_end = passage.start;
        let (mut depth, mut open_tail) = (0_usize, None);
        let events = Parser::new_ext(&text[passage.clone()], parser_options()).into_offset_iter();
        for (event, range) in
            events.map(|(event, range)| (event, range.start + passage.start..range.end + passage.start))
        {
            match event {
                Event::Start(tag) => {
                    if depth == 0 {
                        let may_continue = matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_)) | Tag::HtmlBlock);
                        let (blocks, entities, seams) = (self.blocks.len(), self.entities.len(), self.seams.len());
                        let tail = OpenTail { at: range.start, blocks, entities, seams };
                        open_tail = (may_continue && range.end == passage.end).then_some(tail);
                        if text[..range.start].ends_with("\n\n")
                            && !text[range.start..].starts_with(char::is_whitespace)
                        {
                            self.seams.push(range.start);
                        }
                    }
                    depth += 1;
                    self.on_start_tag(text, &tag, &range, &mut block);
                    last_end = range.start;
                    continue;
                }
                Event::End(tag) => {
                    depth -= 1;
                    match tag {
                        TagEnd::Link => self.push_link(text, &range, last_end),
                        TagEnd::CodeBlock => {
                            self.blocks.extend(block.take().map(|block| build_code_block(text, block)))
                        }
                        _ => {}
                    }
                }
                Event::Text(_) => {
                    if let Some(block) = &mut block {
                        block.lines.push(range.clone());
                    }
                }
                Event::Code(_) => {
                    self.entities.push(range.start);
                    let ticks = text[range.clone()].bytes().take_while(|byte| *byte == b'`').count();
                    self.push_span(&range, ticks, ticks);
                }
                _ => {}
            }
            last_end = range.end;
        }
        self.markers[first_marker..].sort_by_key(|marker| marker.range.start);
        self.entities[first_entity..].sort_unstable();
        self.sum_nesting(first_marker);
        open_tail
    }

    /// Discards a block that might continue; it contains no span.
    pub(super) fn discard_tail(&mut self, tail: &OpenTail) {
        self.blocks.truncate(tail.blocks);
        self.entities.truncate(tail.entities);
        self.seams.truncate(tail.seams);
    }

    fn on_start_tag(&mut self, text: &str, tag: &Tag<'_>, range: &Range<usize>, block: &mut Option<OpenCodeBlock>) {
        match tag {
            Tag::Emphasis => self.push_span(range, 1, 1),
            Tag::Strong => self.push_span(range, 2, 2),
            Tag::Strikethrough => {
                let width = if text[range.clone()].starts_with("~~") { 2 } else { 1 };
                self.push_span(range, width, width);
            }
            Tag::CodeBlock(kind) => {
                let fenced = matches!(kind, CodeBlockKind::Fenced(_));
                *block = Some(OpenCodeBlock { range: range.clone(), fenced, lines: Vec::new() });
            }
            Tag::Heading { .. } | Tag::BlockQuote(_) | Tag::Link { .. } | Tag::Image { .. } => {}
            _ => return,
        }
        self.entities.push(range.start);
    }

    fn sum_nesting(&mut self, first_marker: usize) {
        let (mut nesting, mut depth) = (0_usize, 0_usize);
        for marker in &self.markers[first_marker..] {
            let span = &mut self.spans[marker.span];
            let width = span.open.len() + span.close.len();
            if marker.opens {
                (nesting, depth) = (nesting + width, depth + 1);
                (span.nesting, span.depth) = (nesting, depth);
            } else {
                (nesting, depth) = (nesting.saturating_sub(width), depth.saturating_sub(1));
            }
        }
    }

    fn push_span(&mut self, range: &Range<usize>, opening: usize, closing: usize) {
        if opening == 0 || range.len() <= opening + closing {
            return;
        }
        let open = range.start..range.start + opening;
        let close = range.end - closing..range.end;
        let span = self.spans.len();
        self.markers.push(SpanMarker { range: open.clone(), span, opens: true });
        self.markers.push(SpanMarker { range: close.clone(), span, opens: false });
        self.spans.push(InlineSpan { open, close, nesting: opening + closing, depth: 1 });
    }

    /// An inline link: `[` before the words, `](…)` after them. Any other link is shown by its own characters.
    fn push_link(&mut self, text: &str, range: &Range<usize>, label_end: usize) {
        let source = &text[range.clone()];
        if source.starts_with('[')
            && source.ends_with(')')
            && label_end > range.start + 1
            && text[label_end..range.end].starts_with("](")
        {
            self.push_span(range, 1, range.end - label_end);
        }
    }
}

fn build_code_block(text: &str, block: OpenCodeBlock) -> CodeBlock {
    let OpenCodeBlock { range, fenced, lines } = block;
    let line_start = text[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let code = match (lines.first(), lines.last()) {
        (Some(first), Some(last)) => first.start..last.end.min(range.end),
        _ => range.end..range.end,
    };
    let gaps =
        lines.windows(2).filter(|pair| pair[0].end < pair[1].start).map(|pair| pair[0].end..pair[1].start).collect();
    if !fenced {
        let max_ticks = longest_run(&text[code.clone()], '`');
        let fence = "`".repeat(3.max(max_ticks + 1));
        return CodeBlock { range, code, gaps, opening: format!("{fence}\n"), fence, closing: String::new() };
    }
    let first_line = text[range.clone()].lines().next().unwrap_or_default().trim_start();
    let fence_char = first_line.chars().next().unwrap_or('`');
    let info = first_line.trim_start_matches(fence_char);
    let fence = first_line[..first_line.len() - info.len()].to_owned();
    // The closing fence stands in the same quotes and lists; a list's own mark would begin a new item.
    let container = text[line_start..range.start].chars().map(|c| if c == '>' || c == '\t' { c } else { ' ' });
    let closing = container.chain(fence.chars()).collect();
    CodeBlock { range, code, gaps, opening: format!("{fence}{}\n", info.trim_end()), fence, closing }
}

fn longest_run(text: &str, mark: char) -> usize {
    text.split(|c| c != mark).map(str::len).max().unwrap_or(0)
}
