//! Rows as the database has them, and how they become the domain's types.

use std::ops::Deref;

use satchel_domain::{AttachmentId, Part, PartState, Timestamp};
pub(crate) use satchel_ledger::rows::{
    AttachmentFields, MessageFields, PartFields, attachment_number, channel, conversation, link_revocation, messages,
    number, signed,
};
use satchel_ledger::stored::AttachmentRecords;

use crate::{
    attachments,
    columns::{FromRow, Row},
    parameters::Json,
    session::{Session, VerbResult},
};

/// The columns of [`PartRow`], followed by the rest of the statement.
macro_rules! select_part {
    ($($rest:expr),+) => {
        concat!(
            "SELECT parts.id, lanes.conversation, turn, turn_sequence, position, content, state, state_detail, settled, ",
            "draft, attempts, first_attempt_at, streamed, searched, labelled, labelled_sends, target, reply_to, call, ",
            "unanswered, closing, created_at, ledger_now() AS ledger_now ",
            "FROM parts JOIN lanes ON lanes.id = parts.lane ",
            $($rest),+
        )
    };
}
pub(crate) use select_part;

#[derive(Debug)]
pub(crate) struct PartRow {
    fields: PartFields,
    /// The time when it was read, by which it waits.
    ledger_now: i64,
}

impl Deref for PartRow {
    type Target = PartFields;

    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

impl FromRow for PartRow {
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        let fields = PartFields {
            id: row.get("id")?,
            conversation: row.get("conversation")?,
            turn: row.get("turn")?,
            turn_sequence: row.get("turn_sequence")?,
            position: row.get("position")?,
            content: row.get::<Json<_>>("content")?.0,
            state: row.get::<Json<_>>("state_detail")?.0,
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
        };
        Ok(Self { fields, ledger_now: row.get("ledger_now")? })
    }
}

impl PartRow {
    /// The ids of its files.
    pub(crate) fn files(&self) -> impl Iterator<Item = AttachmentId> {
        self.fields.files()
    }
}

/// The part of a row, with the records of its files, by the clock of this process.
pub(crate) fn to_part<S: Session>(db: &S, row: PartRow, records: &AttachmentRecords) -> VerbResult<Part, S> {
    let clock_lead = db.clock_lead_over(Timestamp(row.ledger_now));
    let part = row.fields.into_part(records)?;
    Ok(Part { state: shift_wait(part.state, clock_lead), ..part })
}

/// Moves the time until which a part waits from one clock to another. It is stored by the ledger's: the process that goes
/// on with the part may have one that is an hour off.
pub(crate) fn shift_wait(state: PartState, by: i64) -> PartState {
    let shifted = |until: Timestamp| Timestamp(until.0.saturating_add(by));
    match state {
        PartState::Waiting { until, reason } => PartState::Waiting { until: shifted(until), reason },
        PartState::InDoubt { until, reason } => PartState::InDoubt { until: shifted(until), reason },
        other => other,
    }
}

/// The parts of some rows, with the records of their files.
pub(crate) async fn parts<S: Session>(db: &S, rows: Vec<PartRow>) -> VerbResult<Vec<Part>, S> {
    let records = attachments::read_records(db, rows.iter().flat_map(PartRow::files).collect()).await?;
    rows.into_iter().map(|row| to_part(db, row, &records)).collect()
}

/// The part of a row, if there is one.
pub(crate) async fn part<S: Session>(db: &S, row: Option<PartRow>) -> VerbResult<Option<Part>, S> {
    Ok(parts(db, row.into_iter().collect()).await?.pop())
}

/// The columns of [`MessageFields`], followed by the rest of the statement.
macro_rules! select_messages {
    ($($rest:expr),+) => {
        concat!(
            "SELECT inbox.id, inbox.turn, COALESCE(inbox.consumed_by, inbox.turn) AS answered_in, ",
            "lanes.conversation, inbox.message, inbox.received_at, ",
            "(SELECT timezone FROM person_settings ",
            "WHERE person = lanes.channel || ':' || json_extract(inbox.message, '$.sender.id')) AS timezone, ",
            "inbox_files.state AS file_state, ",
            "inbox_files.reference, inbox_files.attachment, inbox_files.refused, inbox_files.position AS file_position, ",
            "inbox_files.transcription FROM inbox JOIN lanes ON lanes.id = inbox.lane ",
            "LEFT JOIN inbox_files ON inbox_files.message = inbox.sequence ",
            $($rest),+
        )
    };
}
pub(crate) use select_messages;

impl FromRow for MessageFields {
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        Ok(Self {
            id: row.get("id")?,
            turn: row.get("turn")?,
            answered_in: row.get("answered_in")?,
            conversation: row.get("conversation")?,
            message: row.get::<Json<_>>("message")?.0,
            received_at: row.get("received_at")?,
            timezone: row.get("timezone")?,
            file_state: row.get("file_state")?,
            reference: row.get::<Option<Json<_>>>("reference")?.map(|json| json.0),
            attachment: row.get("attachment")?,
            refused: row.get::<Option<Json<_>>>("refused")?.map(|json| json.0),
            file_position: row.get("file_position")?,
            transcription: row.get::<Option<Json<_>>>("transcription")?.map(|json| json.0),
        })
    }
}
