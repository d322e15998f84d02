//! What a running turn records, so that it goes on after a crash.

use std::num::NonZeroU64;

use satchel_domain::{
    Attachment, CallId, ConversationId, InboxId, NewAttachment, OutcomeFile, RecordedOutcome, ToolOutcome, TurnId,
};
use satchel_ledger::stored::{AttachmentRecords, AttachmentRef};
use satchel_ports::{
    FileChange,
    ledger::{CallDecision, JournalEntry, Lease},
};

use crate::{
    attachments,
    error::VerbError,
    lanes::{self, Lane, LaneId},
    parameters::Json,
    params, progress, rows,
    session::{Session, VerbResult},
    verbs::{audit, corrections::mark_correction, questions, usage},
};

/// Records a model message, the start of a call, or the end of a task.
pub async fn journal_message<S: Session>(
    db: &S,
    lease: &Lease,
    turn: TurnId,
    entry: &JournalEntry,
) -> VerbResult<(), S> {
    let taken_up = match entry {
        JournalEntry::Model { steered, .. } => steered.iter().map(|steered| steered.id).collect(),
        JournalEntry::CallStarted { .. } | JournalEntry::TaskFinished { .. } => Vec::new(),
        JournalEntry::Decided { .. } | JournalEntry::Outcome { .. } => {
            return Err(VerbError::unknown("message to journal").into());
        }
    };
    append_entry(db, lease, turn, &taken_up, entry).await?;
    Ok(())
}

/// Records a person's decision about a call and closes the call's question.
pub async fn journal_decision<S: Session>(db: &S, lease: &Lease, decision: &CallDecision) -> VerbResult<(), S> {
    let CallDecision { call, allowed, message, closing } = decision;
    let entry = JournalEntry::Decided { ordinal: call.ordinal, allowed: *allowed, message: *message };
    let lane = append_entry(db, lease, call.turn, &[*message], &entry).await?;
    questions::close_each(db, lane, call.turn, Some(closing), |asked| asked == *call).await?;
    Ok(())
}

/// Records an entry without files, and marks the messages that it took up.
async fn append_entry<S: Session>(
    db: &S,
    lease: &Lease,
    turn: TurnId,
    taken_up: &[InboxId],
    entry: &JournalEntry,
) -> VerbResult<LaneId, S> {
    let lane = lanes::require(db, lease).await?.id;
    progress::require_incomplete(db, lane, turn).await?;
    for message in taken_up {
        let updated = db
            .run(
                "UPDATE inbox SET steered_into = $2 WHERE id = $1 AND lane = $3 AND consumed_by IS NULL",
                params![message.0, turn.0, lane],
            )
            .await?;
        if updated == 0
            && let Some(text) = steered_text(entry, *message)
        {
            mark_correction(db, lane, *message, text).await?;
        }
    }
    let entry = entry.clone().try_map_files(|file| AttachmentRecords::default().refer(&file))?;
    append(db, turn, None, &entry).await?;
    Ok(lane)
}

/// What an entry records of a message that was injected.
fn steered_text(entry: &JournalEntry, message: InboxId) -> Option<&str> {
    let JournalEntry::Model { steered, .. } = entry else { return None };
    steered.iter().find(|steered| steered.id == message).map(|steered| steered.text.as_str())
}

/// Records what a call yielded together with its new files, and returns it with their numbers. Questions about the call
/// and about those that it made are closed.
pub async fn journal_outcome<S: Session>(
    db: &S,
    lease: &Lease,
    turn: TurnId,
    ordinal: u32,
    outcome: &ToolOutcome,
    changes: &[FileChange],
) -> VerbResult<RecordedOutcome, S> {
    let lane = lanes::require(db, lease).await?.id;
    progress::require_incomplete(db, lane, turn).await?;
    let call = CallId { turn, ordinal };
    questions::close_each(db, lane, turn, None, |asked| asked == call || asked.is_nested_in(call)).await?;
    let new_files = outcome.new_files();
    if !new_files.is_empty() {
        let account = usage::call_account(db, &lease.conversation, turn).await?;
        for file in new_files {
            attachments::store(db, &account, lane, turn, &file).await?;
        }
    }
    let files = outcome.files().map(OutcomeFile::id).collect();
    let records = attachments::require_records(db, &lease.conversation, files).await?;
    let outcome = outcome.clone().try_map_files(|file| match file {
        OutcomeFile::New(file) => records.refer(&file.numbered(lease.conversation.clone(), NonZeroU64::MIN)),
        OutcomeFile::Stored(file) => records.refer(&file),
    })?;
    append(db, turn, Some(ordinal), &JournalEntry::Outcome { ordinal, outcome: outcome.clone() }).await?;
    audit::insert(db, lane, turn, changes).await?;
    Ok(outcome.try_map_files(|file| records.resolve(file))?)
}

/// Records files that a running call of a turn has made, and returns them with their numbers.
pub async fn register_files<S: Session>(
    db: &S,
    turn: TurnId,
    files: &[NewAttachment],
) -> VerbResult<Vec<Attachment>, S> {
    let unknown = || VerbError::unknown(format!("incomplete turn {turn}"));
    let (conversation, lane) = lock_lane(db, turn).await?.ok_or_else(unknown)?;
    let account = usage::call_account(db, &conversation, turn).await?;
    let mut stored = Vec::with_capacity(files.len());
    for file in files {
        stored.push(attachments::store(db, &account, lane, turn, file).await?);
    }
    Ok(stored)
}

/// Finds the conversation and the lane of an incomplete turn, behind the lane's lock, since the turn may just be ending.
async fn lock_lane<S: Session>(db: &S, turn: TurnId) -> VerbResult<Option<(ConversationId, LaneId)>, S> {
    // The conversation may be renamed between reading its name and locking its lane.
    for _attempt in 0..2 {
        let named: Option<(String,)> = db
            .find(
                "SELECT conversation FROM turns JOIN lanes ON lanes.id = turns.lane WHERE turns.id = $1",
                params![turn.0],
            )
            .await?;
        let Some((name,)) = named else { return Ok(None) };
        let conversation = rows::conversation(&name)?;
        let Some(Lane { id, .. }) = db.find_lane(&conversation).await? else { continue };
        let is_incomplete: bool = db
            .value(
                "SELECT EXISTS (SELECT 1 FROM turns WHERE id = $1 AND lane = $2 AND state = 'queued')",
                params![turn.0, id],
            )
            .await?;
        if is_incomplete {
            return Ok(Some((conversation, id)));
        }
    }
    Ok(None)
}

async fn append<S: Session>(
    db: &S,
    turn: TurnId,
    ordinal: Option<u32>,
    entry: &JournalEntry<AttachmentRef>,
) -> VerbResult<(), S> {
    db.run(
        "INSERT INTO journal (turn, position, ordinal, entry, created_at) \
         SELECT $1, COALESCE(MAX(position) + 1, 0), $2, $3, $4 FROM journal WHERE turn = $1",
        params![turn.0, ordinal, Json(entry), db.now().0],
    )
    .await?;
    Ok(())
}
