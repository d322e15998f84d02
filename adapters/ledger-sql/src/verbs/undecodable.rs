//! Updates that a channel's adapter could not read: the newest of each channel are stored, and counted.

use satchel_domain::UndecodableUpdate;
use satchel_ports::ledger::UndecodableCount;

use crate::{
    parameters::Json,
    params, rows,
    session::{Session, VerbResult},
};

/// Counts the updates of each channel that were not read.
pub const COUNT_UNDECODABLE: &str =
    "SELECT channel, COUNT(*) FROM undecodable_updates GROUP BY channel ORDER BY channel";

/// How many updates of a channel are stored.
const MAX_UPDATES: i64 = 1_000;

/// Stores an update; `false` when its key was known already.
pub async fn record_undecodable<S: Session>(db: &S, update: &UndecodableUpdate) -> VerbResult<bool, S> {
    db.lock(&update.channel).await?;
    let stored = db
        .run(
            "INSERT INTO undecodable_updates (channel, key, raw, reason, received_at) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT (channel, key) DO NOTHING",
            params![update.channel.as_str(), update.key, Json(&update.raw), update.reason, db.now().0],
        )
        .await?;
    if stored == 0 {
        return Ok(false);
    }
    let dropped = db
        .run(
            "DELETE FROM undecodable_updates WHERE channel = $1 AND sequence <= \
           (SELECT sequence FROM undecodable_updates WHERE channel = $1 ORDER BY sequence DESC LIMIT 1 OFFSET $2)",
            params![update.channel.as_str(), MAX_UPDATES],
        )
        .await?;
    if dropped > 0 {
        tracing::warn!(channel = %update.channel, dropped, "too many undecodable updates; deleting the oldest");
    }
    Ok(true)
}

/// Counts them by channel.
pub async fn count_undecodable<S: Session>(db: &S) -> VerbResult<Vec<UndecodableCount>, S> {
    let rows: Vec<(String, i64)> = db.all(COUNT_UNDECODABLE, params![]).await?;
    let count = |(channel, updates): (String, i64)| {
        Ok(UndecodableCount { channel: rows::channel(channel)?, updates: rows::number(updates, "number of updates")? })
    };
    rows.into_iter().map(count).collect()
}
