//! Rows as a database has them, and how they become the domain's types.

use std::{collections::BTreeMap, num::NonZeroU64};

use satchel_domain::{
    Attachment, AttachmentId, CallId, ChannelName, ConversationId, FileReference, InboundMessage, InboxId,
    LinkRevocation, MediaInfo, MessageRef, Part, PartContent, PartId, PartState, RefusedFile, Sha256, Timestamp,
    TurnId,
    part::{CallQuestion, Operation},
};
use satchel_ports::ledger::{InboundFileState, QueuedMessage, Transcription};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::stored::{AttachmentRecords, AttachmentRef, Result, StoredError};

/// The row of a part.
#[derive(Debug)]
pub struct PartFields {
    pub id: Uuid,
    pub conversation: String,
    pub turn: Uuid,
    pub turn_sequence: i64,
    pub position: i64,
    /// `None` for a deletion.
    pub content: Option<PartContent<AttachmentRef>>,
    pub state: PartState,
    pub settled: bool,
    pub draft: bool,
    pub attempts: i64,
    pub first_attempt_at: Option<i64>,
    pub streamed: bool,
    pub searched: bool,
    pub labelled: bool,
    pub labelled_sends: i64,
    pub target: Option<String>,
    pub reply_to: Option<String>,
    pub call: Option<i64>,
    pub unanswered: Option<String>,
    pub closing: Option<String>,
    pub created_at: i64,
}

impl PartFields {
    fn question(&self) -> Result<Option<CallQuestion>> {
        let Some(call) = self.call else { return Ok(None) };
        Ok(Some(CallQuestion {
            call: CallId { turn: TurnId(self.turn), ordinal: number(call, "ordinal of a call")? },
            unanswered: self.unanswered.clone().unwrap_or_default(),
            closing: self.closing.clone(),
        }))
    }

    /// The ids of its files.
    pub fn files(&self) -> impl Iterator<Item = AttachmentId> {
        self.content.iter().flat_map(PartContent::files).map(|item| item.attachment.id)
    }

    /// The part, with the records of its files.
    pub fn into_part(self, records: &AttachmentRecords) -> Result<Part> {
        let question = self.question()?;
        let message = self.target.map(MessageRef);
        let operation = match (self.content, message) {
            (Some(content), message) => Operation::show(content.try_map_files(|file| records.resolve(file))?, message),
            (None, Some(message)) => Operation::Delete { message },
            (None, None) => return Err(StoredError::Invalid { what: "part without content" }),
        };
        Ok(Part {
            id: PartId(self.id),
            conversation: conversation(&self.conversation)?,
            turn: TurnId(self.turn),
            position: number(self.position, "position")?,
            operation,
            state: self.state,
            attempts: number(self.attempts, "number of attempts")?,
            first_attempt_at: self.first_attempt_at.map(Timestamp),
            streamed: self.streamed,
            searched: self.searched,
            labelled: self.labelled,
            labelled_sends: number(self.labelled_sends, "number of labelled sends")?,
            reply_to: self.reply_to.map(MessageRef),
            question,
            created_at: Timestamp(self.created_at),
        })
    }
}

/// A message joined with one of its files; a message without files is one row without a file.
#[derive(Debug)]
pub struct MessageFields {
    pub id: Uuid,
    pub turn: Uuid,
    /// The turn that consumed it, or will.
    pub answered_in: Uuid,
    pub conversation: String,
    /// Its conversation is that of the row, whatever it says: the conversation may have been renamed.
    pub message: Map<String, Value>,
    pub received_at: i64,
    /// That its sender has chosen.
    pub timezone: Option<String>,
    pub file_state: Option<String>,
    pub reference: Option<FileReference>,
    pub attachment: Option<Uuid>,
    pub refused: Option<RefusedFile>,
    pub file_position: Option<i64>,
    pub transcription: Option<Transcription>,
}

impl MessageFields {
    /// The id of its file, once that is stored.
    pub fn file(&self) -> Option<AttachmentId> {
        self.attachment.map(AttachmentId)
    }
}

/// Gathers the rows of each message, which follow one another, with the records of their files.
pub fn messages(
    rows: impl IntoIterator<Item = MessageFields>,
    records: &AttachmentRecords,
) -> Result<Vec<QueuedMessage>> {
    let mut messages: Vec<QueuedMessage> = Vec::new();
    for row in rows {
        let file = match row.file_state.as_deref() {
            None => None,
            Some("waiting") => row.reference.map(InboundFileState::Waiting),
            Some("stored") => {
                let file = row.attachment.map(AttachmentId).ok_or(StoredError::Invalid { what: "stored file" })?;
                Some(InboundFileState::Stored(records.resolve(file.into())?))
            }
            Some("refused") => row.refused.map(InboundFileState::Refused),
            Some(_) => return Err(StoredError::Invalid { what: "file's state" }),
        };
        if row.id != messages.last().map_or(Uuid::nil(), |last| last.id.0) {
            messages.push(QueuedMessage {
                id: InboxId(row.id),
                turn: TurnId(row.turn),
                message: InboundMessage { timezone: row.timezone, ..inbound_message(row.message, row.conversation)? },
                files: Vec::new(),
                transcriptions: BTreeMap::new(),
                received_at: Timestamp(row.received_at),
            });
        }
        let message = messages.last_mut().expect("a message was pushed for the first row");
        message.files.extend(file);
        if let (Some(position), Some(transcription)) = (row.file_position, row.transcription) {
            message.transcriptions.insert(number(position, "place of a file")?, transcription);
        }
    }
    Ok(messages)
}

fn inbound_message(mut fields: Map<String, Value>, conversation: String) -> Result<InboundMessage> {
    fields.insert("conversation".to_owned(), conversation.into());
    serde_json::from_value(fields.into()).map_err(|_| StoredError::Invalid { what: "message" })
}

/// The row of a file's record.
#[derive(Debug)]
pub struct AttachmentFields {
    pub id: Uuid,
    pub conversation: String,
    pub number: i64,
    pub source: String,
    pub filename: String,
    pub mime: String,
    pub bytes: i64,
    pub sha256: [u8; 32],
    pub media: MediaInfo,
    pub description: String,
    pub visibility: String,
    pub created_at: i64,
    pub link_revocations: i64,
}

impl AttachmentFields {
    pub fn into_attachment(self) -> Result<Attachment> {
        Ok(Attachment {
            id: AttachmentId(self.id),
            number: attachment_number(self.number)?,
            conversation: conversation(&self.conversation)?,
            source: from_text(self.source, "source of a file")?,
            filename: from_text(self.filename, "name of a file")?,
            mime: self.mime,
            bytes: number(self.bytes, "size of a file")?,
            sha256: Sha256(self.sha256),
            media: self.media,
            description: self.description,
            created_at: Timestamp(self.created_at),
            visibility: from_text(self.visibility, "visibility of a file")?,
            link_revocation: link_revocation(self.link_revocations)?,
        })
    }
}

/// The last revocation of the links to a file, of which there were so many, as the file's record has it.
pub fn link_revocation(count: i64) -> Result<Option<LinkRevocation>> {
    let count: u32 = number(count, "count of revocations")?;
    Ok((count > 0).then_some(LinkRevocation { count, planned_count: count }))
}

pub fn conversation(text: &str) -> Result<ConversationId> {
    text.parse().map_err(|_| StoredError::Invalid { what: "conversation" })
}

pub fn channel(text: String) -> Result<ChannelName> {
    ChannelName::new(text).map_err(|_| StoredError::Invalid { what: "channel" })
}

pub fn attachment_number(value: i64) -> Result<NonZeroU64> {
    let number: Option<NonZeroU64> = u64::try_from(value).ok().and_then(NonZeroU64::new);
    number.ok_or(StoredError::Invalid { what: "number of an attachment" })
}

/// A value that is stored as its word, such as a file's source.
pub fn from_text<T: DeserializeOwned>(text: String, what: &'static str) -> Result<T> {
    serde_json::from_value(Value::String(text)).map_err(|_| StoredError::Invalid { what })
}

pub fn number<T: TryFrom<i64>>(value: i64, what: &'static str) -> Result<T> {
    T::try_from(value).map_err(|_| StoredError::Invalid { what })
}

/// A number of bytes as the database has it.
pub fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
