//! Shows what the ledger has recorded in the shapes of the API.

use satchel_domain::{
    Attachment, ConversationId, PartContent, PartState, TurnId,
    filename::Filename,
    part::{FileItem, Markup, Part, PreparedVoice},
};
use satchel_ports::ledger::{InboundFileState, QueuedMessage, TurnRecord};

use crate::{
    markdown,
    wire::{self, Inline, MessageFileState, TurnState},
};

/// Shows turns as they stand in a conversation, oldest first.
pub(crate) fn turns(records: &[TurnRecord]) -> Vec<wire::Turn> {
    let next = records.iter().find(|record| record.ending.is_none()).map(|record| record.id);
    records.iter().map(|record| turn(record, next)).collect()
}

/// Shows a turn. `next` is the one that is being answered, or will be first.
pub(crate) fn turn(record: &TurnRecord, next: Option<TurnId>) -> wire::Turn {
    let state = match &record.ending {
        Some(_) => TurnState::Done,
        None if next == Some(record.id) => TurnState::Running,
        None => TurnState::Waiting,
    };
    wire::Turn {
        id: record.id.to_string(),
        state,
        ending: record.ending.as_ref().map(|ending| ending.as_str().to_owned()),
        messages: record.messages.iter().map(message).collect(),
        parts: record.parts.iter().filter_map(part).collect(),
    }
}

/// Whether nothing of a turn will change any more.
pub(crate) fn is_over(record: &TurnRecord) -> bool {
    record.ending.is_some() && record.parts.iter().all(|part| part.state.is_settled())
}

fn message(queued: &QueuedMessage) -> wire::Message {
    wire::Message {
        id: queued.id.to_string(),
        text: queued.message.text.clone(),
        sender: queued.message.sender.name.clone(),
        received_at: queued.received_at.0,
        files: queued.files.iter().map(message_file).collect(),
    }
}

fn message_file(known: &InboundFileState) -> wire::MessageFile {
    let (state, filename, bytes, reason, kept) = match known {
        InboundFileState::Waiting(reference) => {
            (MessageFileState::Waiting, &reference.filename, reference.bytes, None, None)
        }
        InboundFileState::Stored(attachment) => {
            (MessageFileState::Stored, &attachment.filename, Some(attachment.bytes), None, Some(file(attachment)))
        }
        InboundFileState::Refused(refused) => {
            (MessageFileState::Refused, &refused.filename, refused.bytes, Some(refused.reason.clone()), None)
        }
    };
    wire::MessageFile { state, filename: filename.to_string(), bytes, reason, file: kept }
}

fn part(part: &Part) -> Option<wire::Part> {
    let reason = match &part.state {
        PartState::Replaced { .. } => return None,
        PartState::Failed { reason } => Some(reason.to_string()),
        PartState::Waiting { reason, .. } | PartState::InDoubt { reason, .. } => Some(reason.clone()),
        PartState::Pending | PartState::Sending | PartState::Sent { .. } => None,
    };
    let (text, html) = match &part.content {
        PartContent::Text { text, markup: Markup::Rich, .. }
        | PartContent::Notice { text }
        | PartContent::Question { text, .. } => (Some(text), Some(markdown::html(text))),
        PartContent::Text { text, markup: Markup::Plain, .. } => (Some(text), Some(markdown::escape_text(text))),
        PartContent::Voice { words, .. } => (Some(words), Some(markdown::escape_text(words))),
        PartContent::File(_) | PartContent::Album { .. } => (None, None),
        PartContent::Withdraw => return None,
    };
    let files = match &part.content {
        PartContent::Voice { prepared: Some(voice), .. } => vec![voice_file(part, voice)],
        content => content.files().iter().map(|item| file(&item.attachment)).collect(),
    };
    let failed = matches!(part.state, PartState::Failed { .. });
    Some(wire::Part {
        id: part.id.to_string(),
        kind: part.content.kind().to_owned(),
        state: part.state.as_str().to_owned(),
        reason,
        html,
        text: text.cloned(),
        files,
        resend: failed.then(|| resend(part.content.files())).flatten(),
        at: part.created_at.0,
    })
}

/// The command that sends the files again.
fn resend(files: &[FileItem]) -> Option<String> {
    let numbers: Vec<String> = files.iter().map(|item| item.attachment.number.to_string()).collect();
    (!numbers.is_empty()).then(|| format!("/resend {}", numbers.join(" ")))
}

pub(crate) fn file(attachment: &Attachment) -> wire::File {
    wire::File {
        id: attachment.id.to_string(),
        number: attachment.number,
        filename: attachment.filename.to_string(),
        mime: attachment.mime.clone(),
        bytes: attachment.bytes,
        sha256: attachment.sha256.to_string(),
        description: attachment.description.clone(),
        width: attachment.media.width,
        height: attachment.media.height,
        duration_ms: attachment.media.duration_ms,
        inline: inline(&attachment.mime),
        url: format!("{}/files/{}", path(&attachment.conversation), attachment.id),
        forgotten: attachment.is_forgotten(),
    }
}

fn voice_file(part: &Part, voice: &PreparedVoice) -> wire::File {
    wire::File {
        id: part.id.to_string(),
        number: 0,
        filename: voice_name(part).to_string(),
        mime: VOICE.to_owned(),
        bytes: voice.bytes,
        sha256: voice.sha256.to_string(),
        description: String::new(),
        width: None,
        height: None,
        duration_ms: Some(voice.duration_ms),
        inline: Inline::Audio,
        url: format!("{}/voices/{}", path(&part.conversation), part.id),
        forgotten: false,
    }
}

/// The type of every prepared voice.
pub(crate) const VOICE: &str = "audio/ogg";

/// What a voice is called when it is downloaded.
pub(crate) fn voice_name(part: &Part) -> Filename {
    Filename::from_untrusted(&format!("voice-{}.ogg", part.id))
}

/// Where a conversation is in the API.
pub(crate) fn path(conversation: &ConversationId) -> String {
    format!("/api/conversations/{}", conversation.key())
}

/// How files of a type may be shown. What could run as a page or hold one, such as SVG, is a card like everything that
/// isn't named here.
pub(crate) fn inline(mime: &str) -> Inline {
    match mime {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" | "image/avif" | "image/apng" => Inline::Image,
        "audio/mpeg" | "audio/mp4" | "audio/x-m4a" | "audio/aac" | "audio/ogg" | "audio/opus" | "audio/flac"
        | "audio/wav" | "audio/webm" => Inline::Audio,
        "video/mp4" | "video/webm" | "video/ogg" | "video/quicktime" | "video/x-m4v" => Inline::Video,
        _ => Inline::None,
    }
}

#[cfg(test)]
mod tests;
