//! Markdown that is read alike wherever it stands.

/// Characters so that each stands for itself, also at the beginning of a line.
pub(super) fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    let first = text.trim_start().len();
    for (at, c) in text.char_indices() {
        let begins_line = text.len() - at == first;
        match c {
            // A backslash before a mark would be read as one that escapes it.
            '\\' => escaped.push_str("&#92;"),
            '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '$' | '!' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '&' => escaped.push_str("&amp;"),
            '-' | '+' | '=' | ':' if begins_line => {
                escaped.push('\\');
                escaped.push(c);
            }
            '.' | ')' if is_number(&text[text.len() - first..at]) => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The address of a link as it is written between parentheses.
pub(super) fn address_markdown(address: &str) -> String {
    let is_plain = !address.is_empty()
        && !address
            .contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '(' | ')' | '<' | '>' | '\\' | '&'));
    if is_plain {
        return address.to_owned();
    }
    let mut written = String::from("<");
    for c in address.chars() {
        match c {
            '<' | '>' | '\\' => {
                written.push('\\');
                written.push(c);
            }
            '&' => written.push_str("&amp;"),
            '\n' | '\r' => written.push(' '),
            c => written.push(c),
        }
    }
    written.push('>');
    written
}

#[cfg(test)]
mod tests {
    use satchel_markup::{BlockKind, Document, InlineKind, plain_text};

    use super::*;

    #[test]
    fn escaped_characters_stand_for_themselves() {
        for text in
            ["*a* _b_ `c`", "- x", "1. y", "# h", "a\\b \\* c", "$x$", "&amp;", "[a](b)", "> q", "||s||", "<br>", "= "]
        {
            let escaped = escape_text(text);
            let document = Document::parse(&escaped);
            let BlockKind::Paragraph(content) = &document.blocks[0].kind else { panic!("{escaped:?} is no paragraph") };
            assert_eq!(plain_text(content), text.trim(), "{escaped:?}");
            assert!(content.iter().all(|inline| matches!(inline.kind, InlineKind::Text(_))), "{escaped:?}");
        }
    }

    #[test]
    fn addresses_are_read_as_they_were() {
        for address in ["https://a.example/x", "a b", "x(y", "a>b", "a&amp;b", ""] {
            let text = format!("[x]({})", address_markdown(address));
            let document = Document::parse(&text);
            let BlockKind::Paragraph(content) = &document.blocks[0].kind else { panic!("{text:?} is no paragraph") };
            let InlineKind::Link { address: read, .. } = &content[0].kind else { panic!("{text:?} is no link") };
            assert_eq!(read, address);
        }
    }
}
