//! The characters of a piece of text without its formatting.

use std::borrow::Cow;

use crate::tree::{Inline, InlineKind, TexFormula};

/// What a channel shows of an image without a text.
pub(crate) const IMAGE_TEXT: &str = "image";

/// The characters of a text on one line: code and formulas as they are, line breaks as blanks.
#[must_use]
pub fn plain_text(content: &[Inline<'_>]) -> String {
    let mut text = String::new();
    push_plain(content, &mut text);
    text
}

fn push_plain(content: &[Inline<'_>], text: &mut String) {
    for inline in content {
        match &inline.kind {
            InlineKind::Text(part) | InlineKind::Code(part) => text.push_str(part),
            InlineKind::Address { text: part, .. } => text.push_str(part),
            InlineKind::Emphasis(content)
            | InlineKind::Strong(content)
            | InlineKind::Struck(content)
            | InlineKind::Spoiler(content)
            | InlineKind::Link { content, .. }
            | InlineKind::Image { content, .. } => push_plain(content, text),
            InlineKind::Formula(formula) => text.push_str(&formula.plain_text()),
            InlineKind::Break { .. } => text.push(' '),
            InlineKind::FootnoteReference(label) => {
                text.push('[');
                text.push_str(label);
                text.push(']');
            }
        }
    }
}

/// Whether a text says the same without its formatting: no link and no spoiler is in it.
pub(crate) fn is_plain(content: &[Inline<'_>]) -> bool {
    content.iter().all(|inline| match &inline.kind {
        InlineKind::Link { .. } | InlineKind::Image { .. } | InlineKind::Spoiler(_) => false,
        InlineKind::Emphasis(content) | InlineKind::Strong(content) | InlineKind::Struck(content) => is_plain(content),
        _ => true,
    })
}

impl TexFormula<'_> {
    /// The formula on one line: in plain characters, or else its source, which is shown as code.
    #[must_use]
    pub fn plain_text(&self) -> Cow<'_, str> {
        match &self.unicode {
            Some(unicode) => Cow::Borrowed(unicode),
            None if self.source.contains('\n') => Cow::Owned(self.source.replace('\n', " ")),
            None => Cow::Borrowed(&self.source),
        }
    }
}

/// Where a link leads, as text behind the link for a channel that can't link there; `None` if its text says it already.
#[must_use]
pub fn address_suffix(address: &str, link_text: &str) -> Option<String> {
    let shown = address.strip_prefix("mailto:").unwrap_or(address).trim();
    (!shown.is_empty() && shown != link_text.trim()).then(|| format!(" ({shown})"))
}
