//! Leases: who works on a conversation.

use futures::TryStreamExt;
use satchel_domain::{ChannelName, ConversationId, Timestamp};
use satchel_ports::ledger::{Lease, OwnerId, Release};
use sqlx::{SqliteConnection, types::Json};
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    process::Process,
    rows::{self, LaneRow},
};

/// How many lanes a search brings back, so that a few that others take meanwhile don't end it.
const CANDIDATES: i64 = 8;

/// Fails when the lease is not, or no longer, that of the lane.
pub(crate) async fn check(connection: &mut SqliteConnection, lease: &Lease) -> Result<()> {
    let lane = lane(connection, &lease.conversation).await?;
    match lane {
        Some(lane) if lane.owner() == Some(lease.owner) && lane.token == lease.token.cast_signed() => Ok(()),
        _ => Err(Error::LeaseLost(lease.conversation.clone())),
    }
}

/// Reads the lane of a conversation and creates it for its first message.
pub(crate) async fn lane_of(connection: &mut SqliteConnection, conversation: &ConversationId) -> Result<LaneRow> {
    if let Some(lane) = lane(connection, conversation).await? {
        return Ok(lane);
    }
    sqlx::query("INSERT INTO lanes (conversation, channel) VALUES ($1, $2)")
        .bind(conversation.to_string())
        .bind(conversation.channel().as_str())
        .execute(connection)
        .await?;
    Ok(LaneRow { owner: None, token: 0, expires_at: 0 })
}

/// Whether nobody holds the lane: it was released, its owner's process has ended, or its lease has expired.
pub(crate) fn is_free(process: &Process, lane: &LaneRow, now: Timestamp) -> bool {
    match lane.owner() {
        None => true,
        Some(_) if lane.expires_at <= now.0 => true,
        Some(owner) if owner == process.owner => false,
        Some(owner) => process.owners.is_gone(owner),
    }
}

/// Claims a free lane. One that was not released costs its oldest incomplete turn a crash.
pub(crate) async fn claim(
    connection: &mut SqliteConnection,
    process: &Process,
    conversation: &ConversationId,
    lane: &LaneRow,
    now: Timestamp,
) -> Result<Lease> {
    if lane.owner.is_some() {
        sqlx::query(
            "UPDATE turns SET crashes = crashes + 1 WHERE sequence = (SELECT sequence FROM turns \
             WHERE conversation = $1 AND state = 'queued' ORDER BY sequence LIMIT 1)",
        )
        .bind(conversation.to_string())
        .execute(&mut *connection)
        .await?;
    }
    let token: i64 = sqlx::query_scalar(
        "UPDATE lanes SET owner = $2, token = token + 1, expires_at = $3 WHERE conversation = $1 RETURNING token",
    )
    .bind(conversation.to_string())
    .bind(process.owner.0)
    .bind(now.plus(process.settings.lease).0)
    .fetch_one(connection)
    .await?;
    Ok(Lease { conversation: conversation.clone(), owner: process.owner, token: token.cast_unsigned() })
}

/// Finds lanes that seem free and to have work, those that waited longest first.
///
/// Only a hint, read beside the writer so that an idle process writes nothing; [`take_first`] looks again.
pub(crate) async fn find(
    connection: &mut SqliteConnection,
    process: &Process,
    channels: &[ChannelName],
) -> Result<Vec<ConversationId>> {
    let now = process.now();
    let owners: Vec<Uuid> =
        sqlx::query_scalar("SELECT DISTINCT owner FROM lanes WHERE owner IS NOT NULL AND owner <> $1")
            .bind(process.owner.0)
            .fetch_all(&mut *connection)
            .await?;
    let gone = owners.into_iter().filter(|owner| process.owners.is_gone(OwnerId(*owner)));
    let gone: Vec<String> = gone.map(|owner| format!("{:X}", owner.simple())).collect();
    let mut found = sqlx::query_scalar::<_, String>(
        "SELECT work.conversation FROM ( \
             SELECT conversation, MIN(ready_at) AS since FROM turns \
             WHERE state = 'queued' AND ready_at <= $1 GROUP BY conversation \
             UNION ALL \
             SELECT conversation, MIN(created_at) AS since FROM parts \
             WHERE settled = 0 AND open_stream = 0 GROUP BY conversation \
         ) AS work JOIN lanes ON lanes.conversation = work.conversation \
         WHERE lanes.channel IN (SELECT value FROM json_each($2)) \
           AND (owner IS NULL OR expires_at <= $1 OR hex(owner) IN (SELECT value FROM json_each($3))) \
           AND ($5 IS NULL OR lanes.conversation = $5) \
         GROUP BY work.conversation ORDER BY MIN(work.since) LIMIT $4",
    )
    .bind(now.0)
    .bind(Json(channels))
    .bind(Json(gone))
    .bind(CANDIDATES)
    .bind(process.settings.only.as_ref().map(ConversationId::to_string))
    .fetch(connection);
    let mut candidates = Vec::new();
    while let Some(conversation) = found.try_next().await? {
        candidates.push(rows::conversation(&conversation)?);
    }
    Ok(candidates)
}

/// Claims the first of these lanes that is free and has work.
pub(crate) async fn take_first(
    connection: &mut SqliteConnection,
    process: &Process,
    candidates: &[ConversationId],
) -> Result<Option<Lease>> {
    for conversation in candidates {
        let now = process.now();
        let has_work: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM turns WHERE conversation = $1 AND state = 'queued' AND ready_at <= $2) \
             OR EXISTS (SELECT 1 FROM parts WHERE conversation = $1 AND settled = 0 AND open_stream = 0)",
        )
        .bind(conversation.to_string())
        .bind(now.0)
        .fetch_one(&mut *connection)
        .await?;
        if !has_work {
            continue;
        }
        if let Some(lane) = lane(connection, conversation).await?
            && is_free(process, &lane, now)
        {
            return claim(connection, process, conversation, &lane, now).await.map(Some);
        }
    }
    Ok(None)
}

/// Prolongs leases and returns those that are lost.
pub(crate) async fn renew(
    connection: &mut SqliteConnection,
    process: &Process,
    leases: &[Lease],
) -> Result<Vec<Lease>> {
    let until = process.now().plus(process.settings.lease);
    let mut lost = Vec::new();
    for lease in leases {
        let renewed =
            sqlx::query("UPDATE lanes SET expires_at = $4 WHERE conversation = $1 AND owner = $2 AND token = $3")
                .bind(lease.conversation.to_string())
                .bind(lease.owner.0)
                .bind(lease.token.cast_signed())
                .bind(until.0)
                .execute(&mut *connection)
                .await?;
        if renewed.rows_affected() == 0 {
            lost.push(lease.clone());
        }
    }
    Ok(lost)
}

/// Gives a lane back; `false` when it has work and was kept.
pub(crate) async fn release(connection: &mut SqliteConnection, lease: &Lease, release: Release) -> Result<bool> {
    check(connection, lease).await?;
    if release == Release::IfIdle && !is_idle(connection, &lease.conversation).await? {
        return Ok(false);
    }
    give_back(connection, &lease.conversation).await?;
    Ok(true)
}

/// Whether no turn is queued, ready or not, and no part is unsettled.
pub(crate) async fn is_idle(connection: &mut SqliteConnection, conversation: &ConversationId) -> Result<bool> {
    let busy: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM turns WHERE conversation = $1 AND state = 'queued') \
         OR EXISTS (SELECT 1 FROM parts WHERE conversation = $1 AND settled = 0)",
    )
    .bind(conversation.to_string())
    .fetch_one(connection)
    .await?;
    Ok(!busy)
}

pub(crate) async fn give_back(connection: &mut SqliteConnection, conversation: &ConversationId) -> Result<()> {
    sqlx::query("UPDATE lanes SET owner = NULL, expires_at = 0 WHERE conversation = $1")
        .bind(conversation.to_string())
        .execute(connection)
        .await?;
    Ok(())
}

async fn lane(connection: &mut SqliteConnection, conversation: &ConversationId) -> Result<Option<LaneRow>> {
    let lane = sqlx::query_as("SELECT owner, token, expires_at FROM lanes WHERE conversation = $1")
        .bind(conversation.to_string())
        .fetch_optional(connection)
        .await?;
    Ok(lane)
}
