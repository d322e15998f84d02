//! Rows as the database has them, and how they become the domain's types.

use std::{num::NonZeroU64, ops::Deref};

use satchel_domain::{AttachmentId, ChannelName, ConversationId, Part, PartState, Timestamp};
use satchel_ledger::rows as ledger_rows;
pub(crate) use satchel_ledger::rows::{AttachmentFields, signed};
use satchel_ports::ledger::QueuedMessage;
use sqlx::{FromRow, Row, postgres::PgRow};

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
            "unanswered, closing, created_at, ledger_now() AS database_now ",
            "FROM parts JOIN lanes ON lanes.id = parts.lane ",
            $($rest),+
        )
    };
}
pub(crate) use select_part;

#[derive(Debug)]
pub(crate) struct PartRow {
    fields: ledger_rows::PartFields,
    /// The database's time when it was read, by which it waits.
    database_now: i64,
}

impl Deref for PartRow {
    type Target = ledger_rows::PartFields;

    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

impl FromRow<'_, PgRow> for PartRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let fields = ledger_rows::PartFields {
            id: row.try_get("id")?,
            conversation: row.try_get("conversation")?,
            turn: row.try_get("turn")?,
            turn_sequence: row.try_get("turn_sequence")?,
            position: row.try_get("position")?,
            content: row.try_get::<Json<_>, _>("content")?.0,
            state: row.try_get::<Json<_>, _>("state_detail")?.0,
            settled: row.try_get("settled")?,
            draft: row.try_get("draft")?,
            attempts: row.try_get("attempts")?,
            first_attempt_at: row.try_get("first_attempt_at")?,
            streamed: row.try_get("streamed")?,
            searched: row.try_get("searched")?,
            labelled: row.try_get("labelled")?,
            labelled_sends: row.try_get("labelled_sends")?,
            target: row.try_get("target")?,
            reply_to: row.try_get("reply_to")?,
            call: row.try_get("call")?,
            unanswered: row.try_get("unanswered")?,
            closing: row.try_get("closing")?,
            created_at: row.try_get("created_at")?,
        };
        Ok(Self { fields, database_now: row.try_get("database_now")? })
    }
}

impl PartRow {
    /// The ids of its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = AttachmentId> {
        self.fields.files()
    }

    /// The part, with the records of its files, by the clock of this process, which shows `now`.
    pub(crate) fn into_part(self, records: &Records, now: Timestamp) -> Result<Part> {
        let clock_lead = now.0.saturating_sub(self.database_now);
        let part = self.fields.into_part(&records.0)?;
        Ok(Part { state: shift_wait(part.state, clock_lead), ..part })
    }
}

/// Moves the time until which a part waits from one clock to another. It is stored by the database's: the process that
/// goes on with the part may have one that is an hour off.
pub(crate) fn shift_wait(state: PartState, by: i64) -> PartState {
    let shifted = |until: Timestamp| Timestamp(until.0.saturating_add(by));
    match state {
        PartState::Waiting { until, reason } => PartState::Waiting { until: shifted(until), reason },
        PartState::InDoubt { until, reason } => PartState::InDoubt { until: shifted(until), reason },
        other => other,
    }
}

/// The parts of some rows, with the records of their files.
pub(crate) async fn parts(db: &Database, rows: Vec<PartRow>) -> Result<Vec<Part>> {
    let records = Records::read(db, rows.iter().flat_map(PartRow::files).collect()).await?;
    rows.into_iter().map(|row| row.into_part(&records, db.now())).collect()
}

/// The part of a row, if there is one.
pub(crate) async fn part(db: &Database, row: Option<PartRow>) -> Result<Option<Part>> {
    Ok(parts(db, row.into_iter().collect()).await?.pop())
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

impl FromRow<'_, PgRow> for MessageRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self(ledger_rows::MessageFields {
            id: row.try_get("id")?,
            turn: row.try_get("turn")?,
            answered_in: row.try_get("answered_in")?,
            conversation: row.try_get("conversation")?,
            message: row.try_get::<Json<_>, _>("message")?.0,
            received_at: row.try_get("received_at")?,
            file_state: row.try_get("file_state")?,
            reference: row.try_get::<Option<Json<_>>, _>("reference")?.map(|json| json.0),
            attachment: row.try_get("attachment")?,
            refused: row.try_get::<Option<Json<_>>, _>("refused")?.map(|json| json.0),
            file_position: row.try_get("file_position")?,
            transcription: row.try_get::<Option<Json<_>>, _>("transcription")?.map(|json| json.0),
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
