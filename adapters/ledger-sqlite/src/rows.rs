//! Rows as the database has them, and how they become the domain's types.

use std::{collections::BTreeMap, num::NonZeroU64};

use rusqlite::Row;
use satchel_domain::{
    AttachmentId, CallId, ChannelName, ConversationId, FileReference, InboundMessage, InboxId, MessageRef, Part,
    PartContent, PartId, PartState, RefusedFile, Timestamp, TurnId,
    part::{CallQuestion, Operation},
};
use satchel_ports::ledger::{InboundFileState, QueuedMessage, Transcription};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{
    attachments::{AttachmentRef, Records},
    database::{Database, Json},
    error::{Error, Result},
};

/// The columns of [`PartRow`], followed by the rest of the statement.
macro_rules! select_part {
    ($($rest:expr),+) => {
        concat!(
            "SELECT parts.id, lanes.conversation, turn, turn_sequence, position, content, state, state_detail, settled, ",
            "draft, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, target, reply_to, call, ",
            "unanswered, closing, created_at ",
            "FROM parts JOIN lanes ON lanes.id = parts.lane ",
            $($rest),+
        )
    };
}
pub(crate) use select_part;

#[derive(Debug)]
pub(crate) struct PartRow {
    pub(crate) id: Uuid,
    pub(crate) conversation: String,
    pub(crate) turn: Uuid,
    pub(crate) turn_sequence: i64,
    pub(crate) position: i64,
    /// `None` for a deletion.
    pub(crate) content: Option<PartContent<AttachmentRef>>,
    pub(crate) state: PartState,
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

impl TryFrom<&Row<'_>> for PartRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            conversation: row.get("conversation")?,
            turn: row.get("turn")?,
            turn_sequence: row.get("turn_sequence")?,
            position: row.get("position")?,
            content: row.get::<_, Json<_>>("content")?.0,
            state: row.get::<_, Json<_>>("state_detail")?.0,
            settled: row.get("settled")?,
            draft: row.get("draft")?,
            attempts: row.get("attempts")?,
            first_attempt_at: row.get("first_attempt_at")?,
            streamed: row.get("streamed")?,
            searched: row.get("searched")?,
            labelled: row.get("labelled")?,
            labelled_sends: row.get("labelled_sends")?,
            target: row.get("target")?,
            reply_to: row.get("reply_to")?,
            call: row.get("call")?,
            unanswered: row.get("unanswered")?,
            closing: row.get("closing")?,
            created_at: row.get("created_at")?,
        })
    }
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
        self.content.iter().flat_map(PartContent::files).map(|item| item.attachment.id)
    }

    /// The part, with the records of its files.
    pub(crate) fn into_part(self, records: &Records) -> Result<Part> {
        let question = self.question()?;
        let message = self.target.map(MessageRef);
        let operation = match (self.content, message) {
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

/// The parts of some rows, with the records of their files.
pub(crate) fn parts(db: &Database, rows: Vec<PartRow>) -> Result<Vec<Part>> {
    let records = Records::read(db, rows.iter().flat_map(PartRow::files).collect())?;
    rows.into_iter().map(|row| row.into_part(&records)).collect()
}

/// The part of a row, if there is one.
pub(crate) fn part(db: &Database, row: Option<PartRow>) -> Result<Option<Part>> {
    Ok(parts(db, row.into_iter().collect())?.pop())
}

/// The columns of [`MessageRow`], followed by the rest of the statement.
macro_rules! select_messages {
    ($($rest:expr),+) => {
        concat!(
            "SELECT inbox.id, inbox.turn, COALESCE(inbox.consumed_by, inbox.turn) AS answered_in, ",
            "lanes.conversation, inbox.message, inbox.received_at, inbox_files.state AS file_state, ",
            "inbox_files.reference, inbox_files.attachment, inbox_files.refused, inbox_files.position AS file_position, ",
            "inbox_files.transcription FROM inbox JOIN lanes ON lanes.id = inbox.lane ",
            "LEFT JOIN inbox_files ON inbox_files.message = inbox.sequence ",
            $($rest),+
        )
    };
}
pub(crate) use select_messages;

/// A message joined with one of its files; a message without files is one row without a file.
#[derive(Debug)]
pub(crate) struct MessageRow {
    pub(crate) id: Uuid,
    pub(crate) turn: Uuid,
    /// The turn that consumed it, or will.
    pub(crate) answered_in: Uuid,
    pub(crate) conversation: String,
    /// Its conversation is that of the row, whatever it says: the conversation may have been renamed.
    pub(crate) message: Map<String, Value>,
    pub(crate) received_at: i64,
    pub(crate) file_state: Option<String>,
    pub(crate) reference: Option<FileReference>,
    pub(crate) attachment: Option<Uuid>,
    pub(crate) refused: Option<RefusedFile>,
    pub(crate) file_position: Option<i64>,
    pub(crate) transcription: Option<Transcription>,
}

impl TryFrom<&Row<'_>> for MessageRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            turn: row.get("turn")?,
            answered_in: row.get("answered_in")?,
            conversation: row.get("conversation")?,
            message: row.get::<_, Json<_>>("message")?.0,
            received_at: row.get("received_at")?,
            file_state: row.get("file_state")?,
            reference: row.get::<_, Option<Json<_>>>("reference")?.map(|json| json.0),
            attachment: row.get("attachment")?,
            refused: row.get::<_, Option<Json<_>>>("refused")?.map(|json| json.0),
            file_position: row.get("file_position")?,
            transcription: row.get::<_, Option<Json<_>>>("transcription")?.map(|json| json.0),
        })
    }
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
            Some("waiting") => row.reference.map(InboundFileState::Waiting),
            Some("stored") => {
                let file = row.attachment.map(AttachmentId).ok_or(Error::Row { what: "stored file" })?;
                Some(InboundFileState::Stored(records.resolve(file.into())?))
            }
            Some("refused") => row.refused.map(InboundFileState::Refused),
            Some(_) => return Err(Error::Row { what: "file's state" }),
        };
        if row.id != messages.last().map_or(Uuid::nil(), |last| last.id.0) {
            messages.push(QueuedMessage {
                id: InboxId(row.id),
                turn: TurnId(row.turn),
                message: inbound_message(row.message, row.conversation)?,
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

/// A number of bytes as the database has it.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
