//! A turn's end: consumed messages, history, response, closed questions and parts in one commit.

use satchel_domain::{
    AttachmentId, HistoryMessage, InboxId, MessageRef, Part, PartContent, PartId, PartState, part::Operation,
};
use satchel_ledger::{
    reply_parts,
    stored::{AttachmentRecords, StoredError},
};
use satchel_ports::ledger::{CompletedTurn, HistoryChange, Lease};

use crate::{
    attachments,
    error::VerbError,
    lanes::{self, LaneId},
    parameters::Json,
    params,
    progress::TurnProgress,
    session::{Session, VerbResult},
    verbs::{
        audit, conversation_settings, corrections::mark_correction, forget_conversation, history, parts, questions,
        records, reply_questions,
    },
};

/// Completes a turn and returns its first part, if that was started.
pub async fn complete_turn<S: Session>(
    db: &S,
    lease: &Lease,
    completed: &CompletedTurn,
) -> VerbResult<Option<Part>, S> {
    let mut progress = TurnProgress::read(db, lease, completed.turn).await?;
    let (lane, turn) = (progress.lane, completed.turn);
    progress.incomplete.is_busy |= questions::close_each(db, lane, turn, None, |_| true).await?;
    let answered = match &completed.answered {
        Some(command) => reply_questions::find_answered(db, lane, command).await?,
        None => Vec::new(),
    };
    // A forgotten conversation keeps no text that could take the question's place.
    let gone = match &completed.history {
        HistoryChange::Forget(_) => reply_questions::messages(&answered),
        HistoryChange::Append(_) | HistoryChange::Reset => {
            progress.incomplete.is_busy |= reply_questions::close_answered(db, answered).await?;
            Vec::new()
        }
    };
    let records = attachments::require_records(db, &lease.conversation, named_files(completed).collect()).await?;
    consume_messages(db, lane, completed).await?;
    match &completed.history {
        HistoryChange::Append(messages) => history::append(db, lane, turn, messages, &records).await?,
        HistoryChange::Reset => history::reset(db, lane).await?,
        HistoryChange::Forget(scope) => {
            // Its process has looked before it removed anything, and looks again when it repeats the command.
            if records::has_earlier_work(db, turn).await? {
                return Err(VerbError::EarlierWork(turn).into());
            }
            forget_conversation::forget_before(db, &lease.conversation, lane, progress.sequence, scope).await?
        }
    }
    if let Some(setting) = &completed.setting {
        conversation_settings::change(db, lane, setting).await?;
    }
    mark_completed(db, completed, &records).await?;
    audit::insert(db, lane, turn, &completed.changes).await?;
    mark_reported(db, lane, &completed.reported_failures).await?;
    if completed.hands_over {
        lanes::give_back(db, lane).await?;
    }
    insert_parts(db, lease, completed, progress, &records, gone).await
}

/// The files that a turn's end names.
fn named_files(completed: &CompletedTurn) -> impl Iterator<Item = AttachmentId> {
    let history = match &completed.history {
        HistoryChange::Append(messages) => messages.as_slice(),
        HistoryChange::Reset | HistoryChange::Forget(_) => &[],
    };
    let sent = completed.plan.parts.iter().flat_map(|planned| planned.content.files()).map(|item| &item.attachment);
    let files = completed.response.attachments.iter().chain(sent).chain(history.iter().flat_map(HistoryMessage::files));
    files.map(|file| file.id)
}

async fn consume_messages<S: Session>(db: &S, lane: LaneId, completed: &CompletedTurn) -> VerbResult<(), S> {
    let turn = completed.turn.0;
    db.run("UPDATE inbox SET consumed_by = $1 WHERE turn = $1 AND consumed_by IS NULL", params![turn]).await?;
    for message in &completed.steered {
        let InboxId(steered) = message;
        let updated = db
            .run(
                "UPDATE inbox SET consumed_by = $2 WHERE id = $1 AND lane = $3 AND consumed_by IS NULL",
                params![steered, turn, lane],
            )
            .await?;
        // An id that isn't found is that of a message that was edited meanwhile: it stays queued, in its new words.
        if updated == 0
            && let Some(text) = completed.injected_texts.get(message)
        {
            mark_correction(db, lane, *message, text).await?;
        }
        db.run(
            "UPDATE turns SET state = 'merged', merged_into = $2 \
             WHERE id = (SELECT turn FROM inbox WHERE id = $1 AND consumed_by = $2) AND state = 'queued' \
             AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.turn = turns.id AND consumed_by IS NULL)",
            params![steered, turn],
        )
        .await?;
    }
    Ok(())
}

async fn mark_completed<S: Session>(
    db: &S,
    completed: &CompletedTurn,
    records: &AttachmentRecords,
) -> VerbResult<(), S> {
    let response = completed.response.clone().try_map_files(|file| records.refer(&file))?;
    db.run(
        "UPDATE turns SET ending = $2, response = $3, completed_at = $4, state = 'completed' WHERE id = $1",
        params![completed.turn.0, Json(&completed.ending), Json(&response), db.now().0],
    )
    .await?;
    Ok(())
}

/// Records of which failed parts the model knows.
async fn mark_reported<S: Session>(db: &S, lane: LaneId, failures: &[PartId]) -> VerbResult<(), S> {
    if !failures.is_empty() {
        db.run(
            // By their ids: the lane may have many.
            "UPDATE parts SET reported = TRUE WHERE +lane = $1 AND id IN (SELECT value FROM rarray($2))",
            params![lane, failures.iter().map(|part| part.0).collect::<Vec<_>>()],
        )
        .await?;
    }
    Ok(())
}

/// Stores the parts of the reply and behind them the deletions of messages, and returns the first one if it was started.
async fn insert_parts<S: Session>(
    db: &S,
    lease: &Lease,
    completed: &CompletedTurn,
    progress: TurnProgress,
    records: &AttachmentRecords,
    gone: Vec<MessageRef>,
) -> VerbResult<Option<Part>, S> {
    let CompletedTurn { turn, plan, reply_to, hands_over, .. } = completed;
    let TurnProgress { lane, sequence, incomplete } = progress;
    let next_id = &mut || db.new_id();
    let mut parts =
        reply_parts(&lease.conversation, *turn, plan.clone(), reply_to.as_ref(), &incomplete, next_id, db.now());
    let next_position = parts.iter().map(|part| part.position + 1).max().unwrap_or(incomplete.next_position);
    for (position, message) in (next_position..).zip(gone) {
        let content = PartContent::from_text("");
        let part = Part::new(PartId(db.new_id()), lease.conversation.clone(), *turn, position, content, db.now());
        parts.push(Part { operation: Operation::Delete { message }, ..part });
    }
    if !*hands_over && !incomplete.is_busy {
        satchel_ledger::start_first(&mut parts, db.now());
    }
    if let Some(draft) = &incomplete.draft {
        db.run("DELETE FROM parts WHERE id = $1", params![draft.id.0]).await?;
    }
    for part in &parts {
        parts::insert(db, lane, sequence, part, records).await?;
    }
    let started = parts.into_iter().find(|part| part.state == PartState::Sending);
    let as_stored = started.map(|started| {
        // One of its files may have been forgotten since its record was read.
        let operation = started.operation.clone().try_map_files(|file| records.refresh(&file))?;
        Ok::<_, StoredError>(Part { operation, ..started })
    });
    Ok(as_stored.transpose()?)
}
