//! What becomes of a file's description: a caption, a text before the file, or its alternative text.

use satchel_domain::{
    ChannelCapabilities, PartContent,
    capabilities::CaptionRule,
    part::{FileItem, Markup},
};

use super::{beginning, keep_room, with_room_for_the_label};
use crate::split::{split_plain, units};

/// The file with its caption, and the texts that go before it because they are too long for one.
///
/// A description is words about a file and no Markdown, so these texts are plain.
pub(super) fn with_caption(mut item: FileItem, capabilities: &ChannelCapabilities) -> (Vec<PartContent>, FileItem) {
    let description = item.attachment.description.trim();
    match capabilities.caption {
        CaptionRule::Caption { max } if units(description, capabilities.text.unit) <= keep_room(max) => {
            item.caption = description.to_owned();
        }
        CaptionRule::Caption { .. } => {
            let chunks = split_plain(description, &with_room_for_the_label(&capabilities.text));
            let plain = |text| PartContent::Text { text, markup: Markup::Plain, files: Vec::new() };
            return (chunks.into_iter().map(plain).collect(), item);
        }
        CaptionRule::AltText { max } if max >= 3 => {
            item.caption = beginning(description, keep_room(max), &capabilities.text);
        }
        CaptionRule::AltText { .. } | CaptionRule::Hidden => {}
    }
    (Vec::new(), item)
}
