//! A file as it is sent: as what it is where the platform takes it so and as a document otherwise, and what becomes of
//! its description: a caption, a text before the file, or its alternative text.

use satchel_domain::{
    Attachment, ChannelCapabilities, PartContent,
    capabilities::{CaptionRule, PhotoRule},
    part::{FileForm, FileItem, Markup},
};

use super::{reserve_label, reserve_units, truncate_to_units};
use crate::split::{split_plain, units};

/// The file in its form, its caption still to be set.
pub(super) fn file_item(attachment: &Attachment, capabilities: &ChannelCapabilities) -> FileItem {
    FileItem { attachment: attachment.clone(), form: choose_form(attachment, capabilities), caption: String::new() }
}

fn choose_form(attachment: &Attachment, capabilities: &ChannelCapabilities) -> FileForm {
    match attachment.mime.as_str() {
        "image/jpeg" | "image/png" | "image/webp"
            if capabilities.photo.is_some_and(|rule| is_photo(attachment, rule)) =>
        {
            FileForm::Photo
        }
        "image/gif" if capabilities.native_media && attachment.media.animated => FileForm::Animation,
        "video/mp4" if capabilities.native_media => FileForm::Video,
        // The types that platforms play: Telegram's sendAudio takes MP3 and M4A alone.
        "audio/mpeg" | "audio/mp4" | "audio/m4a" | "audio/x-m4a" if capabilities.native_media => FileForm::Audio,
        _ => FileForm::Document,
    }
}

/// Whether the platform takes an image as a photo. One of unknown dimensions might be refused and is none.
fn is_photo(attachment: &Attachment, rule: PhotoRule) -> bool {
    let (Some(width @ 1..), Some(height @ 1..)) = (attachment.media.width, attachment.media.height) else {
        return false;
    };
    let (long, short) = (u64::from(width.max(height)), u64::from(width.min(height)));
    !attachment.media.animated
        && attachment.bytes <= rule.max_bytes
        && long + short <= u64::from(rule.max_side_sum)
        && long <= short * u64::from(rule.max_ratio)
}

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
