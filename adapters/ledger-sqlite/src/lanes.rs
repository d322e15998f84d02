//! Lanes on SQLite: which are free and have work, and their leases.

use std::time::Duration;

use satchel_domain::{ChannelName, ConversationId, Timestamp};
use satchel_ledger::rows;
use satchel_ledger_sql::{
    Session, TurnSelection,
    lanes::{claim_for_work, min_age_ms, precedence_ms},
    params,
};
use satchel_ports::ledger::{ClaimedLane, HolderId, Lease, WorkFilter};
use uuid::Uuid;

use crate::{database::Database, error::Result};

/// How many lanes a search brings back, so that a few that others take meanwhile don't end it.
const MAX_CANDIDATES: i64 = 8;

/// Finds lanes that seem free and to have work, those that waited longest first.
///
/// Only a hint, read beside the writer so that an idle process writes nothing; [`claim_first`] looks again.
pub(crate) async fn find_candidates(
    db: &Database,
    channels: &[ChannelName],
    filter: &WorkFilter,
) -> Result<Vec<ConversationId>> {
    let holders: Vec<(Uuid,)> = db
        .all(
            "SELECT DISTINCT holder FROM lanes WHERE holder IS NOT NULL AND holder <> $1",
            params![db.process.holder.0],
        )
        .await?;
    let gone = holders.into_iter().map(|(holder,)| holder).filter(|holder| db.is_gone(HolderId(*holder)));
    let names: Vec<String> = channels.iter().map(ToString::to_string).collect();
    let delivering = channels.iter().filter(|channel| filter.has_deliveries_on(channel));
    let scope = &db.settings().scope;
    let TurnSelection { all, own } = scope.turns();
    let found: Vec<(String,)> = db
        .all(
            "SELECT lanes.conversation FROM ( \
                 SELECT lane, MIN(ready_at) AS since FROM turns \
                 WHERE state = 'queued' AND ready_at <= $1 AND $6 AND ($9 OR id IN (SELECT value FROM rarray($10))) \
                 GROUP BY lane \
                 UNION ALL \
                 SELECT lane, MIN(created_at) AS since FROM parts \
                 WHERE NOT settled AND NOT draft AND state <> 'open' AND ($9 OR turn IN (SELECT value FROM rarray($10))) \
                     AND (SELECT channel FROM lanes WHERE id = parts.lane) IN (SELECT value FROM rarray($7)) \
                     AND COALESCE((SELECT MIN(ready_at) FROM turns WHERE turns.lane = parts.lane \
                         AND turns.state = 'queued' AND ready_at <= $1) <= $1 - $8, TRUE) \
                     AND ($11 IS NULL OR (SELECT created_at <= $1 - $11 AND NOT (kind = 'notice' \
                             AND (state = 'pending' OR state = 'waiting' AND attempts = 0)) FROM parts AS waiting \
                         WHERE waiting.lane = parts.lane AND NOT settled AND NOT draft AND state <> 'open' \
                         ORDER BY state = 'pending', turn_sequence, position LIMIT 1)) \
                 GROUP BY lane \
             ) AS work JOIN lanes ON lanes.id = work.lane \
             WHERE lanes.channel IN (SELECT value FROM rarray($2)) \
               AND (holder IS NULL OR expires_at <= $1 OR holder IN (SELECT value FROM rarray($3))) \
               AND ($5 IS NULL OR lanes.conversation = $5) \
             GROUP BY lanes.id ORDER BY MIN(work.since) LIMIT $4 + 0",
            params![
                db.now().0,
                names,
                gone.collect::<Vec<_>>(),
                MAX_CANDIDATES,
                scope.conversation().map(ConversationId::to_string),
                filter.has_turns(),
                delivering.map(ToString::to_string).collect::<Vec<_>>(),
                precedence_ms(filter),
                all,
                own,
                min_age_ms(filter),
            ],
        )
        .await?;
    Ok(found.iter().map(|(conversation,)| rows::conversation(conversation)).collect::<Result<_, _>>()?)
}

/// Claims the first of these lanes that is free and has work.
pub(crate) async fn claim_first(
    db: &Database,
    candidates: &[ConversationId],
    filter: &WorkFilter,
) -> Result<Option<ClaimedLane>> {
    for conversation in candidates {
        let now = db.now();
        let Some(lane) = db.find_lane(conversation).await? else { continue };
        if let Some(claimed) = claim_for_work(db, conversation, &lane, filter, now).await? {
            return Ok(Some(claimed));
        }
    }
    Ok(None)
}

/// Returns how long the turn has waited that has waited longest in a lane without a holder.
pub(crate) async fn longest_wait(db: &Database) -> Result<Option<Duration>> {
    let now = db.now();
    let since: Option<i64> = db
        .value(
            "SELECT MIN(ready_at) FROM turns JOIN lanes ON lanes.id = turns.lane \
             WHERE state = 'queued' AND ready_at <= $1 AND (holder IS NULL OR expires_at <= $1)",
            params![now.0],
        )
        .await?;
    Ok(since.map(|since| now.saturating_duration_since(Timestamp(since))))
}

/// Prolongs leases and returns those that are lost.
pub(crate) async fn renew(db: &Database, leases: &[Lease]) -> Result<Vec<Lease>> {
    let expires_at = db.now().saturating_add(db.settings().lease);
    let mut lost = Vec::new();
    for lease in leases {
        let renewed = db
            .run(
                "UPDATE lanes SET expires_at = $4 WHERE conversation = $1 AND holder = $2 AND token = $3",
                params![lease.conversation.to_string(), lease.holder.0, lease.token.cast_signed(), expires_at.0],
            )
            .await?;
        if renewed == 0 {
            lost.push(lease.clone());
        }
    }
    Ok(lost)
}
