//! The files of a message, with their original names. Pure.

use satchel_domain::{FileReference, Filename};

use crate::inbound::wire::{Attachment, FileLocator, Message, MessageContent, MessageHeader};

/// The flag of a voice message (Message Flags).
const VOICE_MESSAGE: u64 = 1 << 13;

/// Returns the files of a message, in the order in which people see them.
pub(super) fn message_files(message: &Message) -> Vec<FileReference> {
    let Message { head, content } = message;
    let voice_note = content.flags & VOICE_MESSAGE != 0;
    file_references(content, head).map(|file| FileReference { voice_note, ..file }).collect()
}

/// Returns the files of a message that the sender replies to, or forwards with `head`. A voice message among them is
/// someone else's, so it counts as an audio file and not as the sender's voice note.
pub(super) fn quoted_files(content: &MessageContent, head: &MessageHeader) -> Vec<FileReference> {
    file_references(content, head).collect()
}

fn file_references<'a>(
    content: &'a MessageContent,
    carrier: &'a MessageHeader,
) -> impl Iterator<Item = FileReference> + 'a {
    content.attachments.iter().map(|attachment| {
        let locator = FileLocator {
            url: attachment.url.clone(),
            channel: carrier.channel_id.0,
            message: carrier.id.0,
            attachment: attachment.id.0,
        };
        let locator = serde_json::to_string(&locator).expect("texts and numbers are JSON");
        let mime = attachment.content_type.as_deref().and_then(|mime| mime.split(';').next());
        FileReference {
            mime: mime.map(|mime| mime.trim().to_lowercase()).filter(|mime| !mime.is_empty()),
            bytes: attachment.size,
            source_url: Some(attachment.url.clone()),
            caption: attachment.description.clone().unwrap_or_default(),
            ..FileReference::new(locator, Filename::from_untrusted(&original_name(attachment)))
        }
    })
}

/// Returns the original name of a file. Discord replaces some characters in `filename` and puts the original name into
/// `title`, without its extension.
fn original_name(attachment: &Attachment) -> String {
    let filename = attachment.filename.trim();
    let Some(title) = attachment.title.as_deref().map(str::trim).filter(|title| !title.is_empty()) else {
        return filename.to_owned();
    };
    // A slash in a title doesn't separate directories.
    let title = title.replace(['/', '\\'], "-");
    match filename.rsplit_once('.') {
        Some((_, extension)) if !has_extension(&title, extension) => format!("{title}.{extension}"),
        _ => title,
    }
}

fn has_extension(title: &str, extension: &str) -> bool {
    title.rsplit_once('.').is_some_and(|(_, existing)| existing.eq_ignore_ascii_case(extension))
}
