//! A turn's end: consumed messages, history, response, closed questions and parts in one commit.

use satchel_domain::{AttachmentId, HistoryMessage, InboxId, Part, PartState, Timestamp, TurnId};
use satchel_ledger::{IncompleteTurn, reply_parts};
use satchel_ports::ledger::{CompletedTurn, HistoryChange, Lease};
use sqlx::types::Json;

use crate::{
    attachments::Records,
    audit,
    batch::Batch,
    error::Result,
    journal::{TurnProgress, read_progress},
    lanes, parts,
    process::Process,
    questions,
    session::Session,
};

/// Where a turn stands is either looked at, or expected to be as it mostly is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Looking,
    /// In one trip. It fails where the lane is not held, the turn is not incomplete, something of another is unsettled,
    /// or this one has a draft or has asked.
    AsExpected,
}

/// Whether a turn can be completed as expected: one that isn't known fails by its parts, if it has any.
pub(crate) fn can_be_as_expected(completed: &CompletedTurn) -> bool {
    !completed.plan.parts.is_empty()
}

/// Completes a turn and returns its first part, if that was started, and what was done to the history.
pub(crate) async fn complete_turn(
    session: &mut Session<'_>,
    process: &Process,
    lease: &Lease,
    mut completed: CompletedTurn,
    way: Way,
) -> Result<(Option<Part>, HistoryChange)> {
    let progress = match way {
        Way::Looking => read_progress(session, lease, completed.turn).await?,
        Way::AsExpected => TurnProgress::default(),
    };
    let now = process.now();
    let closes = progress.asks && questions::close_each(session, lease, completed.turn, now, None, |_| true).await?;
    let records = Records::of_conversation(session, &lease.conversation, named_files(&completed).collect()).await?;
    let mut batch = Batch::default();
    consume(&mut batch, lease, &completed);
    let history = std::mem::replace(&mut completed.history, HistoryChange::Append(Vec::new()));
    let history = write_history(&mut batch, lease, completed.turn, history, &records)?;
    if let Some(setting) = &completed.setting {
        lanes::change_setting(&mut batch, &lease.conversation, setting);
    }
    mark_completed(&mut batch, lease, &completed, &records, now, way)?;
    audit::insert(&mut batch, &lease.conversation, completed.turn, &completed.changes, now);
    if !completed.reported_failures.is_empty() {
        batch
            .add(
                "UPDATE parts SET reported = 1 WHERE +conversation = $1 AND id IN (SELECT unhex(value) FROM json_each($2))",
            )
            .bind(lease.conversation.to_string())
            .bind(Json(
                completed.reported_failures.iter().map(|told| format!("{:X}", told.0.simple())).collect::<Vec<_>>(),
            ));
    }
    let mut incomplete = progress.incomplete;
    incomplete.is_busy |= closes;
    let started = write_parts(&mut batch, process, lease, completed, &incomplete, &records, now)?;
    session.finish(batch);
    Ok((started, history))
}

/// The files that a turn's end names.
fn named_files(completed: &CompletedTurn) -> impl Iterator<Item = AttachmentId> {
    let history = match &completed.history {
        HistoryChange::Append(messages) => messages.as_slice(),
        HistoryChange::Reset => &[],
    };
    let sent = completed.plan.parts.iter().flat_map(|planned| planned.content.files()).map(|item| &item.attachment);
    let files = completed.response.attachments.iter().chain(sent).chain(history.iter().flat_map(HistoryMessage::files));
    files.map(|file| file.id)
}

fn consume(batch: &mut Batch, lease: &Lease, completed: &CompletedTurn) {
    batch.add("UPDATE inbox SET consumed_by = $1 WHERE turn = $1 AND consumed_by IS NULL").bind(completed.turn.0);
    for InboxId(steered) in &completed.steered {
        // An id that isn't found is that of a message that was edited meanwhile: it stays queued, in its new words.
        batch
            .add("UPDATE inbox SET consumed_by = $2 WHERE id = $1 AND conversation = $3 AND consumed_by IS NULL")
            .bind(steered)
            .bind(completed.turn.0)
            .bind(lease.conversation.to_string());
        batch
            .add(
                "UPDATE turns SET state = 'merged', merged_into = $2 \
                 WHERE id = (SELECT turn FROM inbox WHERE id = $1 AND consumed_by = $2) AND state = 'queued' \
                 AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.turn = turns.id AND consumed_by IS NULL)",
            )
            .bind(steered)
            .bind(completed.turn.0);
    }
}

/// Marks the turn as completed. Where what is expected isn't so, its state would be empty, and the statement fails.
fn mark_completed(
    batch: &mut Batch,
    lease: &Lease,
    completed: &CompletedTurn,
    records: &Records,
    now: Timestamp,
    way: Way,
) -> Result<()> {
    let response = completed.response.clone().try_map_files(|file| records.refer(&file))?;
    let ended = match way {
        Way::Looking => batch.add(
            "UPDATE turns SET ending = $3, response = $4, completed_at = $5, state = 'completed' \
             WHERE id = $2 AND conversation = $1",
        ),
        Way::AsExpected => batch.add(concat!(
            "UPDATE turns SET ending = $3, response = $4, completed_at = $5, state = \
             (SELECT 'completed' FROM lanes WHERE lanes.conversation = $1 AND holder = $6 AND token = $7 \
              AND turns.conversation = $1 AND turns.state = 'queued' AND NOT ",
            parts::busy!(),
            " AND NOT EXISTS (SELECT 1 FROM parts WHERE parts.turn = $2)) WHERE id = $2"
        )),
    };
    let ended = ended
        .bind(lease.conversation.to_string())
        .bind(completed.turn.0)
        .bind(Json(&completed.ending))
        .bind(Json(&response))
        .bind(now.0);
    if way == Way::AsExpected {
        ended.bind(lease.holder.0).bind(lease.token.cast_signed());
    }
    Ok(())
}

/// Writes what a turn does to the history, and returns it with the files as they are stored: one of them may have been
/// forgotten since its record was read.
fn write_history(
    batch: &mut Batch,
    lease: &Lease,
    turn: TurnId,
    change: HistoryChange,
    records: &Records,
) -> Result<HistoryChange> {
    match change {
        HistoryChange::Append(messages) if messages.is_empty() => Ok(HistoryChange::Append(messages)),
        HistoryChange::Append(messages) => {
            let refer = |message: HistoryMessage| message.try_map_files(|file| records.refer(&file));
            let messages = messages.into_iter().map(refer).collect::<Result<Vec<_>>>()?;
            batch
                .add(
                    "INSERT INTO history (conversation, turn, message) \
                     SELECT $1, $2, value FROM json_each($3) ORDER BY key",
                )
                .bind(lease.conversation.to_string())
                .bind(turn.0)
                .bind(Json(&messages));
            let resolve = |message: HistoryMessage<_>| message.try_map_files(|file| records.resolve(file));
            Ok(HistoryChange::Append(messages.into_iter().map(resolve).collect::<Result<_>>()?))
        }
        HistoryChange::Reset => {
            batch
                .add(
                    "UPDATE lanes SET history_after = \
                     (SELECT COALESCE(MAX(sequence), 0) FROM history WHERE conversation = $1) WHERE conversation = $1",
                )
                .bind(lease.conversation.to_string());
            Ok(HistoryChange::Reset)
        }
    }
}

/// Stores the parts of the reply, and returns the first one if it was started.
fn write_parts(
    batch: &mut Batch,
    process: &Process,
    lease: &Lease,
    completed: CompletedTurn,
    incomplete: &IncompleteTurn,
    records: &Records,
    now: Timestamp,
) -> Result<Option<Part>> {
    let CompletedTurn { turn, plan, reply_to, .. } = completed;
    let next_id = &mut || process.new_id();
    let mut parts = reply_parts(&lease.conversation, turn, plan, reply_to.as_ref(), incomplete, next_id, now);
    if let Some(draft) = &incomplete.draft {
        batch.add("DELETE FROM parts WHERE id = $1").bind(draft.id.0);
    }
    let started = parts.iter_mut().find(|part| part.state == PartState::Sending);
    let started = started.map(|started| {
        started.operation = started.operation.clone().try_map_files(|file| records.refresh(&file))?;
        Ok(started.clone())
    });
    for part in &parts {
        parts::insert(batch, part, records)?;
    }
    started.transpose()
}
