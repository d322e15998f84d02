//! Checks the addresses of links, and links bare addresses in text.

use super::escape;

/// The allowed schemes of links; others, such as `javascript:`, stay text.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// Whether a link to an address is allowed.
pub(super) fn is_allowed_address(address: &str) -> bool {
    let has_scheme = |scheme: &str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let is_hidden = |c: char| c.is_control() || c.is_whitespace();
    SCHEMES.iter().any(|scheme| has_scheme(scheme) && address.len() > scheme.len()) && !address.contains(is_hidden)
}

/// Writes the opening tag of a link.
pub(super) fn open_anchor(address: &str, html: &mut String) {
    html.push_str("<a href=\"");
    escape(address, html);
    html.push_str("\" rel=\"noopener noreferrer\" target=\"_blank\">");
}

/// Writes text with links for bare web addresses.
pub(super) fn push_linked_text(text: &str, html: &mut String) {
    let mut rest = text;
    while let Some((start, end)) = next_address(rest) {
        escape(&rest[..start], html);
        open_anchor(&rest[start..end], html);
        escape(&rest[start..end], html);
        html.push_str("</a>");
        rest = &rest[end..];
    }
    escape(rest, html);
}

/// Returns the range of the first address.
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
        let is_end = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '`');
        let end = text[from..].find(is_end).map_or(text.len(), |length| from + length);
        let end = start + trim_punctuation(&text[start..end]).len();
        if end > from {
            return Some((start, end));
        }
    }
    None
}

/// Removes what belongs to the sentence: trailing punctuation, and a bracket that was opened before the address.
fn trim_punctuation(address: &str) -> &str {
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
            None => !matches!(last, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '~' | '…' | '»' | '”'),
        };
        if is_part_of_address {
            return address;
        }
        address = &address[..address.len() - last.len_utf8()];
    }
}
