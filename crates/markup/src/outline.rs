//! The tree as text, for tests.

use std::fmt::Write;

use crate::{Block, BlockKind, Document, Inline, InlineKind, TableRow};

/// The tree of a text: a line for each block, spans as `[b:…]`, line breaks as `⏎`.
pub(crate) fn outline(text: &str) -> String {
    let mut output = String::new();
    push_blocks(&Document::parse(text).blocks, 0, &mut output);
    output
}

/// The text of a document with a single paragraph.
pub(crate) fn inline_outline(text: &str) -> String {
    let outline = outline(text);
    outline.trim_end().strip_prefix("p ").unwrap_or(&outline).to_owned()
}

fn push_blocks(blocks: &[Block<'_>], depth: usize, output: &mut String) {
    for block in blocks {
        let indent = "  ".repeat(depth);
        let blank = if block.blank_before { "·" } else { "" };
        let mut line = |text: &str| writeln!(output, "{indent}{blank}{text}").unwrap();
        match &block.kind {
            BlockKind::Paragraph(content) => line(&format!("p {}", inlines(content))),
            BlockKind::Heading { level, content } => line(&format!("h{level} {}", inlines(content))),
            BlockKind::Html(content) => line(&format!("html {}", inlines(content))),
            BlockKind::Code(code) => line(&format!("code({}) {}", code.info, code.text.replace('\n', "⏎"))),
            BlockKind::Formula(formula) => line(&format!("formula {}", formula.tex.replace('\n', "⏎"))),
            BlockKind::Rule => line("rule"),
            BlockKind::Quote { to_end, blocks } => {
                line(if *to_end { "quote to end" } else { "quote" });
                push_blocks(blocks, depth + 1, output);
            }
            BlockKind::Footnote { label, blocks } => {
                line(&format!("footnote {label}"));
                push_blocks(blocks, depth + 1, output);
            }
            BlockKind::List(items) => {
                line("list");
                for item in items {
                    let number = item.number.map_or("-".to_owned(), |number| format!("{number}."));
                    let task = item.task.map_or("", |done| if done { " done" } else { " open" });
                    let blank = if item.blank_before { "·" } else { "" };
                    writeln!(output, "{indent}  {blank}{number}{task}").unwrap();
                    push_blocks(&item.blocks, depth + 2, output);
                }
            }
            BlockKind::Table(table) => {
                line(&format!("table {}", row(&table.head)));
                for cells in &table.rows {
                    writeln!(output, "{indent}  {}", row(cells)).unwrap();
                }
            }
        }
    }
}

fn row(row: &TableRow<'_>) -> String {
    row.cells.iter().map(|cell| inlines(&cell.content)).collect::<Vec<_>>().join(" | ")
}

pub(crate) fn inlines(content: &[Inline<'_>]) -> String {
    let span = |name: &str, content: &[Inline<'_>]| format!("[{name}:{}]", inlines(content));
    let piece = |inline: &Inline<'_>| match &inline.kind {
        InlineKind::Text(text) => text.to_string(),
        InlineKind::Code(code) => format!("[code:{code}]"),
        InlineKind::Emphasis(content) => span("i", content),
        InlineKind::Strong(content) => span("b", content),
        InlineKind::Struck(content) => span("s", content),
        InlineKind::Spoiler(content) => span("spoiler", content),
        InlineKind::Link { address, content } => span(&format!("link {address}"), content),
        InlineKind::Image { address, content } => span(&format!("image {address}"), content),
        InlineKind::Address { text, address } if text == address => format!("[url:{text}]"),
        InlineKind::Address { text, address } => format!("[url {address}:{text}]"),
        InlineKind::Formula(formula) => format!("[tex:{}]", formula.tex),
        InlineKind::Break { .. } => "⏎".to_owned(),
        InlineKind::FootnoteReference(label) => format!("[note:{label}]"),
    };
    content.iter().map(piece).collect()
}
