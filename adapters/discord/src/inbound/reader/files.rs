//! The files of a message, with the names that people gave them. Pure.

use satchel_domain::{FileReference, Filename};

use crate::inbound::wire::{Attachment, FileLocator, Message, MessageContent, MessageHeader};

/// The flag of a message that is nothing but recorded speech (Message Flags).
const VOICE_MESSAGE: u64 = 1 << 13;

/// The files that a message carries, in the order in which people see them.
pub(super) fn files(message: &Message) -> Vec<FileReference> {
    let Message { head, content } = message;
    let voice_note = content.flags & VOICE_MESSAGE != 0;
    file_references(content, head).map(|file| FileReference { voice_note, ..file }).collect()
}

/// The files of a message that the sender only answers, or passes on with `head`. A voice in them is somebody else's,
/// so that it is a recording like any other and not what the sender has to say.
pub(super) fn files_of_others(content: &MessageContent, head: &MessageHeader) -> Vec<FileReference> {
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
            ..FileReference::new(locator, Filename::from_untrusted(&name(attachment)))
        }
    })
}

/// The name as the person wrote it. Discord replaces what isn't plain in it, and tells the name as it was apart,
/// without its extension.
fn name(attachment: &Attachment) -> String {
    let written = attachment.filename.trim();
    let Some(title) = attachment.title.as_deref().map(str::trim).filter(|title| !title.is_empty()) else {
        return written.to_owned();
    };
    // A slash in a title is no path.
    let title = title.replace(['/', '\\'], "-");
    match written.rsplit_once('.') {
        Some((_, extension)) if !ends_with(&title, extension) => format!("{title}.{extension}"),
        _ => title,
    }
}

fn ends_with(title: &str, extension: &str) -> bool {
    title.rsplit_once('.').is_some_and(|(_, own)| own.eq_ignore_ascii_case(extension))
}
