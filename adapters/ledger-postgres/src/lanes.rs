//! Lanes on PostgreSQL: which are free and have work, and their leases.

use std::time::Duration;

use satchel_domain::{ChannelName, ConversationId, Timestamp};
use satchel_ledger::rows;
use satchel_ledger_sql::{
    FromRow, Row, Session, TurnSelection,
    lanes::{Lane, claim_for_work, min_age_ms, precedence_ms},
    params,
};
use satchel_ports::ledger::{ClaimedLane, Lease, WorkFilter};
use uuid::Uuid;

use crate::{error::Result, session::Database};

/// How many lanes are tried that others may have worked on meanwhile.
const MAX_CANDIDATES: u32 = 16;

/// The columns of [`Lane`], followed by the rest of the statement.
macro_rules! select_lane {
    ($($rest:expr),+) => {
        concat!("SELECT lanes.id, holder, token, expires_at, ledger_now() AS now", $($rest),+)
    };
}

/// Finds the lane of a conversation; there is none before its first message. A verb that writes has it for itself until it
/// ends: whoever else writes to the lane waits here.
pub(crate) async fn find(db: &Database, conversation: &ConversationId) -> Result<Option<Lane>> {
    if !db.is_writing {
        return db.find(select_lane!(" FROM lanes WHERE conversation = $1"), params![conversation.to_string()]).await;
    }
    let asked_at = db.now();
    let locked: Option<LockedLane> = db
        .find(
            select_lane!(", pg_current_xact_id()::TEXT AS transaction FROM lanes WHERE conversation = $1 FOR UPDATE"),
            params![conversation.to_string()],
        )
        .await?;
    match locked {
        Some(locked) => Ok(Some(locked.record_transaction(db, asked_at).await)),
        None => Ok(None),
    }
}

/// A lane that the verb has for itself.
struct LockedLane {
    lane: Lane,
    transaction: String,
}

impl FromRow for LockedLane {
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        Ok(Self { lane: Lane::from_row(row)?, transaction: row.get("transaction")? })
    }
}

impl LockedLane {
    /// Keeps the transaction's number, by which its outcome is found where its commit gets no answer, and how the clocks
    /// differ. `asked_at` is the time when the lane was asked for.
    async fn record_transaction(self, db: &Database, asked_at: Timestamp) -> Lane {
        db.record_number(self.transaction).await;
        db.record_clock_lead(asked_at, self.lane.now);
        self.lane
    }
}

/// A lane that seems free and to have work.
struct Candidate {
    locked: LockedLane,
    conversation: String,
}

impl FromRow for Candidate {
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        Ok(Self { locked: LockedLane::from_row(row)?, conversation: row.get("conversation")? })
    }
}

/// Claims the lane that waited longest among those of these channels that are free and have work. Lanes on which others
/// work at the moment are passed over, so that nobody waits for anybody.
pub(crate) async fn claim_first(
    db: &Database,
    channels: &[ChannelName],
    filter: &WorkFilter,
) -> Result<Option<ClaimedLane>> {
    let only = db.settings().scope.conversation().map(ConversationId::to_string);
    for _ in 0..MAX_CANDIDATES {
        // Before the database's clock is read: a process trusts its lease from here on, and so never for too long.
        let claimed_at = db.now();
        let Some(candidate) = find_candidate(db, channels, only.clone(), filter).await? else { return Ok(None) };
        let lane = candidate.locked.record_transaction(db, claimed_at).await;
        // The work was found before the lane was locked: others may have done it since.
        let conversation = rows::conversation(&candidate.conversation)?;
        if let Some(claimed) = claim_for_work(db, &conversation, &lane, filter, claimed_at).await? {
            return Ok(Some(claimed));
        }
    }
    Ok(None)
}

/// The lanes that are free and have work, each with since when. What is only used here is computed once, and held lanes are left
/// out at once: most turns that are queued run, and a plan for few rows must not be slow where there are many.
macro_rules! with_waiting_lanes {
    ($($rest:expr),+) => {
        concat!(
            "WITH moment AS MATERIALIZED (SELECT ledger_now() AS now), \
             waiting AS MATERIALIZED ( \
                 SELECT lane, MIN(since) AS since FROM ( \
                     SELECT lane, ready_at AS since FROM turns JOIN lanes ON lanes.id = turns.lane \
                     WHERE state = 'queued' AND ready_at <= (SELECT now FROM moment) AND $3 \
                       AND ($6 OR turns.id = ANY($7)) \
                       AND (holder IS NULL OR expires_at <= (SELECT now FROM moment)) \
                     UNION ALL \
                     SELECT lane, created_at AS since FROM parts JOIN lanes ON lanes.id = parts.lane \
                     WHERE NOT settled AND NOT draft AND state <> 'open' AND channel = ANY($4) \
                       AND ($6 OR parts.turn = ANY($7)) \
                       AND (holder IS NULL OR expires_at <= (SELECT now FROM moment)) \
                       AND COALESCE((SELECT MIN(ready_at) FROM turns WHERE turns.lane = parts.lane \
                               AND turns.state = 'queued' AND ready_at <= (SELECT now FROM moment)) \
                           <= (SELECT now FROM moment) - $5, TRUE) \
                       AND ($8 IS NULL OR (SELECT upcoming.created_at <= (SELECT now FROM moment) - $8 \
                                 AND NOT (upcoming.kind = 'notice' AND (upcoming.state = 'pending' \
                                     OR upcoming.state = 'waiting' AND upcoming.attempts = 0)) \
                               FROM parts AS upcoming \
                               WHERE upcoming.lane = parts.lane AND NOT upcoming.settled AND NOT upcoming.draft \
                                 AND upcoming.state <> 'open' \
                               ORDER BY upcoming.state = 'pending', upcoming.turn_sequence, upcoming.position \
                               LIMIT 1)) \
                 ) AS work GROUP BY lane) ",
            $($rest),+
        )
    };
}

async fn find_candidate(
    db: &Database,
    channels: &[ChannelName],
    only: Option<String>,
    filter: &WorkFilter,
) -> Result<Option<Candidate>> {
    let names: Vec<String> = channels.iter().map(ToString::to_string).collect();
    let delivering = channels.iter().filter(|channel| filter.has_deliveries_on(channel));
    let delivering: Vec<String> = delivering.map(ToString::to_string).collect();
    let TurnSelection { all, own } = db.settings().scope.turns();
    db.find(
        with_waiting_lanes!(select_lane!(
            ", pg_current_xact_id()::TEXT AS transaction, conversation \
             FROM waiting JOIN lanes ON lanes.id = waiting.lane \
             WHERE channel = ANY($1) AND (holder IS NULL OR expires_at <= (SELECT now FROM moment)) \
               AND ($2 IS NULL OR conversation = $2) \
             ORDER BY waiting.since LIMIT 1 FOR UPDATE OF lanes SKIP LOCKED"
        )),
        params![names, only, filter.has_turns(), delivering, precedence_ms(filter), all, own, min_age_ms(filter)],
    )
    .await
}

/// Returns how long the turn has waited that has waited longest in a lane without a holder.
pub(crate) async fn longest_wait(db: &Database) -> Result<Option<Duration>> {
    let waited: Option<i64> = db
        .value(
            "WITH moment AS MATERIALIZED (SELECT ledger_now() AS now) \
             SELECT (SELECT now FROM moment) - MIN(ready_at) FROM turns JOIN lanes ON lanes.id = turns.lane \
             WHERE state = 'queued' AND ready_at <= (SELECT now FROM moment) \
               AND (holder IS NULL OR expires_at <= (SELECT now FROM moment))",
            params![],
        )
        .await?;
    Ok(waited.map(|waited| Duration::from_millis(waited.unsigned_abs())))
}

/// Prolongs leases and returns those that are lost.
pub(crate) async fn renew(db: &Database, leases: &[Lease]) -> Result<Vec<Lease>> {
    let (mut names, mut holders, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
    for lease in leases {
        names.push(lease.conversation.to_string());
        holders.push(lease.holder.0);
        tokens.push(lease.token.cast_signed());
    }
    let duration = i64::try_from(db.settings().lease.as_millis()).unwrap_or(i64::MAX);
    let renewed: Vec<(String, Uuid, i64)> = db
        .all(
            "UPDATE lanes SET expires_at = ledger_now() + $4 \
             FROM unnest($1, $2, $3) AS held (conversation, holder, token) \
             WHERE lanes.conversation = held.conversation AND lanes.holder = held.holder AND lanes.token = held.token \
             RETURNING lanes.conversation, lanes.holder, lanes.token",
            params![names, holders, tokens, duration],
        )
        .await?;
    let is_renewed = |lease: &&Lease| {
        let key = (lease.conversation.to_string(), lease.holder.0, lease.token.cast_signed());
        renewed.contains(&key)
    };
    Ok(leases.iter().filter(|lease| !is_renewed(lease)).cloned().collect())
}
