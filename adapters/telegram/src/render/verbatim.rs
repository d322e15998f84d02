//! Markdown with its inline spans alone: every other character stays as it was written.
//!
//! What is left out here is what the measure of a text leaves out too (the markers of emphasis, code and inline links),
//! read with the same extensions, so that a text which was measured to fit does.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::{
    html::{HtmlSpan, HtmlWriter},
    link::linkable,
};

/// What takes the place of a range of the text.
enum MarkupEdit {
    Open(HtmlSpan),
    Close,
    /// Nothing: the marker of a link that can't be one.
    None,
    Code(Range<usize>),
    CodeBlock(Vec<Range<usize>>),
}

/// Renders a text with at most so many formatted spans: what can't be split further, such as one letter in bold and
/// italics, may have more than there is room for.
pub(super) fn render(text: &str, entities: Option<usize>) -> HtmlWriter {
    let mut html = HtmlWriter::with_entity_limit(entities);
    let mut shown = 0;
    for (range, mark) in markup_edits(text) {
        html.push_text(&text[shown..range.start]);
        shown = range.end;
        match mark {
            MarkupEdit::Open(span) => html.open(span),
            MarkupEdit::Close => html.close(),
            MarkupEdit::None => {}
            // In another span it would cut that in two, and there may be no room for one span more.
            MarkupEdit::Code(code) if html.is_in_span() => html.push_text(&text[code]),
            MarkupEdit::Code(code) => html.push_code(&text[code]),
            MarkupEdit::CodeBlock(lines) => {
                let code: String = lines.into_iter().map(|line| &text[line]).collect();
                html.code_block("", code.trim_end_matches('\n'));
                if text[range].ends_with('\n') {
                    html.push_text("\n");
                }
            }
        }
    }
    html.push_text(&text[shown..]);
    html
}

/// The marks in the order of the text.
fn markup_edits(text: &str) -> Vec<(Range<usize>, MarkupEdit)> {
    let mut marks = Vec::new();
    let mut block: Option<Vec<Range<usize>>> = None;
    let mut links = Vec::new();
    // Where the last event inside the open link ended: its closing marker begins there.
    let mut last_end = 0;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                last_end = range.start;
                match tag {
                    Tag::Emphasis => span(HtmlSpan::Italic, &range, 1, &mut marks),
                    Tag::Strong => span(HtmlSpan::Bold, &range, 2, &mut marks),
                    Tag::Strikethrough => {
                        let width = if text[range.clone()].starts_with("~~") { 2 } else { 1 };
                        span(HtmlSpan::Struck, &range, width, &mut marks);
                    }
                    Tag::Link { dest_url, .. } => links.push(linkable(&dest_url)),
                    Tag::CodeBlock(_) => block = Some(Vec::new()),
                    _ => {}
                }
                continue;
            }
            Event::End(TagEnd::Link) => {
                let address = links.pop().flatten();
                let is_inline = text[range.clone()].starts_with('[')
                    && text[range.clone()].ends_with(')')
                    && last_end > range.start + 1
                    && text[last_end..range.end].starts_with("](");
                if is_inline {
                    let has_tag = address.is_some();
                    let open = address.map_or(MarkupEdit::None, |address| MarkupEdit::Open(HtmlSpan::Link(address)));
                    marks.push((range.start..range.start + 1, open));
                    marks.push((last_end..range.end, if has_tag { MarkupEdit::Close } else { MarkupEdit::None }));
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                marks.extend(block.take().map(|lines| (range.clone(), MarkupEdit::CodeBlock(lines))));
            }
            Event::Text(_) => {
                if let Some(lines) = &mut block {
                    lines.push(range.clone());
                }
            }
            Event::Code(_) => {
                let ticks = text[range.clone()].bytes().take_while(|byte| *byte == b'`').count();
                if range.len() > 2 * ticks {
                    marks.push((range.clone(), MarkupEdit::Code(range.start + ticks..range.end - ticks)));
                }
            }
            _ => {}
        }
        last_end = range.end;
    }
    marks.sort_by_key(|(range, _)| range.start);
    marks
}

fn span(span: HtmlSpan, range: &Range<usize>, width: usize, marks: &mut Vec<(Range<usize>, MarkupEdit)>) {
    if range.len() > 2 * width {
        marks.push((range.start..range.start + width, MarkupEdit::Open(span)));
        marks.push((range.end - width..range.end, MarkupEdit::Close));
    }
}
