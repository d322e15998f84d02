//! Which addresses a link may lead to, and those that stand in a text without being marked.

use super::escape;

/// The beginnings of addresses that may be followed; everything else, such as `javascript:`, stays words.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// Whether a link may lead there.
pub(super) fn may_be_followed(address: &str) -> bool {
    let begins = |scheme: &str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let hidden = |c: char| c.is_control() || c.is_whitespace();
    SCHEMES.iter().any(|scheme| begins(scheme) && address.len() > scheme.len()) && !address.contains(hidden)
}

/// Writes the beginning of a link.
pub(super) fn open(address: &str, html: &mut String) {
    html.push_str("<a href=\"");
    escape(address, html);
    html.push_str("\" rel=\"noopener noreferrer\" target=\"_blank\">");
}

/// Writes text in which addresses of the web can be followed.
pub(super) fn with_links(text: &str, html: &mut String) {
    let mut rest = text;
    while let Some((start, end)) = next_address(rest) {
        escape(&rest[..start], html);
        open(&rest[start..end], html);
        escape(&rest[start..end], html);
        html.push_str("</a>");
        rest = &rest[end..];
    }
    escape(rest, html);
}

/// Finds where the first address begins and ends.
fn next_address(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("://") {
        let colon = from + found;
        from = colon + 3;
        let Some(scheme) = ["https", "http"].iter().find(|scheme| text[..colon].ends_with(**scheme)) else { continue };
        let start = colon - scheme.len();
        if text[..start].ends_with(|before: char| before.is_alphanumeric()) {
            continue;
        }
        let stops = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '`');
        let end = text[from..].find(stops).map_or(text.len(), |length| from + length);
        let end = start + without_punctuation(&text[start..end]).len();
        if end > from {
            return Some((start, end));
        }
    }
    None
}

/// Leaves out what belongs to the sentence: signs at the end, and a bracket that was opened before the address.
fn without_punctuation(address: &str) -> &str {
    // How many of each bracket were opened elsewhere. Counted once: counting anew for each sign takes minutes where a
    // million of them stand in a row.
    let mut surplus = [('(', ')'), ('[', ']'), ('{', '}')]
        .map(|(open, close)| (close, address.matches(close).count().saturating_sub(address.matches(open).count())));
    let mut address = address;
    loop {
        let Some(last) = address.chars().next_back() else { return address };
        let belongs = match surplus.iter_mut().find(|(close, _)| *close == last) {
            Some((_, more)) if *more > 0 => {
                *more -= 1;
                false
            }
            Some(_) => true,
            None => !matches!(last, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '~' | '…' | '»' | '”'),
        };
        if belongs {
            return address;
        }
        address = &address[..address.len() - last.len_utf8()];
    }
}
