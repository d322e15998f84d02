//! Markdown as Discord shows it, and plain text escaped so that Discord shows it literally.
//!
//! Discord parses most Markdown itself, so only what it would render differently or not at all is rewritten. The
//! replacement can be longer than what was measured when the text was split; then the text is sent unchanged.

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
    let escaped = escape_markup(text);
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

/// Puts a backslash before every character that Discord would interpret as markup. URLs stay unchanged: a backslash
/// would become part of them.
fn escape_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let (indent, rest) = line.split_at(line.len() - trimmed.len());
        escaped.push_str(indent);
        let rest = escape_line_start(rest, &mut escaped);
        for word in rest.split_inclusive(char::is_whitespace) {
            if is_address(word) {
                escaped.push_str(word);
            } else {
                word.chars().for_each(|c| {
                    if "\\*_~`|[<".contains(c) {
                        escaped.push('\\');
                    }
                    escaped.push(c);
                });
            }
        }
    }
    escaped
}

/// Whether a word is a URL, which Discord turns into a link.
fn is_address(word: &str) -> bool {
    word.contains("://")
}

/// Escapes markup that counts only at the start of a line. Returns the rest of the line.
fn escape_line_start<'line>(line: &'line str, escaped: &mut String) -> &'line str {
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let is_number = digits > 0 && line[digits..].starts_with(". ");
    let mark = if is_number { digits } else { 0 };
    if is_number || line.starts_with(['#', '>', '-', '+']) {
        let (before, rest_from_mark) = line.split_at(mark);
        let (mark, rest) = rest_from_mark.split_at(1);
        escaped.extend([before, "\\", mark]);
        return rest;
    }
    line
}

#[cfg(test)]
mod tests;
