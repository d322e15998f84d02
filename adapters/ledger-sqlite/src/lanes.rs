//! Lanes: who works on a conversation, and by which number its rows name it.

use std::time::Duration;

use rusqlite::{OptionalExtension, Row, params};
use satchel_domain::{ChannelName, ConversationId, Timestamp};
use satchel_ledger::LaneState;
use satchel_ports::ledger::{ClaimedLane, HolderId, Lease, ReleaseMode, TURN_PRECEDENCE, WorkFilter};
use uuid::Uuid;

use crate::{
    database::{Database, Json, Query, hex_ids},
    error::{Error, Result},
    rows, turns,
};

/// How many lanes a search brings back, so that a few that others take meanwhile don't end it.
const MAX_CANDIDATES: i64 = 8;

/// The number by which rows name a conversation.
pub(crate) type LaneId = i64;

/// A lane as a verb finds it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    pub(crate) state: LaneState,
}

impl TryFrom<&Row<'_>> for Lane {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get("id")?,
            state: LaneState {
                holder: row.get::<_, Option<Uuid>>("holder")?.map(HolderId),
                token: row.get::<_, i64>("token")?.cast_unsigned(),
                expires_at: Timestamp(row.get("expires_at")?),
            },
        })
    }
}

/// Finds the lane of a conversation; there is none before its first message.
pub(crate) fn find(db: &Database, conversation: &ConversationId) -> Result<Option<Lane>> {
    db.find("SELECT id, holder, token, expires_at FROM lanes WHERE conversation = ?1", [conversation.to_string()])
}

/// Finds the number of a conversation; `None`, which is that of no row, before its first message.
pub(crate) fn find_id(db: &Database, conversation: &ConversationId) -> Result<Option<LaneId>> {
    let mut statement = db.prepare_cached("SELECT id FROM lanes WHERE conversation = ?1")?;
    Ok(statement.query_row([conversation.to_string()], |row| row.get(0)).optional()?)
}

/// Finds the lane of a lease. It fails when the lease is not, or no longer, that of the lane.
pub(crate) fn require(db: &Database, lease: &Lease) -> Result<Lane> {
    let lane = find(db, &lease.conversation)?;
    let held = lane.filter(|lane| satchel_ledger::is_held_by(&lane.state, lease));
    held.ok_or_else(|| Error::LeaseLost(lease.conversation.clone()))
}

/// Creates the lane of a conversation's first message.
pub(crate) fn create(db: &Database, conversation: &ConversationId) -> Result<Lane> {
    db.run(
        "INSERT INTO lanes (conversation, channel) VALUES (?1, ?2)",
        [conversation.to_string().as_str(), conversation.channel().as_str()],
    )?;
    let state = LaneState { holder: None, token: 0, expires_at: Timestamp(0) };
    Ok(Lane { id: db.last_insert_rowid(), state })
}

pub(crate) fn is_free(db: &Database, lane: &Lane, now: Timestamp) -> bool {
    satchel_ledger::is_free(&lane.state, db.process.holder, now, |holder| db.process.owners.is_gone(holder))
}

/// Claims a free lane. One that was not released costs its oldest incomplete turn a crash.
pub(crate) fn claim(db: &Database, conversation: &ConversationId, lane: &Lane, now: Timestamp) -> Result<Lease> {
    let claim = satchel_ledger::claim(&lane.state, now, db.settings().lease);
    if claim.is_after_crash {
        // The rest of an album may have come while nobody received it, and is only being received now.
        let album_ready_at = now.saturating_add(db.settings().album_quiet);
        db.run(
            "UPDATE turns SET crashes = crashes + 1, ready_at = CASE \
                 WHEN album IS NULL OR ready_at > ?2 OR EXISTS (SELECT 1 FROM journal WHERE journal.turn = turns.id) \
                     OR EXISTS (SELECT 1 FROM parts WHERE parts.turn = turns.id) THEN ready_at ELSE ?2 END \
             WHERE sequence = \
                 (SELECT sequence FROM turns WHERE lane = ?1 AND state = 'queued' ORDER BY sequence LIMIT 1)",
            [lane.id, album_ready_at.0],
        )?;
    }
    let holder = db.process.holder;
    db.run(
        "UPDATE lanes SET holder = ?2, token = ?3, expires_at = ?4 WHERE id = ?1",
        params![lane.id, holder.0, claim.token.cast_signed(), claim.expires_at.0],
    )?;
    Ok(Lease { conversation: conversation.clone(), holder, token: claim.token })
}

/// Finds lanes that seem free and to have work, those that waited longest first.
///
/// Only a hint, read beside the writer so that an idle process writes nothing; [`claim_first`] looks again.
pub(crate) fn find_candidates(
    db: &Database,
    channels: &[ChannelName],
    filter: &WorkFilter,
) -> Result<Vec<ConversationId>> {
    let holders: Vec<(Uuid,)> =
        db.all("SELECT DISTINCT holder FROM lanes WHERE holder IS NOT NULL AND holder <> ?1", [db.process.holder.0])?;
    let gone = holders.into_iter().filter(|(holder,)| db.process.owners.is_gone(HolderId(*holder)));
    let delivering: Vec<_> = channels.iter().filter(|channel| filter.has_deliveries_on(channel)).collect();
    let found: Vec<(String,)> = db.all(
        "SELECT lanes.conversation FROM ( \
             SELECT lane, MIN(ready_at) AS since FROM turns \
             WHERE state = 'queued' AND ready_at <= ?1 AND ?6 GROUP BY lane \
             UNION ALL \
             SELECT lane, MIN(created_at) AS since FROM parts \
             WHERE settled = 0 AND draft = 0 AND state <> 'open' \
                 AND (SELECT channel FROM lanes WHERE id = parts.lane) IN (SELECT value FROM json_each(?7)) AND COALESCE( \
                 (SELECT MIN(ready_at) FROM turns WHERE turns.lane = parts.lane AND turns.state = 'queued' \
                      AND ready_at <= ?1) <= ?1 - ?8, TRUE) \
             GROUP BY lane \
         ) AS work JOIN lanes ON lanes.id = work.lane \
         WHERE lanes.channel IN (SELECT value FROM json_each(?2)) \
           AND (holder IS NULL OR expires_at <= ?1 OR hex(holder) IN (SELECT value FROM json_each(?3))) \
           AND (?5 IS NULL OR lanes.conversation = ?5) \
         GROUP BY lanes.id ORDER BY MIN(work.since) LIMIT ?4 + 0",
        params![
            db.now().0,
            Json(channels),
            hex_ids(gone.map(|(holder,)| holder)),
            MAX_CANDIDATES,
            db.settings().only.as_ref().map(ConversationId::to_string),
            filter.has_turns(),
            Json(&delivering),
            precedence_ms(filter),
        ],
    )?;
    found.iter().map(|(conversation,)| rows::conversation(conversation)).collect()
}

/// Claims the first of these lanes that is free and has work.
pub(crate) fn claim_first(
    db: &Database,
    candidates: &[ConversationId],
    filter: &WorkFilter,
) -> Result<Option<ClaimedLane>> {
    for conversation in candidates {
        let now = db.now();
        let Some(lane) = find(db, conversation)?.filter(|lane| is_free(db, lane, now)) else { continue };
        if has_work(db, lane.id, conversation, filter, now)? {
            let unsettled = has_unsettled(db, lane.id)?;
            let lease = claim(db, conversation, &lane, now)?;
            let turn = if filter.has_turns() { turns::claimed_turn(db, &lane, now)? } else { None };
            return Ok(Some(ClaimedLane { lease, claimed_at: now, turn, unsettled }));
        }
    }
    Ok(None)
}

fn has_work(
    db: &Database,
    lane: LaneId,
    conversation: &ConversationId,
    filter: &WorkFilter,
    now: Timestamp,
) -> Result<bool> {
    let (turns, deliveries) = (filter.has_turns(), filter.has_deliveries_on(conversation.channel()));
    db.value(
        "SELECT ?3 AND EXISTS (SELECT 1 FROM turns WHERE lane = ?1 AND state = 'queued' AND ready_at <= ?2) \
             OR ?4 AND EXISTS (SELECT 1 FROM parts WHERE lane = ?1 AND settled = 0 AND draft = 0 AND state <> 'open') \
                 AND COALESCE((SELECT MIN(ready_at) FROM turns WHERE lane = ?1 AND state = 'queued' \
                     AND ready_at <= ?2) <= ?2 - ?5, TRUE)",
        params![lane, now.0, turns, deliveries, precedence_ms(filter)],
    )
}

/// For how many milliseconds a turn that is ready comes before deliveries of its lane; none where a claim is for both.
fn precedence_ms(filter: &WorkFilter) -> i64 {
    if filter.has_turns() { 0 } else { i64::try_from(TURN_PRECEDENCE.as_millis()).unwrap_or(i64::MAX) }
}

pub(crate) fn has_unsettled(db: &Database, lane: LaneId) -> Result<bool> {
    db.value("SELECT EXISTS (SELECT 1 FROM parts WHERE lane = ?1 AND settled = 0)", [lane])
}

/// Returns whether a turn is queued or runs, or something is still to be delivered.
pub(crate) fn is_busy(db: &Database, lane: LaneId) -> Result<bool> {
    db.value(
        "SELECT EXISTS (SELECT 1 FROM turns WHERE lane = ?1 AND state = 'queued') \
             OR EXISTS (SELECT 1 FROM parts WHERE lane = ?1 AND settled = 0)",
        [lane],
    )
}

/// Returns how long the turn has waited that has waited longest in a lane without a holder.
pub(crate) fn longest_wait(db: &Database) -> Result<Option<Duration>> {
    let now = db.now();
    let since: Option<i64> = db.value(
        "SELECT MIN(ready_at) FROM turns JOIN lanes ON lanes.id = turns.lane \
         WHERE state = 'queued' AND ready_at <= ?1 AND (holder IS NULL OR expires_at <= ?1)",
        [now.0],
    )?;
    Ok(since.map(|since| now.saturating_duration_since(Timestamp(since))))
}

/// Prolongs leases and returns those that are lost.
pub(crate) fn renew(db: &Database, leases: &[Lease]) -> Result<Vec<Lease>> {
    let expires_at = db.now().saturating_add(db.settings().lease);
    let mut lost = Vec::new();
    for lease in leases {
        let renewed = db.run(
            "UPDATE lanes SET expires_at = ?4 WHERE conversation = ?1 AND holder = ?2 AND token = ?3",
            params![lease.conversation.to_string(), lease.holder.0, lease.token.cast_signed(), expires_at.0],
        )?;
        if renewed == 0 {
            lost.push(lease.clone());
        }
    }
    Ok(lost)
}

/// Gives a lane back; `false` when it has work and was kept.
pub(crate) fn release(db: &Database, lease: &Lease, release: ReleaseMode) -> Result<bool> {
    let lane = require(db, lease)?;
    match release {
        ReleaseMode::IfIdle => release_if_idle(db, lane.id),
        ReleaseMode::Always => {
            give_back(db, lane.id)?;
            Ok(true)
        }
    }
}

/// Gives a held lane back if it has nothing to do: no turn is queued, ready or not, and no part is unsettled but for open
/// ones.
pub(crate) fn release_if_idle(db: &Database, lane: LaneId) -> Result<bool> {
    let is_idle = db.value(
        "SELECT NOT EXISTS (SELECT 1 FROM turns WHERE lane = ?1 AND state = 'queued') \
            AND NOT EXISTS (SELECT 1 FROM parts WHERE lane = ?1 AND settled = 0 AND state <> 'open')",
        [lane],
    )?;
    if is_idle {
        give_back(db, lane)?;
    }
    Ok(is_idle)
}

pub(crate) fn give_back(db: &Database, lane: LaneId) -> Result<()> {
    db.run("UPDATE lanes SET holder = NULL, expires_at = 0 WHERE id = ?1", [lane])?;
    Ok(())
}
