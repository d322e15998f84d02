//! Turns that become a part of the one before them, because their messages belong together.

use satchel_domain::TurnId;
use satchel_ports::ledger::Lease;
use uuid::Uuid;

use crate::{
    lanes, params,
    session::{Session, VerbResult},
};

/// The album of a turn, and when it is ready.
type Readiness = (Option<String>, i64);

/// Makes turns queued behind another one a part of it. Returns `false`, and changes nothing, if something of them or of it is
/// journalled or shown, or if they are not queued behind it any more.
pub async fn join_turns<S: Session>(db: &S, lease: &Lease, turn: TurnId, followers: &[TurnId]) -> VerbResult<bool, S> {
    let lane = lanes::require(db, lease).await?.id;
    let followers: Vec<Uuid> = followers.iter().map(|follower| follower.0).collect();
    let queued: Option<Readiness> = db
        .find(
            "SELECT album, ready_at FROM turns WHERE id = $1 AND lane = $2 AND state = 'queued' \
               AND NOT EXISTS (SELECT 1 FROM journal WHERE journal.turn = turns.id) \
               AND NOT EXISTS (SELECT 1 FROM parts WHERE parts.turn = turns.id)",
            params![turn.0, lane],
        )
        .await?;
    let joining: Vec<Readiness> = db
        .all(
            "SELECT album, ready_at FROM turns WHERE id IN (SELECT value FROM rarray($1)) AND lane = $2 \
               AND state = 'queued' AND sequence > (SELECT sequence FROM turns WHERE id = $3) \
               AND NOT EXISTS (SELECT 1 FROM journal WHERE journal.turn = turns.id) \
               AND NOT EXISTS (SELECT 1 FROM parts WHERE parts.turn = turns.id) ORDER BY sequence",
            params![&followers, lane, turn.0],
        )
        .await?;
    let Some((album, ready_at)) = queued.filter(|_| !followers.is_empty() && joining.len() == followers.len()) else {
        return Ok(false);
    };
    // The rest of an album that has joined finds its turn by the album's name.
    let album = joining.iter().rev().find_map(|(album, _)| album.clone()).or(album);
    let ready_at = joining.iter().map(|(_, ready_at)| *ready_at).fold(ready_at, i64::max);
    db.run(
        "UPDATE inbox SET turn = $1 WHERE lane = $2 AND turn IN (SELECT value FROM rarray($3)) AND consumed_by IS NULL",
        params![turn.0, lane, &followers],
    )
    .await?;
    db.run(
        "UPDATE turns SET state = 'merged', merged_into = $1 WHERE lane = $2 AND id IN (SELECT value FROM rarray($3))",
        params![turn.0, lane, &followers],
    )
    .await?;
    db.run("UPDATE turns SET album = $2, ready_at = $3 WHERE id = $1", params![turn.0, album, ready_at]).await?;
    Ok(true)
}
