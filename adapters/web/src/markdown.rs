//! Markdown as HTML that can do no harm: only the tags below are ever written, every word is escaped, and links lead
//! nowhere but to the web and to mail.

mod links;
mod writer;

use pulldown_cmark::{Options, Parser, TextMergeStream};

use writer::MarkdownHtmlWriter;

/// Renders what a model wrote.
pub(crate) fn html(text: &str) -> String {
    blocks(text).join("\n")
}

/// Renders what a model wrote, one piece for each paragraph, list, table or block of code.
pub(crate) fn blocks(text: &str) -> Vec<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = MarkdownHtmlWriter::new(text.len());
    for event in TextMergeStream::new(Parser::new_ext(text, options)) {
        if !writer.write(event) {
            // Some Markdown grows a hundredfold, such as a table of a thousand columns and rows of one sign.
            return vec![escape_text(text)];
        }
    }
    writer.finish()
}

/// Shows a text exactly as it is.
pub(crate) fn escape_text(text: &str) -> String {
    let mut html = String::with_capacity(text.len() + 32);
    html.push_str("<p class=\"plain\">");
    escape(text, &mut html);
    html.push_str("</p>");
    html
}

/// Writes text so that it is nothing but text, in an element or in a quoted attribute.
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
