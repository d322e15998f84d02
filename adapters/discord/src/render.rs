//! Markdown as Discord shows it.
//!
//! Discord reads most of it itself, so a text stays as it was written but for what Discord would show otherwise than it
//! was meant, or not at all. What is put in its place can be longer than what was measured when the text was split;
//! then the text goes as it is.

mod plain;
mod rich;
mod table;

/// The text with everything that Discord doesn't show in a form that it does; within `limit` UTF-16 units where the
/// text itself is.
pub(crate) fn rich(text: &str, limit: usize) -> String {
    let rewritten = rich::rewrite(text);
    let reads = units(&rewritten) <= limit && !rewritten.trim().is_empty();
    if reads { rewritten } else { text.to_owned() }
}

/// A text that shows its characters, whatever Discord would make of them; within `limit` UTF-16 units where the text
/// itself is.
pub(crate) fn to_plain_text(text: &str, limit: usize) -> String {
    let escaped = plain::escape(text);
    if units(&escaped) <= limit {
        return escaped;
    }
    // Code shows its characters too, and costs no more for many of them.
    let code = format!("```\n{text}\n```");
    if !text.contains("```") && units(&code) <= limit { code } else { text.to_owned() }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

#[cfg(test)]
mod tests;
