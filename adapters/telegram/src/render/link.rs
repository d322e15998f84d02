//! Which addresses become links, and how the others are shown.

/// The address as Telegram takes it for a link; any other scheme would silently be dropped there, or is none of a
/// stranger's business.
pub(super) fn linkable(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let known = ["http", "https", "tg"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let plain = !rest.is_empty() && !address.chars().any(|c| c.is_whitespace() || c.is_control());
    (known && plain).then(|| address.to_owned())
}

/// An address that can't be a link, in words; `None` where the words say it already. Telegram finds mail addresses in
/// plain text by itself.
pub(super) fn address_text(address: &str, words: &str) -> Option<String> {
    let shown = address.strip_prefix("mailto:").unwrap_or(address).trim();
    (!shown.is_empty() && shown != words.trim()).then(|| format!(" ({shown})"))
}
