//! Markdown as Discord shows it.
//!
//! Discord parses most Markdown itself, so only what it would render differently or not at all is rewritten. The
//! replacement can be longer than what was measured when the text was split; then the text is sent unchanged.

mod plain;
mod rich;
mod table;

/// Rewrites Markdown that Discord doesn't support. The result has at most `limit` UTF-16 units if the text has.
pub(crate) fn render_markdown(text: &str, limit: usize) -> String {
    let rewritten = rich::rewrite(text);
    let is_usable = utf16_len(&rewritten) <= limit && !rewritten.trim().is_empty();
    if is_usable { rewritten } else { text.to_owned() }
}

/// Escapes a text so that Discord shows it literally. The result has at most `limit` UTF-16 units if the text has.
pub(crate) fn to_plain_text(text: &str, limit: usize) -> String {
    let escaped = plain::escape(text);
    if utf16_len(&escaped) <= limit {
        return escaped;
    }
    // A code block shows its characters literally too, at a fixed cost.
    let code = format!("```\n{text}\n```");
    if !text.contains("```") && utf16_len(&code) <= limit { code } else { text.to_owned() }
}

fn utf16_len(text: &str) -> usize {
    text.encode_utf16().count()
}

#[cfg(test)]
mod tests;
