//! What becomes of a file's description: a caption, a text before the file, or its alternative text.

use satchel_domain::{
    ChannelCapabilities, PartContent,
    capabilities::CaptionRule,
    part::{FileItem, Markup},
};

use super::{reserve_label, reserve_units, truncate_to_units};
use crate::split::{split_plain, units};

/// The file with its caption, and the texts that go before it because they are too long for one.
///
/// A description is words about a file and no Markdown, so these texts are plain.
pub(super) fn with_caption(mut item: FileItem, capabilities: &ChannelCapabilities) -> (Vec<PartContent>, FileItem) {
    let description = item.attachment.description.trim();
    match capabilities.caption {
        CaptionRule::Caption { max } if units(description, capabilities.text.unit) <= reserve_units(max) => {
            item.caption = description.to_owned();
        }
        CaptionRule::Caption { .. } => {
            let chunks = split_plain(description, &reserve_label(&capabilities.text));
            let plain = |text| PartContent::Text { text, markup: Markup::Plain, files: Vec::new() };
            return (chunks.into_iter().map(plain).collect(), item);
        }
        CaptionRule::AltText { max } if max >= 3 => {
            item.caption = truncate_to_units(description, reserve_units(max), &capabilities.text);
        }
        CaptionRule::AltText { .. } | CaptionRule::Hidden => {}
    }
    (Vec::new(), item)
}
