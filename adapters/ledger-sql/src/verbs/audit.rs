//! The audit log: lines are added in the commit of what they describe, and removed by age alone.

use satchel_domain::{Timestamp, TurnId};
use satchel_ports::{AuditQuery, AuditRecord, FileChange};
use uuid::Uuid;

use crate::{
    error::VerbError,
    lanes::{self, LaneId},
    parameters::Json,
    params, rows,
    session::{Session, VerbResult},
};

type AuditRow = (i64, String, Uuid, Json<FileChange>);

/// Adds a line for each change, in their order.
pub(crate) async fn insert<S: Session>(
    db: &S,
    lane: LaneId,
    turn: TurnId,
    changes: &[FileChange],
) -> VerbResult<(), S> {
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
pub async fn audit<S: Session>(db: &S, query: &AuditQuery) -> VerbResult<Vec<AuditRecord>, S> {
    let (since, limit) = (query.since.map_or(i64::MIN, |since| since.0), query.limit.map_or(i64::MAX, i64::from));
    // Two statements: one for both could use no index.
    let rows: Vec<AuditRow> = match &query.conversation {
        Some(conversation) => {
            db.all(
                "SELECT at, conversation, turn, change FROM audit JOIN lanes ON lanes.id = audit.lane \
             WHERE lane = $1 AND at >= $2 ORDER BY sequence DESC LIMIT $3 + 0",
                params![lanes::find_id(db, conversation).await?, since, limit],
            )
            .await?
        }
        None => {
            db.all(
                "SELECT at, conversation, turn, change FROM audit JOIN lanes ON lanes.id = audit.lane \
             WHERE at >= $1 ORDER BY sequence DESC LIMIT $2 + 0",
                params![since, limit],
            )
            .await?
        }
    };
    Ok(rows.into_iter().map(record).collect::<Result<_, _>>()?)
}

fn record((at, conversation, turn, Json(change)): AuditRow) -> Result<AuditRecord, VerbError> {
    let conversation = rows::conversation(&conversation)?;
    Ok(AuditRecord { at: Timestamp(at), conversation, turn: TurnId(turn), change })
}

/// Removes the lines that were committed before this time.
pub async fn prune_audit<S: Session>(db: &S, before: Timestamp) -> VerbResult<u64, S> {
    let removed = db.run("DELETE FROM audit WHERE at < $1", params![before.0]).await?;
    Ok(removed)
}
