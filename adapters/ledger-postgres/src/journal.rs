//! What a running turn records, so that it goes on after a crash.

use std::num::NonZeroU64;

use satchel_domain::{Attachment, CallId, InboxId, NewAttachment, OutcomeFile, RecordedOutcome, ToolOutcome, TurnId};
use satchel_ports::{
    FileChange,
    ledger::{CallDecision, JournalEntry, Lease},
};

use crate::{
    attachments::{self, AttachmentRef, Records},
    audit,
    database::{Database, Json, params},
    error::{Error, Result},
    lanes::{self, LaneId},
    progress::require_incomplete,
    questions, rows,
};

/// Records a model message or the end of a task.
pub(crate) async fn journal_message(db: &Database, lease: &Lease, turn: TurnId, entry: &JournalEntry) -> Result<()> {
    let taken_up = match entry {
        JournalEntry::Model { steered, .. } => steered.iter().map(|steered| steered.id).collect(),
        JournalEntry::TaskFinished { .. } => Vec::new(),
        JournalEntry::Decided { .. } | JournalEntry::Outcome { .. } => {
            return Err(Error::unknown("message to journal"));
        }
    };
    append_entry(db, lease, turn, &taken_up, entry).await?;
    Ok(())
}

/// Records a person's decision about a call and closes the call's question.
pub(crate) async fn journal_decision(db: &Database, lease: &Lease, decision: &CallDecision) -> Result<()> {
    let CallDecision { call, allowed, message, closing } = decision;
    let entry = JournalEntry::Decided { ordinal: call.ordinal, allowed: *allowed, message: *message };
    let lane = append_entry(db, lease, call.turn, &[*message], &entry).await?;
    questions::close_each(db, lane, call.turn, Some(closing), |asked| asked == *call).await?;
    Ok(())
}

/// Records an entry without files, and marks the messages that it took up.
async fn append_entry(
    db: &Database,
    lease: &Lease,
    turn: TurnId,
    taken_up: &[InboxId],
    entry: &JournalEntry,
) -> Result<LaneId> {
    let lane = lanes::require(db, lease).await?.id;
    require_incomplete(db, lane, turn).await?;
    for message in taken_up {
        db.run(
            "UPDATE inbox SET steered_into = $2 WHERE id = $1 AND lane = $3 AND consumed_by IS NULL",
            params![message.0, turn.0, lane],
        )
        .await?;
    }
    let entry = entry.clone().try_map_files(|file| Records::default().refer(&file))?;
    append(db, turn, None, &entry).await?;
    Ok(lane)
}

/// Records what a call yielded together with its new files, and returns it with their numbers. Questions about the call
/// and about those that it made are closed.
pub(crate) async fn journal_outcome(
    db: &Database,
    lease: &Lease,
    turn: TurnId,
    ordinal: u32,
    outcome: ToolOutcome,
    changes: &[FileChange],
) -> Result<RecordedOutcome> {
    let lane = lanes::require(db, lease).await?.id;
    require_incomplete(db, lane, turn).await?;
    let call = CallId { turn, ordinal };
    questions::close_each(db, lane, turn, None, |asked| asked == call || asked.is_nested_in(call)).await?;
    for file in outcome.new_files() {
        attachments::store(db, &lease.conversation, lane, turn, &file).await?;
    }
    let files = outcome.files().map(OutcomeFile::id).collect();
    let records = Records::of_conversation(db, &lease.conversation, files).await?;
    let outcome = outcome.try_map_files(|file| match file {
        OutcomeFile::New(file) => records.refer(&file.numbered(lease.conversation.clone(), NonZeroU64::MIN)),
        OutcomeFile::Stored(file) => records.refer(&file),
    })?;
    append(db, turn, Some(ordinal), &JournalEntry::Outcome { ordinal, outcome: outcome.clone() }).await?;
    audit::insert(db, lane, turn, changes).await?;
    outcome.try_map_files(|file| records.resolve(file))
}

/// Records files that a running call of a turn has made, and returns them with their numbers.
pub(crate) async fn register_files(db: &Database, turn: TurnId, files: &[NewAttachment]) -> Result<Vec<Attachment>> {
    let found: Option<(LaneId, String)> = db
        .find(
            "SELECT lanes.id, lanes.conversation FROM turns JOIN lanes ON lanes.id = turns.lane \
         WHERE turns.id = $1 AND state = 'queued' FOR UPDATE OF lanes",
            params![turn.0],
        )
        .await?;
    let (lane, conversation) = found.ok_or_else(|| Error::unknown(format!("incomplete turn {turn}")))?;
    let conversation = rows::conversation(&conversation)?;
    let mut stored = Vec::with_capacity(files.len());
    for file in files {
        stored.push(attachments::store(db, &conversation, lane, turn, file).await?);
    }
    Ok(stored)
}

async fn append(db: &Database, turn: TurnId, ordinal: Option<u32>, entry: &JournalEntry<AttachmentRef>) -> Result<()> {
    db.run(
        "INSERT INTO journal (turn, position, ordinal, entry, created_at) \
         SELECT $1, COALESCE(MAX(position) + 1, 0), $2, $3, $4 FROM journal WHERE turn = $1",
        params![turn.0, ordinal, Json(entry), db.now().0],
    )
    .await?;
    Ok(())
}
