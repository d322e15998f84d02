//! Updates that a channel's adapter could not read: the newest of each channel are kept, and counted.

use satchel_domain::UndecodableUpdate;
use satchel_ports::ledger::UndecodableCount;
use sqlx::types::Json;

use crate::{error::Result, process::Process, rows, session::Session};

/// How many updates of a channel are kept.
const MAX_UPDATES: i64 = 1_000;

/// Keeps an update; `false` when its key was known already.
pub(crate) async fn keep(session: &mut Session<'_>, process: &Process, update: &UndecodableUpdate) -> Result<bool> {
    let kept = sqlx::query(
        "INSERT INTO undecodable_updates (channel, key, raw, reason, received_at) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (channel, key) DO NOTHING",
    )
    .bind(update.channel.as_str())
    .bind(&update.key)
    .bind(Json(&update.raw))
    .bind(&update.reason)
    .bind(process.now().0)
    .execute(session.connection().await?)
    .await?;
    if kept.rows_affected() == 0 {
        return Ok(false);
    }
    let dropped = sqlx::query(
        "DELETE FROM undecodable_updates WHERE channel = $1 AND sequence <= \
           (SELECT sequence FROM undecodable_updates WHERE channel = $1 ORDER BY sequence DESC LIMIT 1 OFFSET $2)",
    )
    .bind(update.channel.as_str())
    .bind(MAX_UPDATES)
    .execute(session.connection().await?)
    .await?
    .rows_affected();
    if dropped > 0 {
        tracing::warn!(channel = %update.channel, dropped, "too many undecodable updates; deleting the oldest");
    }
    Ok(true)
}

/// Counts them by channel.
pub(crate) async fn counts(session: &mut Session<'_>) -> Result<Vec<UndecodableCount>> {
    let rows: Vec<(String, i64)> =
        sqlx::query_as("SELECT channel, COUNT(*) FROM undecodable_updates GROUP BY channel ORDER BY channel")
            .fetch_all(session.connection().await?)
            .await?;
    let count = |(channel, updates): (String, i64)| {
        Ok(UndecodableCount { channel: rows::channel(channel)?, updates: rows::number(updates, "number of updates")? })
    };
    rows.into_iter().map(count).collect()
}
