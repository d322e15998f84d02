//! Checks the addresses of links, and writes their tags.

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
