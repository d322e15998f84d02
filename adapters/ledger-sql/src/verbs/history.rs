//! The history: what the model sees of a conversation's earlier turns.

use satchel_domain::{ConversationId, HistoryMessage, TurnId};
use satchel_ledger::stored::{AttachmentRecords, AttachmentRef};

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
    let rows: Vec<(Json<HistoryMessage<AttachmentRef>>,)> = db
        .all(
            "SELECT message FROM history \
         WHERE lane = $1 AND sequence > (SELECT history_after FROM lanes WHERE id = $1) \
         ORDER BY sequence DESC LIMIT $2 + 0",
            params![lane, limit],
        )
        .await?;
    let named = rows.iter().flat_map(|(message,)| message.0.files()).map(|file| file.id).collect();
    let records = attachments::read_records(db, named).await?;
    let messages = rows.into_iter().rev().map(|(message,)| message.0.try_map_files(|file| records.resolve(file)));
    Ok(messages.collect::<Result<_, _>>()?)
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
