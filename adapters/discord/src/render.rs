//! Texts as Discord shows them: Markdown in Discord's own grammar, and plain text escaped so that it is shown literally.
//!
//! The text was measured as it is written here. If it is too long all the same, it loses its form step by step: tables
//! become lines, then marks are left out, then backslashes.

mod blocks;
mod code;
mod fragment;
mod grammar;
mod inlines;
mod plain;

use satchel_markup::{Document, utf16_units};

use self::{blocks::RenderDetail, fragment::write_fragments};

/// Writes a text in Discord's Markdown. The result has at most `limit` UTF-16 units if the text has.
pub(crate) fn render_markdown(text: &str, limit: usize) -> String {
    const DETAILS: [RenderDetail; 4] =
        [RenderDetail::Full, RenderDetail::Compact, RenderDetail::Unmarked, RenderDetail::Unescaped];
    let document = Document::parse(text);
    let mut written = DETAILS.into_iter().map(|detail| {
        let fragments = blocks::fragments(&document, detail);
        write_fragments(&fragments, detail < RenderDetail::Unescaped)
    });
    let is_usable = |text: &String| utf16_units(text) <= limit && !text.trim().is_empty();
    written.find(is_usable).unwrap_or_else(|| text.to_owned())
}

/// Escapes a text so that Discord shows it literally. The result has at most `limit` UTF-16 units if the text has.
pub(crate) fn to_plain_text(text: &str, limit: usize) -> String {
    let escaped = plain::escape_markup(text);
    if utf16_units(&escaped) <= limit {
        return escaped;
    }
    // A code block shows its characters literally too, at a fixed cost.
    let code = format!("```\n{text}\n```");
    if !text.contains("```") && utf16_units(&code) <= limit { code } else { text.to_owned() }
}

#[cfg(test)]
mod tests;
