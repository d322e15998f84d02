//! Text in which nothing is markup, for Discord.

use super::grammar;

/// Puts a backslash before every character that Discord would interpret as markup. URLs stay unchanged: a backslash
/// would become part of them.
pub(super) fn escape_markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + text.len() / 16);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let (indent, rest) = line.split_at(line.len() - trimmed.len());
        escaped.push_str(indent);
        escape_characters(escape_line_start(rest, &mut escaped), &mut escaped);
    }
    escaped
}

fn escape_characters(line: &str, escaped: &mut String) {
    let mut colons = Vec::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let angle = rest.strip_prefix('<').filter(|inside| grammar::address_length(inside).is_some());
        let length = match angle.and_then(|inside| inside.find(['>', ' '])) {
            Some(end) if rest[1 + end..].starts_with('>') => Some(end + 2),
            _ => grammar::address_length(rest),
        };
        let (piece, behind) = rest.split_at(length.unwrap_or(c.len_utf8()));
        if length.is_none() && "\\*_~`|[<".contains(c) {
            escaped.push('\\');
        }
        if length.is_none() && c == ':' {
            colons.push(escaped.len());
        }
        escaped.push_str(piece);
        rest = behind;
    }
    // From the end, because a backslash before a colon is in the name that the colon before it begins.
    for at in colons.into_iter().rev() {
        if grammar::begins_markup(&escaped[at..]) {
            escaped.insert(at, '\\');
        }
    }
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
