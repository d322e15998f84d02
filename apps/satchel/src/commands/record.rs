//! A turn as JSON: what was said, which files, and what became of each part. Scripts depend on this shape.

use satchel_domain::{Attachment, AttachmentId, Part, PartState, RefusedFile};
use satchel_ports::ledger::TurnRecord;
use serde_json::{Value, json};

/// The version of the shape; it grows when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// Writes a turn down.
#[must_use]
pub fn as_json(record: &TurnRecord) -> Value {
    let response = record.response.clone().unwrap_or_default();
    json!({
        "version": VERSION,
        "turn": record.id,
        "conversation": record.conversation,
        "ending": record.ending.as_ref().map(satchel_domain::Ending::name),
        "response": {
            "text": response.text,
            "voice": response.voice,
            "attachments": response.attachments.iter().map(attachment).collect::<Vec<_>>(),
        },
        "parts": record.parts.iter().map(part).collect::<Vec<_>>(),
        "refused": record.refused.iter().map(refused).collect::<Vec<_>>(),
    })
}

/// Writes a file's record down.
#[must_use]
pub fn attachment(attachment: &Attachment) -> Value {
    let Attachment { id, number, filename, mime, bytes, sha256, description, visibility, .. } = attachment;
    json!({
        "id": id, "number": number, "filename": filename, "mime": mime, "bytes": bytes, "sha256": sha256,
        "description": description, "visibility": visibility,
    })
}

fn part(part: &Part) -> Value {
    let files: Vec<AttachmentId> = part.content.files().iter().map(|item| item.attachment.id).collect();
    // At the terminal a file's message is the path that it was written to.
    let path = match (&part.state, part.content.files()) {
        (PartState::Sent { messages }, [_, ..]) => messages.first(),
        _ => None,
    };
    let reason = match &part.state {
        PartState::Failed { reason } => Some(reason.to_string()),
        PartState::Waiting { reason, .. } | PartState::InDoubt { reason, .. } => Some(reason.clone()),
        _ => None,
    };
    json!({
        "id": part.id, "kind": part.content.kind(), "state": part.state.name(), "attachments": files, "path": path,
        "reason": reason,
    })
}

fn refused(file: &RefusedFile) -> Value {
    json!({ "filename": file.filename, "bytes": file.bytes, "reason": file.reason })
}
