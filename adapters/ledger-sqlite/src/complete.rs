//! A turn's end: consumed messages, history, response, closed questions and parts in one commit.

use rusqlite::params;
use satchel_domain::{AttachmentId, HistoryMessage, InboxId, Part, PartId, PartState};
use satchel_ledger::reply_parts;
use satchel_ports::ledger::{CompletedTurn, HistoryChange, Lease};

use crate::{
    attachments::Records,
    audit, conversation_settings,
    database::{Database, Json, Query, hex_ids},
    error::Result,
    forget_conversation, history,
    lanes::{self, LaneId},
    parts,
    progress::TurnProgress,
    questions,
};

/// Completes a turn and returns its first part, if that was started.
pub(crate) fn complete_turn(db: &Database, lease: &Lease, completed: CompletedTurn) -> Result<Option<Part>> {
    let mut progress = TurnProgress::read(db, lease, completed.turn)?;
    let (lane, turn) = (progress.lane, completed.turn);
    progress.incomplete.is_busy |= questions::close_each(db, lane, turn, None, |_| true)?;
    let records = Records::of_conversation(db, &lease.conversation, named_files(&completed).collect())?;
    consume_messages(db, lane, &completed)?;
    match &completed.history {
        HistoryChange::Append(messages) => history::append(db, lane, turn, messages, &records)?,
        HistoryChange::Reset => history::reset(db, lane)?,
        HistoryChange::Forget => forget_conversation::forget_before(db, &lease.conversation, lane, progress.sequence)?,
    }
    if let Some(setting) = &completed.setting {
        conversation_settings::change(db, lane, setting)?;
    }
    mark_completed(db, &completed, &records)?;
    audit::insert(db, lane, turn, &completed.changes)?;
    mark_reported(db, lane, &completed.reported_failures)?;
    if completed.hands_over {
        lanes::give_back(db, lane)?;
    }
    insert_parts(db, lease, completed, progress, &records)
}

/// The files that a turn's end names.
fn named_files(completed: &CompletedTurn) -> impl Iterator<Item = AttachmentId> {
    let history = match &completed.history {
        HistoryChange::Append(messages) => messages.as_slice(),
        HistoryChange::Reset | HistoryChange::Forget => &[],
    };
    let sent = completed.plan.parts.iter().flat_map(|planned| planned.content.files()).map(|item| &item.attachment);
    let files = completed.response.attachments.iter().chain(sent).chain(history.iter().flat_map(HistoryMessage::files));
    files.map(|file| file.id)
}

fn consume_messages(db: &Database, lane: LaneId, completed: &CompletedTurn) -> Result<()> {
    let turn = completed.turn.0;
    db.run("UPDATE inbox SET consumed_by = ?1 WHERE turn = ?1 AND consumed_by IS NULL", [turn])?;
    for InboxId(steered) in &completed.steered {
        // An id that isn't found is that of a message that was edited meanwhile: it stays queued, in its new words.
        db.run(
            "UPDATE inbox SET consumed_by = ?2 WHERE id = ?1 AND lane = ?3 AND consumed_by IS NULL",
            params![steered, turn, lane],
        )?;
        db.run(
            "UPDATE turns SET state = 'merged', merged_into = ?2 \
             WHERE id = (SELECT turn FROM inbox WHERE id = ?1 AND consumed_by = ?2) AND state = 'queued' \
             AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.turn = turns.id AND consumed_by IS NULL)",
            params![steered, turn],
        )?;
    }
    Ok(())
}

fn mark_completed(db: &Database, completed: &CompletedTurn, records: &Records) -> Result<()> {
    let response = completed.response.clone().try_map_files(|file| records.refer(&file))?;
    db.run(
        "UPDATE turns SET ending = ?2, response = ?3, completed_at = ?4, state = 'completed' WHERE id = ?1",
        params![completed.turn.0, Json(&completed.ending), Json(&response), db.now().0],
    )?;
    Ok(())
}

/// Records of which failed parts the model knows.
fn mark_reported(db: &Database, lane: LaneId, failures: &[PartId]) -> Result<()> {
    if !failures.is_empty() {
        db.run(
            "UPDATE parts SET reported = 1 WHERE +lane = ?1 AND id IN (SELECT unhex(value) FROM json_each(?2))",
            params![lane, hex_ids(failures.iter().map(|part| part.0))],
        )?;
    }
    Ok(())
}

/// Stores the parts of the reply, and returns the first one if it was started.
fn insert_parts(
    db: &Database,
    lease: &Lease,
    completed: CompletedTurn,
    progress: TurnProgress,
    records: &Records,
) -> Result<Option<Part>> {
    let CompletedTurn { turn, plan, reply_to, hands_over, .. } = completed;
    let TurnProgress { lane, sequence, incomplete } = progress;
    let next_id = &mut || db.new_id();
    let mut parts = reply_parts(&lease.conversation, turn, plan, reply_to.as_ref(), &incomplete, next_id, db.now());
    if !hands_over && !incomplete.is_busy {
        satchel_ledger::start_first(&mut parts, db.now());
    }
    if let Some(draft) = &incomplete.draft {
        db.run("DELETE FROM parts WHERE id = ?1", [draft.id.0])?;
    }
    for part in &parts {
        parts::insert(db, lane, sequence, part, records)?;
    }
    let started = parts.into_iter().find(|part| part.state == PartState::Sending);
    let as_stored = started.map(|started| {
        // One of its files may have been forgotten since its record was read.
        let operation = started.operation.clone().try_map_files(|file| records.refresh(&file))?;
        Ok(Part { operation, ..started })
    });
    as_stored.transpose()
}
