//! The history: what the model sees of a conversation's earlier turns.

use satchel_domain::{HistoryMessage, TurnId};

use crate::{
    attachments::{AttachmentRef, Records},
    database::{Database, Json, params},
    error::Result,
    lanes::LaneId,
};

/// Reads the last messages since it last began anew, oldest first.
pub(crate) async fn read(db: &Database, lane: LaneId, limit: u32) -> Result<Vec<HistoryMessage>> {
    let rows: Vec<(Json<HistoryMessage<AttachmentRef>>,)> = db
        .all(
            "SELECT message FROM history \
         WHERE lane = $1 AND sequence > (SELECT history_after FROM lanes WHERE id = $1) \
         ORDER BY sequence DESC LIMIT $2",
            params![lane, limit],
        )
        .await?;
    let named = rows.iter().flat_map(|(message,)| message.0.files()).map(|file| file.id).collect();
    let records = Records::read(db, named).await?;
    let messages = rows.into_iter().rev().map(|(message,)| message.0.try_map_files(|file| records.resolve(file)));
    messages.collect()
}

/// Adds what a turn said.
pub(crate) async fn append(
    db: &Database,
    lane: LaneId,
    turn: TurnId,
    messages: &[HistoryMessage],
    records: &Records,
) -> Result<()> {
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
pub(crate) async fn reset(db: &Database, lane: LaneId) -> Result<()> {
    db.run(
        "UPDATE lanes SET history_after = (SELECT COALESCE(MAX(sequence), 0) FROM history WHERE lane = $1) WHERE id = $1",
        params![lane],
    ).await?;
    Ok(())
}

/// Removes all of it; it begins again at its first number.
pub(crate) async fn remove(db: &Database, lane: LaneId) -> Result<()> {
    db.run("DELETE FROM history WHERE lane = $1", params![lane]).await?;
    db.run("UPDATE lanes SET history_after = 0 WHERE id = $1", params![lane]).await?;
    Ok(())
}
