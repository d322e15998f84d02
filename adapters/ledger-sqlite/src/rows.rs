//! Rows as the database has them, and how they become the domain's types.

use std::{collections::BTreeMap, num::NonZeroU64};

use satchel_domain::{
    AttachmentId, CallId, ChannelName, ConversationId, FileReference, InboundMessage, InboxId, MessageRef, Part,
    PartContent, PartId, PartState, RefusedFile, Timestamp, TurnId,
    part::{CallQuestion, Operation},
};
use satchel_ledger::LaneState;
use satchel_ports::ledger::{HolderId, InboundFileState, QueuedMessage, Transcription};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    attachments::{AttachmentRef, Records},
    error::{Error, Result},
    session::Session,
};

/// The columns of [`PartRow`], followed by the rest of the statement.
macro_rules! select_part {
    ($($rest:expr),+) => {
        concat!(
            "SELECT id, conversation, turn, turn_sequence, position, content, state_detail, settled, draft, ",
            "attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, target, reply_to, call, ",
            "unanswered, closing, created_at ",
            "FROM parts ",
            $($rest),+
        )
    };
}
pub(crate) use select_part;

#[derive(Debug, sqlx::FromRow)]
pub(crate) struct PartRow {
    pub(crate) id: Uuid,
    pub(crate) conversation: String,
    pub(crate) turn: Uuid,
    pub(crate) turn_sequence: i64,
    pub(crate) position: i64,
    /// `null` for a deletion.
    pub(crate) content: Json<Option<PartContent<AttachmentRef>>>,
    pub(crate) state_detail: Json<PartState>,
    pub(crate) settled: bool,
    pub(crate) draft: bool,
    pub(crate) attempts: i64,
    pub(crate) first_attempt_at: Option<i64>,
    pub(crate) streamed: bool,
    pub(crate) searched: bool,
    pub(crate) labelled: bool,
    pub(crate) labelled_sends: i64,
    pub(crate) target: Option<String>,
    pub(crate) reply_to: Option<String>,
    pub(crate) call: Option<i64>,
    pub(crate) unanswered: Option<String>,
    pub(crate) closing: Option<String>,
    pub(crate) created_at: i64,
}

impl PartRow {
    fn question(&self) -> Result<Option<CallQuestion>> {
        let Some(call) = self.call else { return Ok(None) };
        Ok(Some(CallQuestion {
            call: CallId { turn: TurnId(self.turn), ordinal: number(call, "ordinal of a call")? },
            unanswered: self.unanswered.clone().unwrap_or_default(),
            closing: self.closing.clone(),
        }))
    }

    /// The ids of its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = AttachmentId> {
        self.content.0.iter().flat_map(PartContent::files).map(|item| item.attachment.id)
    }

    /// The part, with the records of its files.
    pub(crate) fn into_part(self, records: &Records) -> Result<Part> {
        let question = self.question()?;
        let message = self.target.map(MessageRef);
        let operation = match (self.content.0, message) {
            (Some(content), message) => Operation::show(content.try_map_files(|file| records.resolve(file))?, message),
            (None, Some(message)) => Operation::Delete { message },
            (None, None) => return Err(Error::Row { what: "part without content" }),
        };
        Ok(Part {
            id: PartId(self.id),
            conversation: conversation(&self.conversation)?,
            turn: TurnId(self.turn),
            position: number(self.position, "position")?,
            operation,
            state: self.state_detail.0,
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

/// The parts of some rows, with the records of their files.
pub(crate) async fn parts(session: &mut Session<'_>, rows: impl IntoIterator<Item = PartRow>) -> Result<Vec<Part>> {
    let rows: Vec<PartRow> = rows.into_iter().collect();
    let records = Records::read(session, rows.iter().flat_map(PartRow::files).collect()).await?;
    rows.into_iter().map(|row| row.into_part(&records)).collect()
}

/// The part of a row, if there is one.
pub(crate) async fn part(session: &mut Session<'_>, row: Option<PartRow>) -> Result<Option<Part>> {
    Ok(parts(session, row).await?.pop())
}

#[derive(Debug, sqlx::FromRow)]
pub(crate) struct LaneRow {
    pub(crate) holder: Option<Uuid>,
    pub(crate) token: i64,
    pub(crate) expires_at: i64,
    /// Whether every reply is spoken too.
    pub(crate) voice: bool,
}

impl LaneRow {
    pub(crate) fn state(&self) -> LaneState {
        LaneState {
            holder: self.holder.map(HolderId),
            token: self.token.cast_unsigned(),
            expires_at: Timestamp(self.expires_at),
        }
    }
}

/// The columns of [`MessageRow`], followed by the rest of the statement.
macro_rules! select_messages {
    ($($rest:expr),+) => {
        concat!(
            "SELECT inbox.id, inbox.turn, COALESCE(inbox.consumed_by, inbox.turn) AS answered_in, ",
            "inbox.conversation, inbox.message, inbox.received_at, inbox_files.state AS file_state, ",
            "inbox_files.reference, inbox_files.attachment, inbox_files.refused, inbox_files.position AS file_position, ",
            "inbox_files.transcription FROM inbox ",
            "LEFT JOIN inbox_files ON inbox_files.message = inbox.sequence ",
            $($rest),+
        )
    };
}
pub(crate) use select_messages;

/// A message joined with one of its files; a message without files is one row without a file.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct MessageRow {
    pub(crate) id: Uuid,
    pub(crate) turn: Uuid,
    /// The turn that consumed it, or will.
    pub(crate) answered_in: Uuid,
    pub(crate) conversation: String,
    /// Its conversation is that of the row, whatever it says: the conversation may have been renamed.
    pub(crate) message: Json<Map<String, Value>>,
    pub(crate) received_at: i64,
    pub(crate) file_state: Option<String>,
    pub(crate) reference: Option<Json<FileReference>>,
    pub(crate) attachment: Option<Uuid>,
    pub(crate) refused: Option<Json<RefusedFile>>,
    pub(crate) file_position: Option<i64>,
    pub(crate) transcription: Option<Json<Transcription>>,
}

impl MessageRow {
    /// The id of its file, once that is stored.
    pub(crate) fn file(&self) -> Option<AttachmentId> {
        self.attachment.map(AttachmentId)
    }
}

/// Gathers the rows of each message, which follow one another, with the records of their files.
pub(crate) fn messages(rows: Vec<MessageRow>, records: &Records) -> Result<Vec<QueuedMessage>> {
    let mut messages: Vec<QueuedMessage> = Vec::new();
    for row in rows {
        let file = match row.file_state.as_deref() {
            None => None,
            Some("waiting") => row.reference.map(|reference| InboundFileState::Waiting(reference.0)),
            Some("stored") => {
                let file = row.file().ok_or(Error::Row { what: "stored file" })?;
                Some(InboundFileState::Stored(records.resolve(file.into())?))
            }
            Some("refused") => row.refused.map(|refused| InboundFileState::Refused(refused.0)),
            Some(_) => return Err(Error::Row { what: "file's state" }),
        };
        if row.id != messages.last().map_or(Uuid::nil(), |last| last.id.0) {
            messages.push(QueuedMessage {
                id: InboxId(row.id),
                turn: TurnId(row.turn),
                message: inbound_message(row.message.0, row.conversation)?,
                files: Vec::new(),
                transcriptions: BTreeMap::new(),
                received_at: Timestamp(row.received_at),
            });
        }
        let message = messages.last_mut().expect("a message was pushed for the first row");
        message.files.extend(file);
        if let (Some(position), Some(transcription)) = (row.file_position, row.transcription) {
            message.transcriptions.insert(number(position, "place of a file")?, transcription.0);
        }
    }
    Ok(messages)
}

fn inbound_message(mut fields: Map<String, Value>, conversation: String) -> Result<InboundMessage> {
    fields.insert("conversation".to_owned(), conversation.into());
    serde_json::from_value(fields.into()).map_err(|_| Error::Row { what: "message" })
}

pub(crate) fn conversation(text: &str) -> Result<ConversationId> {
    text.parse().map_err(|_| Error::Row { what: "conversation" })
}

pub(crate) fn channel(text: String) -> Result<ChannelName> {
    ChannelName::new(text).map_err(|_| Error::Row { what: "channel" })
}

pub(crate) fn attachment_number(value: i64) -> Result<NonZeroU64> {
    let number: Option<NonZeroU64> = u64::try_from(value).ok().and_then(NonZeroU64::new);
    number.ok_or(Error::Row { what: "number of an attachment" })
}

/// A value that is stored as its word, such as a file's source.
pub(crate) fn from_text<T: DeserializeOwned>(text: String, what: &'static str) -> Result<T> {
    serde_json::from_value(Value::String(text)).map_err(|_| Error::Row { what })
}

pub(crate) fn number<T: TryFrom<i64>>(value: i64, what: &'static str) -> Result<T> {
    T::try_from(value).map_err(|_| Error::Row { what })
}
