//! Rows as the database has them, and how they become the domain's types.

use std::{num::NonZeroU64, ops::Deref};

use rusqlite::Row;
use satchel_domain::{AttachmentId, ChannelName, ConversationId, Part};
use satchel_ledger::rows as ledger_rows;
pub(crate) use satchel_ledger::rows::{AttachmentFields, signed};
use satchel_ports::ledger::QueuedMessage;

use crate::{
    attachments::Records,
    database::{Database, Json},
    error::Result,
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
pub(crate) struct PartRow(ledger_rows::PartFields);

impl Deref for PartRow {
    type Target = ledger_rows::PartFields;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl TryFrom<&Row<'_>> for PartRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self(ledger_rows::PartFields {
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
        }))
    }
}

impl PartRow {
    /// The ids of its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = AttachmentId> {
        self.0.files()
    }

    /// The part, with the records of its files.
    pub(crate) fn into_part(self, records: &Records) -> Result<Part> {
        Ok(self.0.into_part(&records.0)?)
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
pub(crate) struct MessageRow(ledger_rows::MessageFields);

impl Deref for MessageRow {
    type Target = ledger_rows::MessageFields;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl TryFrom<&Row<'_>> for MessageRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self(ledger_rows::MessageFields {
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
        }))
    }
}

impl MessageRow {
    /// The id of its file, once that is stored.
    pub(crate) fn file(&self) -> Option<AttachmentId> {
        self.0.file()
    }
}

/// Gathers the rows of each message, which follow one another, with the records of their files.
pub(crate) fn messages(rows: Vec<MessageRow>, records: &Records) -> Result<Vec<QueuedMessage>> {
    Ok(ledger_rows::messages(rows.into_iter().map(|row| row.0), &records.0)?)
}

pub(crate) fn conversation(text: &str) -> Result<ConversationId> {
    Ok(ledger_rows::conversation(text)?)
}

pub(crate) fn channel(text: String) -> Result<ChannelName> {
    Ok(ledger_rows::channel(text)?)
}

pub(crate) fn attachment_number(value: i64) -> Result<NonZeroU64> {
    Ok(ledger_rows::attachment_number(value)?)
}

pub(crate) fn number<T: TryFrom<i64>>(value: i64, what: &'static str) -> Result<T> {
    Ok(ledger_rows::number(value, what)?)
}
