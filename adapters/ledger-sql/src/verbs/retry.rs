//! A turn that is answered once more: its messages are queued as a new turn, and what it said leaves the history.

use satchel_domain::{InboundMessage, InboxId, TurnId};
use satchel_ports::ledger::{RetryOutcome, TurnRetry};
use uuid::Uuid;

use crate::{
    lanes::{self, LaneId},
    parameters::Json,
    params,
    session::{Session, VerbResult},
};

/// Queues the messages of a lane's last turn once more.
pub async fn retry_turn<S: Session>(db: &S, retry: &TurnRetry) -> VerbResult<RetryOutcome, S> {
    let Some(lane) = lanes::find_id(db, &retry.conversation).await? else { return Ok(RetryOutcome::NotFound) };
    let turn: Option<(i64, Option<Uuid>)> = db
        .find(
            "SELECT sequence, replaced_by FROM turns WHERE id = $1 AND lane = $2 AND state <> 'merged'",
            params![retry.turn.0, lane],
        )
        .await?;
    let Some((sequence, replaced_by)) = turn else { return Ok(RetryOutcome::NotFound) };
    if let Some(turn) = replaced_by {
        return repeated(db, TurnId(turn), retry).await;
    }
    if lanes::is_busy(db, lane).await? {
        return Ok(RetryOutcome::Busy);
    }
    let has_followers: bool = db
        .value(
            "SELECT EXISTS (SELECT 1 FROM turns WHERE lane = $1 AND sequence > $2 AND state <> 'merged')",
            params![lane, sequence],
        )
        .await?;
    if has_followers {
        return Ok(RetryOutcome::NotLast);
    }
    let mut messages = read_messages(db, retry.turn).await?;
    messages.retain(|message| !retry.excluded.contains(&message.id));
    if messages.iter().any(|stored| stored.message.system_task.is_some()) {
        return Ok(RetryOutcome::SystemTask);
    }
    let new = queue_copies(db, lane, messages, retry.text.as_deref()).await?;
    // What a restored copy holds back of it is answered now.
    db.run("DELETE FROM held_turns WHERE turn = $1", params![retry.turn.0]).await?;
    db.run("UPDATE turns SET replaced_by = $2 WHERE id = $1", params![retry.turn.0, new]).await?;
    db.run("DELETE FROM history WHERE lane = $1 AND turn = $2", params![lane, retry.turn.0]).await?;
    Ok(RetryOutcome::Queued(TurnId(new)))
}

/// What a repeated request gets: the turn that it made, unless it asks for other words than that has.
async fn repeated<S: Session>(db: &S, turn: TurnId, retry: &TurnRetry) -> VerbResult<RetryOutcome, S> {
    let text: Option<(String,)> = db
        .find(
            "SELECT COALESCE(json_extract(message, '$.text'), '') FROM inbox WHERE turn = $1 ORDER BY sequence DESC LIMIT 1",
            params![turn.0],
        )
        .await?;
    let is_same = retry.text.as_ref().is_none_or(|wanted| text.is_some_and(|(text,)| text == *wanted));
    Ok(if is_same { RetryOutcome::Queued(turn) } else { RetryOutcome::NotLast })
}

/// A message that a turn has answered.
struct AnsweredMessage {
    sequence: i64,
    id: InboxId,
    message: InboundMessage,
}

/// Reads what a turn has answered, in the order of arrival: its own messages and those that were injected into it.
async fn read_messages<S: Session>(db: &S, turn: TurnId) -> VerbResult<Vec<AnsweredMessage>, S> {
    let rows: Vec<(i64, Uuid, Json<InboundMessage>)> = db
        .all(
            "SELECT sequence, id, message FROM inbox WHERE turn = $1 AND consumed_by = turn \
         UNION ALL \
         SELECT sequence, id, message FROM inbox WHERE consumed_by = $1 AND consumed_by <> turn ORDER BY sequence",
            params![turn.0],
        )
        .await?;
    let to_message =
        |(sequence, id, message): (_, _, Json<_>)| AnsweredMessage { sequence, id: InboxId(id), message: message.0 };
    Ok(rows.into_iter().map(to_message).collect())
}

/// Queues copies of messages as one turn. Their files are those that are stored already.
async fn queue_copies<S: Session>(
    db: &S,
    lane: LaneId,
    messages: Vec<AnsweredMessage>,
    new_text: Option<&str>,
) -> VerbResult<Uuid, S> {
    let (turn, now) = (db.new_id(), db.now());
    db.run(
        "INSERT INTO turns (id, lane, state, ready_at) VALUES ($1, $2, 'queued', ledger_now())",
        params![turn, lane],
    )
    .await?;
    let last = messages.len().saturating_sub(1);
    for (position, AnsweredMessage { sequence: original, mut message, .. }) in messages.into_iter().enumerate() {
        if let Some(text) = new_text.filter(|_| position == last) {
            text.clone_into(&mut message.text);
        }
        // No channel makes such a key.
        message.key = format!("retry:{turn}:{position}");
        (message.edit_of, message.album, message.may_continue) = (None, None, false);
        let copy: i64 = db.value(
            "INSERT INTO inbox (id, lane, turn, message, received_at) VALUES ($1, $2, $3, $4, $5) RETURNING sequence",
            params![db.new_id(), lane, turn, Json(&message), now.0],
        ).await?;
        db.run(
            "INSERT INTO inbox_keys (channel, key, message) VALUES ($1, $2, $3)",
            params![message.conversation.channel().as_str(), message.key, copy],
        )
        .await?;
        db.run(
            "INSERT INTO inbox_files (message, position, state, reference, attachment, refused, sha256, transcription) \
             SELECT $2, position, state, reference, attachment, refused, sha256, transcription \
             FROM inbox_files WHERE message = $1",
            params![original, copy],
        )
        .await?;
    }
    Ok(turn)
}
