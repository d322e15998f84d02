//! Lanes: who works on a conversation, and by which number its rows name it.

use std::time::Duration;

use satchel_domain::{ChannelName, ConversationId, Timestamp};
use satchel_ledger::LaneState;
use satchel_ports::ledger::{ClaimedLane, HolderId, Lease, ReleaseMode, TURN_PRECEDENCE, WorkFilter};
use sqlx::{FromRow, Row, postgres::PgRow};
use uuid::Uuid;

use crate::{
    database::{Database, params},
    error::{Error, Result},
    rows, turns,
};

/// How many lanes are tried that others may have worked on meanwhile.
const MAX_CANDIDATES: u32 = 16;

/// The number by which rows name a conversation.
pub(crate) type LaneId = i64;

/// A lane as a verb finds it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    pub(crate) state: LaneState,
    /// The database's time when it was found, by which leases and the queue go.
    pub(crate) now: Timestamp,
}

impl Lane {
    /// A time of the database, by the clock of this process, which shows `now`: callers wait by that one.
    pub(crate) fn to_process_time(&self, time: Timestamp, now: Timestamp) -> Timestamp {
        Timestamp(now.0.saturating_add(time.0.saturating_sub(self.now.0)))
    }
}

impl FromRow<'_, PgRow> for Lane {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            state: LaneState {
                holder: row.try_get::<Option<Uuid>, _>("holder")?.map(HolderId),
                token: row.try_get::<i64, _>("token")?.cast_unsigned(),
                expires_at: Timestamp(row.try_get("expires_at")?),
            },
            now: Timestamp(row.try_get("now")?),
        })
    }
}

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

impl FromRow<'_, PgRow> for LockedLane {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self { lane: Lane::from_row(row)?, transaction: row.try_get("transaction")? })
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

/// Finds the number of a conversation; `None`, which is that of no row, before its first message.
pub(crate) async fn find_id(db: &Database, conversation: &ConversationId) -> Result<Option<LaneId>> {
    Ok(find(db, conversation).await?.map(|lane| lane.id))
}

/// Finds the lane of a lease. It fails when the lease is not, or no longer, that of the lane.
pub(crate) async fn require(db: &Database, lease: &Lease) -> Result<Lane> {
    let lane = find(db, &lease.conversation).await?;
    let held = lane.filter(|lane| satchel_ledger::is_held_by(&lane.state, lease));
    held.ok_or_else(|| Error::LeaseLost(lease.conversation.clone()))
}

/// Creates the lane of a conversation's first message. Where another process does so too, one of them is run once more.
pub(crate) async fn create(db: &Database, conversation: &ConversationId) -> Result<Lane> {
    let (name, channel) = (conversation.to_string(), conversation.channel().as_str());
    db.run("INSERT INTO lanes (conversation, channel) VALUES ($1, $2)", params![name, channel]).await?;
    find(db, conversation).await?.ok_or(Error::Row { what: "lane" })
}

/// Whether nobody holds a lane. That a process has died nobody knows on another machine, so its lease must expire.
pub(crate) fn is_free(db: &Database, lane: &Lane) -> bool {
    satchel_ledger::is_free(&lane.state, db.process.holder, lane.now, |_| false)
}

/// Claims a free lane. One that was not released costs its oldest incomplete turn a crash.
pub(crate) async fn claim(db: &Database, conversation: &ConversationId, lane: &Lane) -> Result<Lease> {
    let claim = satchel_ledger::claim(&lane.state, lane.now, db.settings().lease);
    if claim.is_after_crash {
        // The rest of an album may have come while nobody received it, and is only being received now.
        let album_ready_at = lane.now.saturating_add(db.settings().album_quiet);
        db.run(
            "UPDATE turns SET crashes = crashes + 1, ready_at = CASE \
                 WHEN album IS NULL OR ready_at > $2 OR EXISTS (SELECT 1 FROM journal WHERE journal.turn = turns.id) \
                     OR EXISTS (SELECT 1 FROM parts WHERE parts.turn = turns.id) THEN ready_at ELSE $2 END \
             WHERE sequence = \
                 (SELECT sequence FROM turns WHERE lane = $1 AND state = 'queued' ORDER BY sequence LIMIT 1)",
            params![lane.id, album_ready_at.0],
        )
        .await?;
    }
    let holder = db.process.holder;
    db.run(
        "UPDATE lanes SET holder = $2, token = $3, expires_at = $4 WHERE id = $1",
        params![lane.id, holder.0, claim.token.cast_signed(), claim.expires_at.0],
    )
    .await?;
    Ok(Lease { conversation: conversation.clone(), holder, token: claim.token })
}

/// A lane that seems free and to have work.
struct Candidate {
    locked: LockedLane,
    conversation: String,
}

impl FromRow<'_, PgRow> for Candidate {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self { locked: LockedLane::from_row(row)?, conversation: row.try_get("conversation")? })
    }
}

/// Claims the lane that waited longest among those of these channels that are free and have work. Lanes on which others
/// work at the moment are passed over, so that nobody waits for anybody.
pub(crate) async fn claim_first(
    db: &Database,
    channels: &[ChannelName],
    filter: &WorkFilter,
) -> Result<Option<ClaimedLane>> {
    let only = db.settings().only.as_ref().map(ConversationId::to_string);
    for _ in 0..MAX_CANDIDATES {
        // Before the database's clock is read: a process trusts its lease from here on, and so never for too long.
        let claimed_at = db.now();
        let Some(candidate) = find_candidate(db, channels, only.clone(), filter).await? else { return Ok(None) };
        let lane = candidate.locked.record_transaction(db, claimed_at).await;
        // The work was found before the lane was locked: others may have done it since.
        let conversation = rows::conversation(&candidate.conversation)?;
        if is_free(db, &lane) && has_work(db, &lane, &conversation, filter).await? {
            let unsettled = has_unsettled(db, lane.id).await?;
            let lease = claim(db, &conversation, &lane).await?;
            let turn = if filter.has_turns() { turns::claimed_turn(db, &lane).await? } else { None };
            return Ok(Some(ClaimedLane { lease, claimed_at, turn, unsettled }));
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
                       AND (holder IS NULL OR expires_at <= (SELECT now FROM moment)) \
                     UNION ALL \
                     SELECT lane, created_at AS since FROM parts JOIN lanes ON lanes.id = parts.lane \
                     WHERE NOT settled AND NOT draft AND state <> 'open' AND channel = ANY($4) \
                       AND (holder IS NULL OR expires_at <= (SELECT now FROM moment)) \
                       AND COALESCE((SELECT MIN(ready_at) FROM turns WHERE turns.lane = parts.lane \
                               AND turns.state = 'queued' AND ready_at <= (SELECT now FROM moment)) \
                           <= (SELECT now FROM moment) - $5, TRUE) \
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
    db.find(
        with_waiting_lanes!(select_lane!(
            ", pg_current_xact_id()::TEXT AS transaction, conversation \
             FROM waiting JOIN lanes ON lanes.id = waiting.lane \
             WHERE channel = ANY($1) AND (holder IS NULL OR expires_at <= (SELECT now FROM moment)) \
               AND ($2 IS NULL OR conversation = $2) \
             ORDER BY waiting.since LIMIT 1 FOR UPDATE OF lanes SKIP LOCKED"
        )),
        params![names, only, filter.has_turns(), delivering, precedence_ms(filter)],
    )
    .await
}

async fn has_work(db: &Database, lane: &Lane, conversation: &ConversationId, filter: &WorkFilter) -> Result<bool> {
    let (turns, deliveries) = (filter.has_turns(), filter.has_deliveries_on(conversation.channel()));
    db.value(
        "SELECT $3 AND EXISTS (SELECT 1 FROM turns WHERE lane = $1 AND state = 'queued' AND ready_at <= $2) \
             OR $4 AND EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled AND NOT draft AND state <> 'open') \
                 AND COALESCE((SELECT MIN(ready_at) FROM turns WHERE lane = $1 AND state = 'queued' \
                     AND ready_at <= $2) <= $2 - $5, TRUE)",
        params![lane.id, lane.now.0, turns, deliveries, precedence_ms(filter)],
    )
    .await
}

/// For how many milliseconds a turn that is ready comes before deliveries of its lane; none where a claim is for both.
fn precedence_ms(filter: &WorkFilter) -> i64 {
    if filter.has_turns() { 0 } else { i64::try_from(TURN_PRECEDENCE.as_millis()).unwrap_or(i64::MAX) }
}

pub(crate) async fn has_unsettled(db: &Database, lane: LaneId) -> Result<bool> {
    db.value("SELECT EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled)", params![lane]).await
}

/// Returns whether a turn is queued or runs, or something is still to be delivered.
pub(crate) async fn is_busy(db: &Database, lane: LaneId) -> Result<bool> {
    db.value(
        "SELECT EXISTS (SELECT 1 FROM turns WHERE lane = $1 AND state = 'queued') \
             OR EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled)",
        params![lane],
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

/// Gives a lane back; `false` when it has work and was kept.
pub(crate) async fn release(db: &Database, lease: &Lease, release: ReleaseMode) -> Result<bool> {
    let lane = require(db, lease).await?;
    match release {
        ReleaseMode::IfIdle => release_if_idle(db, lane.id).await,
        ReleaseMode::Always => {
            give_back(db, lane.id).await?;
            Ok(true)
        }
    }
}

/// Gives a held lane back if it has nothing to do: no turn is queued, ready or not, and no part is unsettled but for open
/// ones.
pub(crate) async fn release_if_idle(db: &Database, lane: LaneId) -> Result<bool> {
    let is_idle = db
        .value(
            "SELECT NOT EXISTS (SELECT 1 FROM turns WHERE lane = $1 AND state = 'queued') \
            AND NOT EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled AND state <> 'open')",
            params![lane],
        )
        .await?;
    if is_idle {
        give_back(db, lane).await?;
    }
    Ok(is_idle)
}

pub(crate) async fn give_back(db: &Database, lane: LaneId) -> Result<()> {
    db.run("UPDATE lanes SET holder = NULL, expires_at = 0 WHERE id = $1", params![lane]).await?;
    Ok(())
}
