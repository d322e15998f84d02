//! The audit log: lines are added in the commit of what they describe, and removed by age alone.

use satchel_domain::{ConversationId, Timestamp, TurnId};
use satchel_ports::{AuditQuery, AuditRecord, FileChange};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{batch::Batch, error::Result, rows, session::Session};

#[derive(sqlx::FromRow)]
struct AuditRow {
    at: i64,
    conversation: String,
    turn: Uuid,
    change: Json<FileChange>,
}

impl TryFrom<AuditRow> for AuditRecord {
    type Error = crate::error::Error;

    fn try_from(AuditRow { at, conversation, turn, change }: AuditRow) -> Result<Self> {
        let conversation = rows::conversation(&conversation)?;
        Ok(Self { at: Timestamp(at), conversation, turn: TurnId(turn), change: change.0 })
    }
}

/// Adds a line for each change, in their order.
pub(crate) fn insert(
    batch: &mut Batch,
    conversation: &ConversationId,
    turn: TurnId,
    changes: &[FileChange],
    now: Timestamp,
) {
    if changes.is_empty() {
        return;
    }
    batch
        .add(
            "INSERT INTO audit (at, conversation, turn, change) \
             SELECT $1, $2, $3, value FROM json_each($4) ORDER BY key",
        )
        .bind(now.0)
        .bind(conversation.to_string())
        .bind(turn.0)
        .bind(Json(changes));
}

/// Reads lines, newest first.
pub(crate) async fn list(session: &mut Session<'_>, query: &AuditQuery) -> Result<Vec<AuditRecord>> {
    // Two statements: one for both could use no index.
    let sql = match query.conversation {
        Some(_) => {
            "SELECT at, conversation, turn, change FROM audit \
             WHERE conversation = $1 AND at >= $2 ORDER BY sequence DESC LIMIT $3"
        }
        None => {
            "SELECT at, conversation, turn, change FROM audit \
             WHERE $1 IS NULL AND at >= $2 ORDER BY sequence DESC LIMIT $3"
        }
    };
    let rows: Vec<AuditRow> = sqlx::query_as(sql)
        .bind(query.conversation.as_ref().map(ToString::to_string))
        .bind(query.since.map_or(i64::MIN, |since| since.0))
        .bind(query.limit.map_or(-1, i64::from))
        .fetch_all(session.connection().await?)
        .await?;
    rows.into_iter().map(AuditRecord::try_from).collect()
}

/// Removes the lines that were committed before this time.
pub(crate) async fn prune(session: &mut Session<'_>, before: Timestamp) -> Result<u64> {
    let removed =
        sqlx::query("DELETE FROM audit WHERE at < $1").bind(before.0).execute(session.connection().await?).await?;
    Ok(removed.rows_affected())
}
