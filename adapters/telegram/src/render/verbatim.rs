//! Renders only the inline spans of Markdown; every other character stays as it is.
//!
//! It omits exactly what the measurement of a text omits (the markers of emphasis, code and inline links), parsed with
//! the same extensions, so that a text that was measured to fit does fit.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::html::{HtmlSpan, HtmlWriter, link_target};

/// Replacement for a range of the text.
enum MarkupEdit {
    Open(HtmlSpan),
    Close,
    /// Nothing; for the markers of a link with an unsupported address.
    None,
    Code(Range<usize>),
    CodeBlock(Vec<Range<usize>>),
}

/// Renders a text with at most this many formatted spans: a text that can't be split further, such as one letter in
/// bold italics, may have more than are allowed.
pub(super) fn render(text: &str, entities: Option<usize>) -> HtmlWriter {
    let mut html = HtmlWriter::with_entity_limit(entities);
    let mut rendered_to = 0;
    for (range, edit) in markup_edits(text) {
        html.push_text(&text[rendered_to..range.start]);
        rendered_to = range.end;
        match edit {
            MarkupEdit::Open(span) => html.open(span),
            MarkupEdit::Close => html.close(),
            MarkupEdit::None => {}
            // Code would split the surrounding span in two, which may exceed the limit.
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
    html.push_text(&text[rendered_to..]);
    html
}

/// The edits in the order of the text.
fn markup_edits(text: &str) -> Vec<(Range<usize>, MarkupEdit)> {
    let mut edits = Vec::new();
    let mut code_lines: Option<Vec<Range<usize>>> = None;
    let mut links = Vec::new();
    // The end of the last event inside the open link, where its closing marker starts.
    let mut last_end = 0;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                last_end = range.start;
                match tag {
                    Tag::Emphasis => push_span_edits(HtmlSpan::Italic, &range, 1, &mut edits),
                    Tag::Strong => push_span_edits(HtmlSpan::Bold, &range, 2, &mut edits),
                    Tag::Strikethrough => {
                        let width = if text[range.clone()].starts_with("~~") { 2 } else { 1 };
                        push_span_edits(HtmlSpan::Struck, &range, width, &mut edits);
                    }
                    Tag::Link { dest_url, .. } => links.push(link_target(&dest_url)),
                    Tag::CodeBlock(_) => code_lines = Some(Vec::new()),
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
                    edits.push((range.start..range.start + 1, open));
                    edits.push((last_end..range.end, if has_tag { MarkupEdit::Close } else { MarkupEdit::None }));
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                edits.extend(code_lines.take().map(|lines| (range.clone(), MarkupEdit::CodeBlock(lines))));
            }
            Event::Text(_) => {
                if let Some(lines) = &mut code_lines {
                    lines.push(range.clone());
                }
            }
            Event::Code(_) => {
                let ticks = text[range.clone()].bytes().take_while(|byte| *byte == b'`').count();
                if range.len() > 2 * ticks {
                    edits.push((range.clone(), MarkupEdit::Code(range.start + ticks..range.end - ticks)));
                }
            }
            _ => {}
        }
        last_end = range.end;
    }
    edits.sort_by_key(|(range, _)| range.start);
    edits
}

fn push_span_edits(span: HtmlSpan, range: &Range<usize>, width: usize, edits: &mut Vec<(Range<usize>, MarkupEdit)>) {
    if range.len() > 2 * width {
        edits.push((range.start..range.start + width, MarkupEdit::Open(span)));
        edits.push((range.end - width..range.end, MarkupEdit::Close));
    }
}
