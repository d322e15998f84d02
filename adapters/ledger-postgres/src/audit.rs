//! The audit log: lines are added in the commit of what they describe, and removed by age alone.

use satchel_domain::{Timestamp, TurnId};
use satchel_ports::{AuditQuery, AuditRecord, FileChange};
use uuid::Uuid;

use crate::{
    database::{Database, Json, params},
    error::Result,
    lanes::{self, LaneId},
    rows,
};

type AuditRow = (i64, String, Uuid, Json<FileChange>);

/// Adds a line for each change, in their order.
pub(crate) async fn insert(db: &Database, lane: LaneId, turn: TurnId, changes: &[FileChange]) -> Result<()> {
    let now = db.now();
    for change in changes {
        db.run(
            "INSERT INTO audit (at, lane, turn, change) VALUES ($1, $2, $3, $4)",
            params![now.0, lane, turn.0, Json(change)],
        )
        .await?;
    }
    Ok(())
}

/// Reads lines, newest first.
pub(crate) async fn list(db: &Database, query: &AuditQuery) -> Result<Vec<AuditRecord>> {
    let (since, limit) = (query.since.map_or(i64::MIN, |since| since.0), query.limit.map(i64::from));
    // Two statements: one for both could use no index.
    let rows: Vec<AuditRow> = match &query.conversation {
        Some(conversation) => {
            db.all(
                "SELECT at, conversation, turn, change FROM audit JOIN lanes ON lanes.id = audit.lane \
             WHERE lane = $1 AND at >= $2 ORDER BY sequence DESC LIMIT $3",
                params![lanes::find_id(db, conversation).await?, since, limit],
            )
            .await?
        }
        None => {
            db.all(
                "SELECT at, conversation, turn, change FROM audit JOIN lanes ON lanes.id = audit.lane \
             WHERE at >= $1 ORDER BY sequence DESC LIMIT $2",
                params![since, limit],
            )
            .await?
        }
    };
    rows.into_iter().map(record).collect()
}

fn record((at, conversation, turn, Json(change)): AuditRow) -> Result<AuditRecord> {
    let conversation = rows::conversation(&conversation)?;
    Ok(AuditRecord { at: Timestamp(at), conversation, turn: TurnId(turn), change })
}

/// Removes the lines that were committed before this time.
pub(crate) async fn prune(db: &Database, before: Timestamp) -> Result<u64> {
    let removed = db.run("DELETE FROM audit WHERE at < $1", params![before.0]).await?;
    Ok(removed)
}
