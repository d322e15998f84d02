//! Renders a text of a model as safe HTML: only the tags below are written, all text is escaped, and links lead only to the
//! web and to mail addresses. Formulas become MathML.

mod links;
mod mathml;
mod tex;
mod writer;

use satchel_markup::Document;

/// Renders a text as safe HTML.
pub(crate) fn to_html(text: &str) -> String {
    to_html_blocks(text).join("\n")
}

/// Renders a text as safe HTML, one item for each paragraph, list, table or code block.
pub(crate) fn to_html_blocks(text: &str) -> Vec<String> {
    // Some texts grow a hundredfold, such as a table of a thousand columns with short rows.
    writer::write_blocks(&Document::parse(text)).unwrap_or_else(|| vec![escape_text(text)])
}

/// Renders plain text as a paragraph.
pub(crate) fn escape_text(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 32);
    html.push_str("<p class=\"plain\">");
    escape(text, &mut html);
    html.push_str("</p>");
    html
}

/// Escapes text for an element or a quoted attribute.
fn escape(text: &str, html: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'', '\0']) {
        html.push_str(&rest[..at]);
        html.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            // HTML can't hold it.
            0 => "\u{FFFD}",
            _ => "&#39;",
        });
        rest = &rest[at + 1..];
    }
    html.push_str(rest);
}

#[cfg(test)]
mod tests;
