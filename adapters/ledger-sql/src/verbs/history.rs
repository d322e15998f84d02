//! The history: what the model sees of a conversation's earlier turns.

use std::collections::HashMap;

use satchel_domain::{ConversationId, HistoryMessage, NotificationDelivery, TurnId};
use satchel_ledger::stored::{AttachmentRecords, AttachmentRef};
use uuid::Uuid;

use crate::{
    attachments,
    lanes::{self, LaneId},
    parameters::Json,
    params,
    session::{Session, VerbResult},
};

/// Reads the last messages of a conversation since it last began anew, oldest first.
pub async fn history<S: Session>(
    db: &S,
    conversation: &ConversationId,
    limit: u32,
) -> VerbResult<Vec<HistoryMessage>, S> {
    match lanes::find_id(db, conversation).await? {
        Some(lane) => read(db, lane, limit).await,
        None => Ok(Vec::new()),
    }
}

/// Reads the last messages of a lane.
pub(crate) async fn read<S: Session>(db: &S, lane: LaneId, limit: u32) -> VerbResult<Vec<HistoryMessage>, S> {
    let rows: Vec<(Json<HistoryMessage<AttachmentRef>>, Uuid)> = db
        .all(
            "SELECT message, turn FROM history \
         WHERE lane = $1 AND sequence > (SELECT history_after FROM lanes WHERE id = $1) \
         ORDER BY sequence DESC LIMIT $2 + 0",
            params![lane, limit],
        )
        .await?;
    let named = rows.iter().flat_map(|(message, _)| message.0.files()).map(|file| file.id).collect();
    let records = attachments::read_records(db, named).await?;
    let is_notification =
        |message: &HistoryMessage<AttachmentRef>| matches!(message, HistoryMessage::Notification { .. });
    let notified = rows.iter().filter(|(message, _)| is_notification(&message.0)).map(|(_, turn)| *turn).collect();
    let deliveries = notification_deliveries(db, notified).await?;
    let mut messages = Vec::with_capacity(rows.len());
    for (message, turn) in rows.into_iter().rev() {
        let mut message = message.0.try_map_files(|file| records.resolve(file))?;
        if let HistoryMessage::Notification { delivery, .. } = &mut message {
            *delivery = deliveries.get(&turn).copied().unwrap_or_default();
        }
        messages.push(message);
    }
    Ok(messages)
}

/// Reads what became of the notifications of these turns.
async fn notification_deliveries<S: Session>(
    db: &S,
    turns: Vec<Uuid>,
) -> VerbResult<HashMap<Uuid, NotificationDelivery>, S> {
    let mut deliveries: HashMap<Uuid, NotificationDelivery> = HashMap::new();
    if turns.is_empty() {
        return Ok(deliveries);
    }
    let parts: Vec<(Uuid, String)> = db
        .all(
            "SELECT turn, state FROM parts WHERE turn IN (SELECT value FROM rarray($1)) AND kind <> 'notice'",
            params![turns],
        )
        .await?;
    for (turn, state) in parts {
        let delivery = deliveries.entry(turn).or_default();
        *delivery = delivery.with_part(&state);
    }
    Ok(deliveries)
}

/// Adds what a turn said.
pub(crate) async fn append<S: Session>(
    db: &S,
    lane: LaneId,
    turn: TurnId,
    messages: &[HistoryMessage],
    records: &AttachmentRecords,
) -> VerbResult<(), S> {
    for message in messages {
        let message = message.clone().try_map_files(|file| records.refer(&file))?;
        db.run(
            "INSERT INTO history (lane, sequence, turn, message) \
             SELECT $1, COALESCE(MAX(sequence), 0) + 1, $2, $3 FROM history WHERE lane = $1",
            params![lane, turn.0, Json(message)],
        )
        .await?;
    }
    Ok(())
}

/// Begins anew: what was said so far is no longer shown.
pub(crate) async fn reset<S: Session>(db: &S, lane: LaneId) -> VerbResult<(), S> {
    db.run(
        "UPDATE lanes SET history_after = (SELECT COALESCE(MAX(sequence), 0) FROM history WHERE lane = $1) WHERE id = $1",
        params![lane],
    ).await?;
    Ok(())
}

/// Removes all of it; it begins again at its first number.
pub(crate) async fn remove<S: Session>(db: &S, lane: LaneId) -> VerbResult<(), S> {
    db.run("DELETE FROM history WHERE lane = $1", params![lane]).await?;
    db.run("UPDATE lanes SET history_after = 0 WHERE id = $1", params![lane]).await?;
    Ok(())
}
