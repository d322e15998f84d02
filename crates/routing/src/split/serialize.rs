//! Markdown that is read alike wherever it stands.

use satchel_domain::markdown::escape;

/// Characters so that each stands for itself, also at the beginning of a line.
pub(super) fn escape_text(text: &str) -> String {
    let escaped = escape(text);
    let line = escaped.trim_start();
    let indent = escaped.len() - line.len();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    // An item, or the line below a heading.
    let mark = match line.as_bytes().get(digits) {
        Some(b'-' | b'+' | b'=') if digits == 0 => indent,
        Some(b'.' | b')') if (1..10).contains(&digits) => indent + digits,
        _ => return escaped,
    };
    format!("{}\\{}", &escaped[..mark], &escaped[mark..])
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
