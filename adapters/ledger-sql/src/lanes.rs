//! Lanes: who works on a conversation, and by which number its rows name it.

use satchel_domain::{ConversationId, Timestamp};
use satchel_ledger::LaneState;
use satchel_ports::ledger::{ClaimedLane, HolderId, Lease, ReleaseMode, TURN_PRECEDENCE, WorkFilter};
use uuid::Uuid;

use crate::{
    columns::{FromRow, Row},
    error::VerbError,
    params,
    session::{Session, VerbResult},
    verbs::turns,
    work_scope::{TurnSelection, is_holder_of_own_turns},
};

/// The number by which rows name a conversation.
pub type LaneId = i64;

/// A lane as a verb finds it.
#[derive(Debug)]
pub struct Lane {
    /// Its number.
    pub id: LaneId,
    /// Who works on it.
    pub state: LaneState,
    /// The time when it was found, by which leases and queues go.
    pub now: Timestamp,
}

impl FromRow for Lane {
    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        Ok(Self {
            id: row.get("id")?,
            state: LaneState {
                holder: row.get::<Option<Uuid>>("holder")?.map(HolderId),
                token: row.get::<i64>("token")?.cast_unsigned(),
                expires_at: Timestamp(row.get("expires_at")?),
            },
            now: Timestamp(row.get("now")?),
        })
    }
}

/// Finds the number of a conversation; `None`, which is that of no row, before its first message.
pub async fn find_id<S: Session>(db: &S, conversation: &ConversationId) -> VerbResult<Option<LaneId>, S> {
    Ok(db.find_lane(conversation).await?.map(|lane| lane.id))
}

/// Finds the lane of a lease. It fails when the lease is not, or no longer, that of the lane.
pub(crate) async fn require<S: Session>(db: &S, lease: &Lease) -> VerbResult<Lane, S> {
    let lane = db.find_lane(&lease.conversation).await?;
    let held = lane.filter(|lane| satchel_ledger::is_held_by(&lane.state, lease));
    Ok(held.ok_or_else(|| VerbError::LeaseLost(lease.conversation.clone()))?)
}

/// Creates the lane of a conversation's first message. Where another process does so too, one of them is run once more.
pub(crate) async fn create<S: Session>(db: &S, conversation: &ConversationId) -> VerbResult<Lane, S> {
    let (name, channel) = (conversation.to_string(), conversation.channel().as_str());
    db.run("INSERT INTO lanes (conversation, channel) VALUES ($1, $2)", params![name, channel]).await?;
    Ok(db.find_lane(conversation).await?.ok_or(VerbError::Row { what: "lane" })?)
}

/// Whether nobody holds a lane.
pub fn is_free<S: Session>(db: &S, lane: &Lane) -> bool {
    satchel_ledger::is_free(&lane.state, db.holder(), lane.now, |holder| db.is_gone(holder))
}

/// Claims a free lane. If its holder has crashed, the oldest incomplete turn is charged with the crash, but none of those
/// that this process alone works on. The crash of a holder that worked on its own turns only is charged to no turn: the oldest
/// one of the lane needn't have been its own.
pub(crate) async fn claim<S: Session>(db: &S, conversation: &ConversationId, lane: &Lane) -> VerbResult<Lease, S> {
    let claim = satchel_ledger::claim(&lane.state, lane.now, db.settings().lease);
    let holder_had_own_turns = lane.state.holder.is_some_and(is_holder_of_own_turns);
    if claim.is_after_crash && !holder_had_own_turns {
        let TurnSelection { own, .. } = db.settings().scope.turns();
        // The rest of an album may have come while nobody received it, and is only being received now.
        let album_ready_at = lane.now.saturating_add(db.settings().album_quiet);
        db.run(
            "UPDATE turns SET crashes = crashes + 1, ready_at = CASE \
                 WHEN album IS NULL OR ready_at > $2 OR EXISTS (SELECT 1 FROM journal WHERE journal.turn = turns.id) \
                     OR EXISTS (SELECT 1 FROM parts WHERE parts.turn = turns.id) THEN ready_at ELSE $2 END \
             WHERE sequence = \
                 (SELECT sequence FROM turns WHERE lane = $1 AND state = 'queued' \
                     AND NOT (id IN (SELECT value FROM rarray($3))) ORDER BY sequence LIMIT 1)",
            params![lane.id, album_ready_at.0, own],
        )
        .await?;
    }
    let holder = db.holder();
    db.run(
        "UPDATE lanes SET holder = $2, token = $3, expires_at = $4 WHERE id = $1",
        params![lane.id, holder.0, claim.token.cast_signed(), claim.expires_at.0],
    )
    .await?;
    Ok(Lease { conversation: conversation.clone(), holder, token: claim.token })
}

/// Claims a lane for its turns or deliveries if it is free and has some. `claimed_at` is the time by this process's clock
/// before the lane was found.
///
/// # Errors
/// When the database fails.
pub async fn claim_for_work<S: Session>(
    db: &S,
    conversation: &ConversationId,
    lane: &Lane,
    filter: &WorkFilter,
    claimed_at: Timestamp,
) -> VerbResult<Option<ClaimedLane>, S> {
    if !is_free(db, lane) || !has_work(db, lane, conversation, filter).await? {
        return Ok(None);
    }
    let unsettled = has_unsettled(db, lane.id).await?;
    let lease = claim(db, conversation, lane).await?;
    let turn = if filter.has_turns() { turns::claimed_turn(db, lane).await? } else { None };
    Ok(Some(ClaimedLane { lease, claimed_at, turn, unsettled }))
}

async fn has_work<S: Session>(
    db: &S,
    lane: &Lane,
    conversation: &ConversationId,
    filter: &WorkFilter,
) -> VerbResult<bool, S> {
    let (turns, deliveries) = (filter.has_turns(), filter.has_deliveries_on(conversation.channel()));
    let TurnSelection { all, own } = db.settings().scope.turns();
    db.value(
        "SELECT $3 AND EXISTS (SELECT 1 FROM turns WHERE lane = $1 AND state = 'queued' AND ready_at <= $2 \
                 AND ($6 OR id IN (SELECT value FROM rarray($7)))) \
             OR $4 AND EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled AND NOT draft AND state <> 'open' \
                 AND ($6 OR turn IN (SELECT value FROM rarray($7)))) \
                 AND COALESCE((SELECT MIN(ready_at) FROM turns WHERE lane = $1 AND state = 'queued' \
                     AND ready_at <= $2) <= $2 - $5, TRUE) \
                 AND ($8 IS NULL OR (SELECT created_at <= $2 - $8 AND NOT (kind = 'notice' \
                         AND (state = 'pending' OR state = 'waiting' AND attempts = 0)) FROM parts \
                     WHERE lane = $1 AND NOT settled AND NOT draft AND state <> 'open' \
                     ORDER BY state = 'pending', turn_sequence, position LIMIT 1))",
        params![lane.id, lane.now.0, turns, deliveries, precedence_ms(filter), all, own, min_age_ms(filter)],
    )
    .await
}

/// For how many milliseconds a turn that is ready comes before deliveries of its lane; none where a claim is for both.
pub fn precedence_ms(filter: &WorkFilter) -> i64 {
    if filter.has_turns() { 0 } else { i64::try_from(TURN_PRECEDENCE.as_millis()).unwrap_or(i64::MAX) }
}

/// How many milliseconds old a lane's next part must be to be delivered; `None` if that doesn't matter.
#[must_use]
pub fn min_age_ms(filter: &WorkFilter) -> Option<i64> {
    filter.min_age().map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

/// Returns whether something of the turns that this process works on is still to be delivered.
async fn has_unsettled<S: Session>(db: &S, lane: LaneId) -> VerbResult<bool, S> {
    let TurnSelection { all, own } = db.settings().scope.turns();
    db.value(
        "SELECT EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled \
             AND ($2 OR turn IN (SELECT value FROM rarray($3))))",
        params![lane, all, own],
    )
    .await
}

/// Returns whether a turn is queued or runs, or something is still to be delivered.
pub(crate) async fn is_busy<S: Session>(db: &S, lane: LaneId) -> VerbResult<bool, S> {
    db.value(
        "SELECT EXISTS (SELECT 1 FROM turns WHERE lane = $1 AND state = 'queued') \
             OR EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled)",
        params![lane],
    )
    .await
}

/// Gives a lane back; `false` when it has work and was kept.
pub async fn release<S: Session>(db: &S, lease: &Lease, release: ReleaseMode) -> VerbResult<bool, S> {
    let lane = require(db, lease).await?;
    match release {
        ReleaseMode::IfIdle => release_if_idle(db, lane.id).await,
        ReleaseMode::Always => {
            give_back(db, lane.id).await?;
            Ok(true)
        }
    }
}

/// Gives a held lane back if it has nothing to do for this process: no turn is queued, ready or not, and no part is
/// unsettled but for open ones.
pub(crate) async fn release_if_idle<S: Session>(db: &S, lane: LaneId) -> VerbResult<bool, S> {
    let TurnSelection { all, own } = db.settings().scope.turns();
    let is_idle = db
        .value(
            "SELECT NOT EXISTS (SELECT 1 FROM turns WHERE lane = $1 AND state = 'queued' \
                AND ($2 OR id IN (SELECT value FROM rarray($3)))) \
            AND NOT EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled AND state <> 'open' \
                AND ($2 OR turn IN (SELECT value FROM rarray($3))))",
            params![lane, all, own],
        )
        .await?;
    if is_idle {
        give_back(db, lane).await?;
    }
    Ok(is_idle)
}

pub(crate) async fn give_back<S: Session>(db: &S, lane: LaneId) -> VerbResult<(), S> {
    db.run("UPDATE lanes SET holder = NULL, expires_at = 0 WHERE id = $1", params![lane]).await?;
    Ok(())
}
