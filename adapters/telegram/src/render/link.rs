//! Which addresses become links, and how the others are shown.

/// Returns the address if Telegram accepts it as a link. Other schemes would be silently dropped there, or should not
/// be opened.
pub(super) fn link_target(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let is_supported = ["http", "https", "tg"].iter().any(|supported| scheme.eq_ignore_ascii_case(supported));
    let is_well_formed = !rest.is_empty() && !address.chars().any(|c| c.is_whitespace() || c.is_control());
    (is_supported && is_well_formed).then(|| address.to_owned())
}

/// Returns an address that can't be a link as text; `None` if the link's text shows it already. Telegram detects mail
/// addresses in plain text by itself.
pub(super) fn address_text(address: &str, link_text: &str) -> Option<String> {
    let visible = address.strip_prefix("mailto:").unwrap_or(address).trim();
    (!visible.is_empty() && visible != link_text.trim()).then(|| format!(" ({visible})"))
}
