//! Bare addresses in a text.

use std::ops::Range;

use super::characters::is_unspaced;

/// An address that was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundAddress {
    pub(super) range: Range<usize>,
    /// Whether it is one of the web, to which channels link.
    pub(super) is_link: bool,
}

/// The address around the colon at `colon`, not before `start` and not behind `end`. Marks at its end for which `closes`
/// are those of the text around it.
pub(super) fn address_at(
    text: &str,
    colon: usize,
    start: usize,
    end: usize,
    closes: impl Fn(u8) -> bool,
) -> Option<FoundAddress> {
    let rest = text[colon..end].strip_prefix("://")?;
    let scheme = text[start..colon].bytes().rev().take_while(|byte| is_scheme_byte(*byte)).count();
    let begin = colon - scheme;
    let is_in_word = text[start..begin].chars().next_back().is_some_and(|c| c.is_alphanumeric() && !is_unspaced(c));
    if scheme < 2 || is_in_word || !text.as_bytes()[begin].is_ascii_alphabetic() {
        return None;
    }
    let is_end = |c: char| {
        c.is_whitespace()
            || c.is_control()
            || matches!(c, '<' | '>' | '"' | '`' | '|' | '«' | '»' | '“' | '”' | '„' | '‘' | '’')
            || (is_unspaced(c) && !c.is_alphanumeric())
    };
    let length = rest.find(is_end).unwrap_or(rest.len());
    let length = rest[..length].find("](").unwrap_or(length);
    let address = trim_end(&text[begin..colon + 3 + length], closes);
    let is_link = matches!(&text[begin..colon], "http" | "https");
    (address.len() > scheme + 3).then(|| FoundAddress { range: begin..begin + address.len(), is_link })
}

fn is_scheme_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// Removes what belongs to the sentence: trailing punctuation, a bracket that was opened before the address, and marks that
/// close what is open.
fn trim_end(address: &str, closes: impl Fn(u8) -> bool) -> &str {
    // How many of each bracket were opened elsewhere. Counted once, because counting again for each character would be
    // quadratic.
    let mut surplus = [('(', ')'), ('[', ']'), ('{', '}')]
        .map(|(open, close)| (close, address.matches(close).count().saturating_sub(address.matches(open).count())));
    let mut address = address;
    loop {
        let Some(last) = address.chars().next_back() else { return address };
        let is_part_of_address = match surplus.iter_mut().find(|(close, _)| *close == last) {
            Some((_, count)) if *count > 0 => {
                *count -= 1;
                false
            }
            Some(_) => true,
            None if matches!(last, '*' | '_' | '~') => !closes(last as u8),
            None => !matches!(last, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '…' | '\\'),
        };
        if is_part_of_address {
            return address;
        }
        address = &address[..address.len() - last.len_utf8()];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str, open: &str) -> Option<String> {
        let colon = text.find("://").unwrap();
        let found = address_at(text, colon, 0, text.len(), |mark| open.as_bytes().contains(&mark))?;
        Some(text[found.range].to_owned())
    }

    #[test]
    fn addresses_end_where_the_sentence_goes_on() {
        for (text, open, expected) in [
            ("see https://a.example/a_b_c, or", "", Some("https://a.example/a_b_c")),
            ("(http://a.example/x_(y))", "", Some("http://a.example/x_(y)")),
            ("https://git.example/_v1_/a?x=_q_", "", Some("https://git.example/_v1_/a?x=_q_")),
            ("**see https://a.example/c**", "*", Some("https://a.example/c")),
            ("请看https://a.example/路径。然后", "", Some("https://a.example/路径")),
            ("[https://a.example](https://b.example)", "", Some("https://a.example")),
            ("sftp://a.example/x", "", Some("sftp://a.example/x")),
            ("xhttps://", "", None),
            ("://a", "", None),
            ("https://.", "", None),
        ] {
            assert_eq!(address(text, open).as_deref(), expected, "{text}");
        }
    }
}
