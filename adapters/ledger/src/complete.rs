//! A turn's end: consumed messages, history, response and parts in one commit.

use satchel_domain::{
    InboxId, Part, PartContent, PartId, PartState, Timestamp,
    delivery::{self, DeliveryRules, Event},
    part::PlannedPart,
};
use satchel_ports::ledger::{CompletedTurn, HistoryChange, Lease};
use sqlx::{SqliteConnection, types::Json};
use uuid::Uuid;

use crate::{
    attachments,
    error::Result,
    journal::{open_stream, queued_sequence},
    lanes, parts,
    process::Process,
};

/// Completes a turn and returns its first part, if it was begun.
pub(crate) async fn complete_turn(
    connection: &mut SqliteConnection,
    process: &Process,
    lease: &Lease,
    mut completed: CompletedTurn,
) -> Result<Option<Part>> {
    lanes::check(connection, lease).await?;
    let now = process.now();
    let sequence = queued_sequence(connection, lease, completed.turn).await?;
    number_files(connection, lease, &mut completed).await?;
    consume(connection, lease, &completed).await?;
    write_history(connection, lease, &completed).await?;
    sqlx::query("UPDATE turns SET state = 'completed', ending = $2, response = $3, completed_at = $4 WHERE id = $1")
        .bind(completed.turn.0)
        .bind(Json(&completed.ending))
        .bind(Json(&completed.response))
        .bind(now.0)
        .execute(&mut *connection)
        .await?;
    for told in &completed.told {
        sqlx::query("UPDATE parts SET told = 1 WHERE id = $1 AND conversation = $2")
            .bind(told.0)
            .bind(lease.conversation.to_string())
            .execute(&mut *connection)
            .await?;
    }
    write_parts(connection, lease, &completed, sequence, now).await
}

/// Numbers the files that no outcome brought, such as declared ones, wherever the turn names them.
async fn number_files(connection: &mut SqliteConnection, lease: &Lease, completed: &mut CompletedTurn) -> Result<()> {
    let turn = completed.turn;
    let history = match &mut completed.history {
        HistoryChange::Append(messages) => messages.as_mut_slice(),
        HistoryChange::Reset => &mut [],
    };
    let named = attachments::of_response(&mut completed.response)
        .chain(completed.plan.parts.iter_mut().flat_map(|planned| attachments::of_content(&mut planned.content)))
        .chain(history.iter_mut().flat_map(attachments::of_message));
    for attachment in named.filter(|attachment| attachment.number == 0) {
        attachments::store(connection, &lease.conversation, turn, attachment).await?;
    }
    Ok(())
}

async fn consume(connection: &mut SqliteConnection, lease: &Lease, completed: &CompletedTurn) -> Result<()> {
    sqlx::query("UPDATE inbox SET consumed_by = $1 WHERE turn = $1 AND consumed_by IS NULL")
        .bind(completed.turn.0)
        .execute(&mut *connection)
        .await?;
    for InboxId(steered) in &completed.steered {
        // An id that isn't found is that of a message that was edited meanwhile: it stays queued, in its new words.
        let own_turn: Option<Uuid> = sqlx::query_scalar(
            "UPDATE inbox SET consumed_by = $2 WHERE id = $1 AND conversation = $3 AND consumed_by IS NULL \
             RETURNING turn",
        )
        .bind(steered)
        .bind(completed.turn.0)
        .bind(lease.conversation.to_string())
        .fetch_optional(&mut *connection)
        .await?;
        sqlx::query(
            "UPDATE turns SET state = 'merged', merged_into = $2 WHERE id = $1 AND state = 'queued' \
             AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.turn = $1 AND consumed_by IS NULL)",
        )
        .bind(own_turn)
        .bind(completed.turn.0)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

async fn write_history(connection: &mut SqliteConnection, lease: &Lease, completed: &CompletedTurn) -> Result<()> {
    let conversation = lease.conversation.to_string();
    match &completed.history {
        HistoryChange::Append(messages) => {
            for message in messages {
                sqlx::query("INSERT INTO history (conversation, turn, message) VALUES ($1, $2, $3)")
                    .bind(&conversation)
                    .bind(completed.turn.0)
                    .bind(Json(message))
                    .execute(&mut *connection)
                    .await?;
            }
        }
        HistoryChange::Reset => {
            sqlx::query(
                "UPDATE lanes SET history_after = \
                     (SELECT COALESCE(MAX(sequence), 0) FROM history WHERE conversation = $1) WHERE conversation = $1",
            )
            .bind(&conversation)
            .execute(connection)
            .await?;
        }
    }
    Ok(())
}

/// Stores the plan's parts, the first of them as the continuation of what was streamed, and begins it if it may.
async fn write_parts(
    connection: &mut SqliteConnection,
    lease: &Lease,
    completed: &CompletedTurn,
    sequence: i64,
    now: Timestamp,
) -> Result<Option<Part>> {
    let stream = open_stream(connection, completed.turn).await?;
    let mut planned = completed.plan.parts.clone();
    if let Some(stream) = &stream {
        sqlx::query("DELETE FROM parts WHERE id = $1").bind(stream.id.0).execute(&mut *connection).await?;
        if planned.iter().all(|planned| planned.refused.is_some()) {
            // Nothing will be written over what was streamed, so it must go.
            planned.insert(0, PlannedPart::of(PartContent::Withdraw));
        }
    }
    let first = planned.iter().position(|planned| planned.refused.is_none());
    let mut begun = None;
    for (index, planned) in planned.into_iter().enumerate() {
        let mut part = Part {
            id: PartId(Uuid::now_v7()),
            conversation: lease.conversation.clone(),
            turn: completed.turn,
            position: u32::try_from(index).unwrap_or(u32::MAX),
            state: planned.refused.map_or(PartState::Pending, |reason| PartState::Failed { reason }),
            content: planned.content,
            attempts: 0,
            first_attempt_at: None,
            labelled: false,
            target: None,
            reply_to: completed.reply_to.clone(),
            created_at: now,
        };
        if Some(index) == first {
            if let Some(stream) = &stream {
                part = continue_stream(part, stream, now);
            }
            let ready = part.state == PartState::Pending && !part.content.needs_preparation();
            if ready && !parts::is_busy(connection, &lease.conversation, completed.turn).await? {
                part = delivery::advance(&part, Event::Begun, now, &DeliveryRules::default());
                begun = Some(part.clone());
            }
        }
        parts::insert(connection, &part, sequence).await?;
    }
    Ok(begun)
}

/// The plan's first part as the continuation of the streamed one.
///
/// A message that is known is edited. One that may have arrived and has no id stays in doubt. One that surely did not
/// arrive is as if it had never been begun.
fn continue_stream(part: Part, stream: &Part, now: Timestamp) -> Part {
    let part = Part { id: stream.id, ..part };
    let tried = Part { attempts: stream.attempts, first_attempt_at: stream.first_attempt_at, ..part.clone() };
    match (&stream.target, &stream.state) {
        (Some(target), _) => Part { target: Some(target.clone()), ..tried },
        (None, PartState::Sending | PartState::InDoubt { .. }) => {
            let doubtful = delivery::advance(stream, Event::Interrupted, now, &DeliveryRules::default());
            Part { state: doubtful.state, labelled: stream.labelled, ..tried }
        }
        (None, _) => part,
    }
}
