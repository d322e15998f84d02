//! Leases: who works on a conversation.

use futures::TryStreamExt;
use satchel_domain::{ChannelName, ConversationId, Timestamp};
use satchel_ports::ledger::{ClaimedLane, ConversationSetting, HolderId, Lease, ReleaseMode};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    batch::{Answers, Batch, Statement},
    error::{Error, Result},
    process::Process,
    rows::{self, LaneRow},
    session::Session,
    turns,
};

/// How many lanes a search brings back, so that a few that others take meanwhile don't end it.
const CANDIDATES: i64 = 8;

/// Adds the question who holds a lane: a [`LaneRow`], or nothing before the conversation's first message.
pub(crate) fn read(batch: &mut Batch, conversation: &ConversationId) -> Statement {
    batch
        .add("SELECT holder, token, expires_at, voice FROM lanes WHERE conversation = $1")
        .bind(conversation.to_string())
        .id()
}

/// Fails when the lease is not, or no longer, that of the lane which `lane` has read.
///
/// What a verb wrote in the same batch is rolled back by its failure.
pub(crate) fn require(answers: &Answers, lane: Statement, lease: &Lease) -> Result<()> {
    require_row(answers.first_row::<LaneRow>(lane)?.as_ref(), lease)
}

/// Fails when the lease is not, or no longer, that of this lane.
pub(crate) fn require_row(lane: Option<&LaneRow>, lease: &Lease) -> Result<()> {
    match satchel_ledger::is_held_by(lane.map(LaneRow::state).as_ref(), lease) {
        true => Ok(()),
        false => Err(Error::LeaseLost(lease.conversation.clone())),
    }
}

/// Creates the lane of a conversation's first message.
pub(crate) fn create(batch: &mut Batch, conversation: &ConversationId) {
    batch
        .add("INSERT INTO lanes (conversation, channel) VALUES ($1, $2)")
        .bind(conversation.to_string())
        .bind(conversation.channel().as_str());
}

/// Changes a setting of a conversation.
pub(crate) fn change_setting(batch: &mut Batch, conversation: &ConversationId, setting: &ConversationSetting) {
    let of = conversation.to_string();
    match setting {
        ConversationSetting::VoiceReplies(on) => {
            batch.add("UPDATE lanes SET voice = $2 WHERE conversation = $1").bind(of).bind(*on);
        }
        ConversationSetting::Agent(agent) => {
            batch.add("UPDATE lanes SET agent = $2 WHERE conversation = $1").bind(of).bind(agent.clone());
        }
    }
}

pub(crate) fn is_free(process: &Process, lane: &LaneRow, now: Timestamp) -> bool {
    satchel_ledger::is_free(&lane.state(), process.owner, now, |holder| process.owners.is_gone(holder))
}

/// Claims a free lane. One that was not released costs its oldest incomplete turn a crash.
pub(crate) fn claim(
    batch: &mut Batch,
    process: &Process,
    conversation: &ConversationId,
    lane: Option<&LaneRow>,
    now: Timestamp,
) -> Lease {
    let claim = satchel_ledger::claim(lane.map(LaneRow::state).as_ref(), now, process.settings.lease);
    if claim.is_after_crash {
        batch
            .add(
                "UPDATE turns SET crashes = crashes + 1 WHERE sequence = (SELECT sequence FROM turns \
                 WHERE conversation = $1 AND state = 'queued' ORDER BY sequence LIMIT 1)",
            )
            .bind(conversation.to_string());
    }
    batch
        .add("UPDATE lanes SET holder = $2, token = $3, expires_at = $4 WHERE conversation = $1")
        .bind(conversation.to_string())
        .bind(process.owner.0)
        .bind(claim.token.cast_signed())
        .bind(claim.expires_at.0);
    Lease { conversation: conversation.clone(), holder: process.owner, token: claim.token }
}

/// Finds lanes that seem free and to have work, those that waited longest first.
///
/// Only a hint, read beside the writer so that an idle process writes nothing; [`take_first`] looks again.
pub(crate) async fn find(
    session: &mut Session<'_>,
    process: &Process,
    channels: &[ChannelName],
) -> Result<Vec<ConversationId>> {
    let now = process.now();
    let owners: Vec<Uuid> =
        sqlx::query_scalar("SELECT DISTINCT holder FROM lanes WHERE holder IS NOT NULL AND holder <> $1")
            .bind(process.owner.0)
            .fetch_all(session.connection().await?)
            .await?;
    let gone = owners.into_iter().filter(|owner| process.owners.is_gone(HolderId(*owner)));
    let gone: Vec<String> = gone.map(|owner| format!("{:X}", owner.simple())).collect();
    let mut found = sqlx::query_scalar::<_, String>(
        "SELECT work.conversation FROM ( \
             SELECT conversation, MIN(ready_at) AS since FROM turns \
             WHERE state = 'queued' AND ready_at <= $1 GROUP BY conversation \
             UNION ALL \
             SELECT conversation, MIN(created_at) AS since FROM parts \
             WHERE settled = 0 AND draft = 0 AND state <> 'open' GROUP BY conversation \
         ) AS work JOIN lanes ON lanes.conversation = work.conversation \
         WHERE lanes.channel IN (SELECT value FROM json_each($2)) \
           AND (holder IS NULL OR expires_at <= $1 OR hex(holder) IN (SELECT value FROM json_each($3))) \
           AND ($5 IS NULL OR lanes.conversation = $5) \
         GROUP BY work.conversation ORDER BY MIN(work.since) LIMIT $4 + 0",
    )
    .bind(now.0)
    .bind(Json(channels))
    .bind(Json(gone))
    .bind(CANDIDATES)
    .bind(process.settings.only.as_ref().map(ConversationId::to_string))
    .fetch(session.connection().await?);
    let mut candidates = Vec::new();
    while let Some(conversation) = found.try_next().await? {
        candidates.push(rows::conversation(&conversation)?);
    }
    Ok(candidates)
}

/// Claims the first of these lanes that is free and has work.
pub(crate) async fn take_first(
    session: &mut Session<'_>,
    process: &Process,
    candidates: &[ConversationId],
) -> Result<Option<ClaimedLane>> {
    for conversation in candidates {
        let now = process.now();
        let mut batch = Batch::default();
        let work = batch
            .add(
                "SELECT EXISTS (SELECT 1 FROM turns WHERE conversation = $1 AND state = 'queued' AND ready_at <= $2) \
                     OR EXISTS (SELECT 1 FROM parts WHERE conversation = $1 AND settled = 0 AND draft = 0 \
                                AND state <> 'open'), \
                 EXISTS (SELECT 1 FROM parts WHERE conversation = $1 AND settled = 0)",
            )
            .bind(conversation.to_string())
            .bind(now.0)
            .id();
        let lane = read(&mut batch, conversation);
        let answers = session.run(batch).await?;
        let (has_work, unsettled) = answers.first_row(work)?.unwrap_or_default();
        let lane: Option<LaneRow> = answers.first_row(lane)?;
        if let Some(lane) = lane.filter(|lane| has_work && is_free(process, lane, now)) {
            let mut batch = Batch::default();
            let lease = claim(&mut batch, process, conversation, Some(&lane), now);
            let turn = turns::claimed_turn(session, batch, conversation, now).await?;
            return Ok(Some(ClaimedLane { lease, claimed_at: now, turn, unsettled }));
        }
    }
    Ok(None)
}

/// Prolongs leases and returns those that are lost.
pub(crate) async fn renew(session: &mut Session<'_>, process: &Process, leases: &[Lease]) -> Result<Vec<Lease>> {
    let until = process.now().saturating_add(process.settings.lease);
    let mut lost = Vec::new();
    for lease in leases {
        let renewed =
            sqlx::query("UPDATE lanes SET expires_at = $4 WHERE conversation = $1 AND holder = $2 AND token = $3")
                .bind(lease.conversation.to_string())
                .bind(lease.holder.0)
                .bind(lease.token.cast_signed())
                .bind(until.0)
                .execute(session.connection().await?)
                .await?;
        if renewed.rows_affected() == 0 {
            lost.push(lease.clone());
        }
    }
    Ok(lost)
}

/// Gives a lane back; `false` when it has work and was kept.
pub(crate) async fn release(session: &mut Session<'_>, lease: &Lease, release: ReleaseMode) -> Result<bool> {
    let mut batch = Batch::default();
    let lane = read(&mut batch, &lease.conversation);
    let released = match release {
        ReleaseMode::IfIdle => give_back_if_idle(&mut batch, &lease.conversation),
        _ => batch
            .add("UPDATE lanes SET holder = NULL, expires_at = 0 WHERE conversation = $1 RETURNING 1")
            .bind(lease.conversation.to_string())
            .id(),
    };
    let answers = session.run(batch).await?;
    require(&answers, lane, lease)?;
    Ok(answers.first_row::<(i64,)>(released)?.is_some())
}

/// Whether the lane `$1` has nothing to do: no turn is queued, ready or not, and no part is unsettled.
macro_rules! idle {
    () => {
        "NOT EXISTS (SELECT 1 FROM turns WHERE turns.conversation = $1 AND state = 'queued') \
         AND NOT EXISTS (SELECT 1 FROM parts WHERE parts.conversation = $1 AND settled = 0 AND parts.state <> 'open')"
    };
}

/// Gives the lane back if it is idle; the statement brings a row then.
pub(crate) fn give_back_if_idle(batch: &mut Batch, conversation: &ConversationId) -> Statement {
    batch
        .add(concat!(
            "UPDATE lanes SET holder = NULL, expires_at = 0 WHERE conversation = $1 AND ",
            idle!(),
            " RETURNING 1"
        ))
        .bind(conversation.to_string())
        .id()
}

/// Gives the lane back. Unless the statement before has changed a row and the lane is idle, its token would be empty,
/// and the statement fails.
pub(crate) fn give_back_changed(batch: &mut Batch, conversation: &ConversationId) {
    batch
        .add(concat!(
            "UPDATE lanes SET holder = NULL, expires_at = 0, token = CASE WHEN changes() = 1 AND ",
            idle!(),
            " THEN token END WHERE conversation = $1"
        ))
        .bind(conversation.to_string());
}
