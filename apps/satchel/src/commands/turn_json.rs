//! A turn as JSON: the response, its files, and the state of each part. Scripts depend on this shape.

use satchel_domain::{
    Attachment, AttachmentId, ConversationId, Ending, Filename, MessageRef, Part, PartId, PartState, RefusedFile,
    Sha256, TurnId, Visibility, VoiceRequest,
};
use satchel_ports::ledger::TurnRecord;
use serde::Serialize;

/// The version of the shape; it is increased when a field changes its meaning or is removed.
const VERSION: u32 = 2;

#[derive(Debug, Serialize)]
pub struct TurnJson<'a> {
    version: u32,
    turn: TurnId,
    conversation: &'a ConversationId,
    ending: Option<&'static str>,
    response: ResponseJson<'a>,
    parts: Vec<PartJson<'a>>,
    refused: Vec<RefusedFileJson<'a>>,
}

#[derive(Debug, Serialize)]
struct ResponseJson<'a> {
    text: Option<&'a str>,
    voice: Option<&'a VoiceRequest>,
    attachments: Vec<AttachmentJson<'a>>,
}

/// A file of the response.
#[derive(Debug, Serialize)]
pub(super) struct AttachmentJson<'a> {
    id: AttachmentId,
    number: u64,
    filename: &'a Filename,
    mime: &'a str,
    bytes: u64,
    sha256: Sha256,
    description: &'a str,
    visibility: Visibility,
}

#[derive(Debug, Serialize)]
struct PartJson<'a> {
    id: PartId,
    operation: &'static str,
    kind: &'static str,
    state: &'static str,
    attachments: Vec<AttachmentId>,
    path: Option<&'a MessageRef>,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct RefusedFileJson<'a> {
    filename: &'a Filename,
    bytes: Option<u64>,
    reason: &'a str,
}

impl<'a> From<&'a TurnRecord> for TurnJson<'a> {
    fn from(record: &'a TurnRecord) -> Self {
        let response = record.response.as_ref();
        Self {
            version: VERSION,
            turn: record.id,
            conversation: &record.conversation,
            ending: record.ending.as_ref().map(Ending::as_str),
            response: ResponseJson {
                text: response.and_then(|response| response.text.as_deref()),
                voice: response.and_then(|response| response.voice.as_ref()),
                attachments: response.iter().flat_map(|response| &response.attachments).map(Into::into).collect(),
            },
            parts: record.parts.iter().map(part_json).collect(),
            refused: record.refused().map(refused_file_json).collect(),
        }
    }
}

impl<'a> From<&'a Attachment> for AttachmentJson<'a> {
    fn from(attachment: &'a Attachment) -> Self {
        Self {
            id: attachment.id,
            number: attachment.number.get(),
            filename: &attachment.filename,
            mime: &attachment.mime,
            bytes: attachment.bytes,
            sha256: attachment.sha256,
            description: &attachment.description,
            visibility: attachment.visibility,
        }
    }
}

fn part_json(part: &Part) -> PartJson<'_> {
    let files = part.operation.files();
    PartJson {
        id: part.id,
        operation: part.operation.as_str(),
        kind: part.operation.kind(),
        state: part.state.as_str(),
        attachments: files.iter().map(|item| item.attachment.id).collect(),
        // In the terminal a file's message reference is the path that it was written to.
        path: match &part.state {
            PartState::Sent { messages } if !files.is_empty() => messages.first(),
            _ => None,
        },
        reason: match &part.state {
            PartState::Failed { reason } => Some(reason.to_string()),
            PartState::Waiting { reason, .. } | PartState::InDoubt { reason, .. } => Some(reason.clone()),
            _ => None,
        },
    }
}

fn refused_file_json(file: &RefusedFile) -> RefusedFileJson<'_> {
    RefusedFileJson { filename: &file.filename, bytes: file.bytes, reason: &file.reason }
}
