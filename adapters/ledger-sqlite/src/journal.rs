//! What a running turn records, so that it goes on after a crash.

use std::num::NonZeroU64;

use satchel_domain::{Attachment, CallId, InboxId, NewAttachment, OutcomeFile, RecordedOutcome, ToolOutcome, TurnId};
use satchel_ledger::IncompleteTurn;
use satchel_ports::{
    FileChange,
    ledger::{CallDecision, JournalEntry, Lease},
};
use sqlx::types::Json;

use crate::{
    attachments::{self, AttachmentRef, Records},
    audit,
    batch::{Answers, Batch, Statement},
    drafts,
    error::{Error, Result},
    lanes, parts,
    process::Process,
    questions,
    rows::{self, LaneRow},
    session::Session,
};

/// Where an incomplete turn stands in its lane.
#[derive(Default)]
pub(crate) struct TurnProgress {
    pub(crate) incomplete: IncompleteTurn,
    /// Whether it has unsettled questions.
    pub(crate) asks: bool,
}

#[derive(sqlx::FromRow)]
struct TurnProgressRow {
    #[sqlx(flatten)]
    lane: LaneRow,
    incomplete: bool,
    busy: bool,
    has_draft: bool,
    asks: bool,
    next_position: i64,
}

/// Reads where an incomplete turn stands, if the lease is valid.
pub(crate) async fn read_progress(session: &mut Session<'_>, lease: &Lease, turn: TurnId) -> Result<TurnProgress> {
    let mut batch = Batch::default();
    // One row: each row and each statement that ends wakes whoever waits for the batch.
    let progress = batch
        .add(concat!(
            "SELECT holder, token, expires_at, voice, turns.id IS NOT NULL AS incomplete, ",
            parts::busy!(),
            " AS busy, EXISTS (SELECT 1 FROM parts WHERE turn = $2 AND draft = 1 AND settled = 0) AS has_draft, ",
            "EXISTS (SELECT 1 FROM parts WHERE turn = $2 AND call IS NOT NULL AND settled = 0) AS asks, ",
            "(SELECT COALESCE(MAX(position) + 1, 0) FROM parts WHERE turn = $2 AND draft = 0) AS next_position ",
            "FROM lanes LEFT JOIN turns ON turns.id = $2 AND turns.conversation = $1 AND turns.state = 'queued' ",
            "WHERE lanes.conversation = $1"
        ))
        .bind(lease.conversation.to_string())
        .bind(turn.0)
        .only_row();
    let found: Option<TurnProgressRow> = session.run(batch).await?.first_row(progress)?;
    lanes::require_row(found.as_ref().map(|found| &found.lane), lease)?;
    let found = found.filter(|found| found.incomplete).ok_or_else(|| unknown(turn))?;
    let draft = if found.has_draft { drafts::read(session, turn).await? } else { None };
    let next_position = rows::number(found.next_position, "position")?;
    let incomplete = IncompleteTurn { draft, is_busy: found.busy, next_position };
    Ok(TurnProgress { incomplete, asks: found.asks })
}

/// Records a model message or the end of a task.
pub(crate) async fn journal_message(
    session: &mut Session<'_>,
    lease: &Lease,
    turn: TurnId,
    entry: &JournalEntry,
) -> Result<()> {
    let taken_up = match entry {
        JournalEntry::Model { steered, .. } => steered.iter().map(|steered| steered.id).collect(),
        JournalEntry::TaskFinished { .. } => Vec::new(),
        JournalEntry::Decided { .. } | JournalEntry::Outcome { .. } => {
            return Err(Error::unknown("message to journal"));
        }
    };
    append_entry(session, lease, turn, taken_up, entry).await
}

/// Records a person's decision about a call and closes the call's question.
pub(crate) async fn journal_decision(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    decision: &CallDecision,
) -> Result<()> {
    let CallDecision { call, allowed, message, closing } = decision;
    let entry = JournalEntry::Decided { ordinal: call.ordinal, allowed: *allowed, message: *message };
    append_entry(session, lease, call.turn, vec![*message], &entry).await?;
    questions::close(session, process, lease, *call, closing).await
}

/// Records an entry without files, and marks the messages that it took up.
async fn append_entry(
    session: &mut Session<'_>,
    lease: &Lease,
    turn: TurnId,
    taken_up: Vec<InboxId>,
    entry: &JournalEntry,
) -> Result<()> {
    let mut batch = Batch::default();
    let lane = lanes::read(&mut batch, &lease.conversation);
    let sequence = read_sequence(&mut batch, lease, turn);
    for message in taken_up {
        batch
            .add("UPDATE inbox SET steered_into = $2 WHERE id = $1 AND conversation = $3 AND consumed_by IS NULL")
            .bind(message.0)
            .bind(turn.0)
            .bind(lease.conversation.to_string());
    }
    let entry = entry.clone().try_map_files(|file| Records::default().refer(&file))?;
    append(&mut batch, turn, None, &entry);
    let answers = session.run(batch).await?;
    lanes::require(&answers, lane, lease)?;
    require_sequence(&answers, sequence, turn)?;
    Ok(())
}

/// Records what a call yielded together with its new files, and returns it with their numbers. Questions about the call
/// and about those that it made are closed.
pub(crate) async fn journal_outcome(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    turn: TurnId,
    ordinal: u32,
    outcome: ToolOutcome,
    changes: &[FileChange],
) -> Result<RecordedOutcome> {
    if read_progress(session, lease, turn).await?.asks {
        let call = CallId { turn, ordinal };
        let ends = |asked: CallId| asked == call || asked.is_nested_in(call);
        questions::close_each(session, lease, turn, process.now(), None, ends).await?;
    }
    for file in outcome.new_files() {
        attachments::store(session, process, &lease.conversation, turn, &file).await?;
    }
    let files = outcome.files().map(OutcomeFile::id).collect();
    let records = Records::of_conversation(session, &lease.conversation, files).await?;
    let outcome = outcome.try_map_files(|file| match file {
        OutcomeFile::New(file) => records.refer(&file.numbered(lease.conversation.clone(), NonZeroU64::MIN)),
        OutcomeFile::Stored(file) => records.refer(&file),
    })?;
    let entry = JournalEntry::Outcome { ordinal, outcome: outcome.clone() };
    let mut batch = Batch::default();
    append(&mut batch, turn, Some(ordinal), &entry);
    audit::insert(&mut batch, &lease.conversation, turn, changes, process.now());
    session.run(batch).await?;
    outcome.try_map_files(|file| records.resolve(file))
}

/// Records files that a running call of a turn has made, and returns them with their numbers.
pub(crate) async fn register_files(
    session: &mut Session<'_>,
    process: &Process,
    turn: TurnId,
    files: Vec<NewAttachment>,
) -> Result<Vec<Attachment>> {
    let conversation: Option<String> =
        sqlx::query_scalar("SELECT conversation FROM turns WHERE id = $1 AND state = 'queued'")
            .bind(turn.0)
            .fetch_optional(session.connection().await?)
            .await?;
    let conversation = conversation.ok_or_else(|| Error::unknown(format!("incomplete turn {turn}")))?;
    let conversation = rows::conversation(&conversation)?;
    let mut registered = Vec::with_capacity(files.len());
    for file in &files {
        registered.push(attachments::store(session, process, &conversation, turn, file).await?);
    }
    Ok(registered)
}

fn unknown(turn: TurnId) -> Error {
    Error::unknown(format!("incomplete turn {turn}"))
}

/// Adds the question where an incomplete turn stands in its lane.
fn read_sequence(batch: &mut Batch, lease: &Lease, turn: TurnId) -> Statement {
    batch
        .add("SELECT sequence FROM turns WHERE id = $1 AND conversation = $2 AND state = 'queued'")
        .bind(turn.0)
        .bind(lease.conversation.to_string())
        .id()
}

fn require_sequence(answers: &Answers, sequence: Statement, turn: TurnId) -> Result<i64> {
    let found: Option<(i64,)> = answers.first_row(sequence)?;
    found.map(|(sequence,)| sequence).ok_or_else(|| unknown(turn))
}

fn append(batch: &mut Batch, turn: TurnId, ordinal: Option<u32>, entry: &JournalEntry<AttachmentRef>) {
    batch
        .add(
            "INSERT INTO journal (turn, position, ordinal, entry) \
             SELECT $1, COALESCE(MAX(position) + 1, 0), $2, $3 FROM journal WHERE turn = $1",
        )
        .bind(turn.0)
        .bind(ordinal.map(i64::from))
        .bind(Json(entry));
}
