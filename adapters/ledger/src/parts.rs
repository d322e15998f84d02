//! Parts as rows: stored, read in the order of their lane, saved, discarded.

use satchel_domain::{ConversationId, Part, PartContent, PartId, PartState, TurnId, part::FailureReason};
use satchel_ports::ledger::Lease;
use sqlx::{SqliteConnection, types::Json};

use crate::{
    error::{Error, Result},
    lanes,
    rows::{PartRow, select_part},
};

pub(crate) async fn insert(connection: &mut SqliteConnection, part: &Part, turn_sequence: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO parts (id, conversation, turn, turn_sequence, position, kind, content, state, state_detail, \
             settled, attempts, first_attempt_at, labelled, target, reply_to, last_message, voice_sha256, created_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
    )
    .bind(part.id.0)
    .bind(part.conversation.to_string())
    .bind(part.turn.0)
    .bind(turn_sequence)
    .bind(i64::from(part.position))
    .bind(part.content.kind())
    .bind(Json(&part.content))
    .bind(part.state.name())
    .bind(Json(&part.state))
    .bind(part.state.is_settled())
    .bind(i64::from(part.attempts))
    .bind(part.first_attempt_at.map(|at| at.0))
    .bind(part.labelled)
    .bind(part.target.as_ref().map(|target| target.0.as_str()))
    .bind(part.reply_to.as_ref().map(|message| message.0.as_str()))
    .bind(last_message(part))
    .bind(prepared_voice(part))
    .bind(part.created_at.0)
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores what may change of a part; its place and what it answers may not.
pub(crate) async fn update(connection: &mut SqliteConnection, part: &Part) -> Result<()> {
    sqlx::query(
        "UPDATE parts SET kind = $2, content = $3, state = $4, state_detail = $5, settled = $6, attempts = $7, \
             first_attempt_at = $8, labelled = $9, target = $10, last_message = $11, voice_sha256 = $12 WHERE id = $1",
    )
    .bind(part.id.0)
    .bind(part.content.kind())
    .bind(Json(&part.content))
    .bind(part.state.name())
    .bind(Json(&part.state))
    .bind(part.state.is_settled())
    .bind(i64::from(part.attempts))
    .bind(part.first_attempt_at.map(|at| at.0))
    .bind(part.labelled)
    .bind(part.target.as_ref().map(|target| target.0.as_str()))
    .bind(last_message(part))
    .bind(prepared_voice(part))
    .execute(connection)
    .await?;
    Ok(())
}

/// Whether the lane has an unsettled part of any other turn than this one.
///
/// Not only of earlier turns: a later one that was completed first may have a part in flight, and a lane sends one part
/// at a time.
pub(crate) async fn is_busy(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
    turn: TurnId,
) -> Result<bool> {
    let busy = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM parts WHERE conversation = $1 AND settled = 0 AND turn <> $2)",
    )
    .bind(conversation.to_string())
    .bind(turn.0)
    .fetch_one(connection)
    .await?;
    Ok(busy)
}

/// The lane's oldest unsettled part of a completed turn.
pub(crate) async fn first_unsettled(
    connection: &mut SqliteConnection,
    conversation: &ConversationId,
) -> Result<Option<Part>> {
    let row: Option<PartRow> = sqlx::query_as(select_part!(
        "WHERE conversation = $1 AND settled = 0 AND open_stream = 0 ORDER BY turn_sequence, position LIMIT 1"
    ))
    .bind(conversation.to_string())
    .fetch_optional(connection)
    .await?;
    row.map(Part::try_from).transpose()
}

/// Reads the lane's oldest unsettled part of a completed turn, if the lease is valid.
pub(crate) async fn next(connection: &mut SqliteConnection, lease: &Lease) -> Result<Option<Part>> {
    lanes::check(connection, lease).await?;
    first_unsettled(connection, &lease.conversation).await
}

/// Reads an unsettled part of the lane.
pub(crate) async fn unsettled(connection: &mut SqliteConnection, lease: &Lease, part: PartId) -> Result<PartRow> {
    let row: Option<PartRow> = sqlx::query_as(select_part!("WHERE id = $1 AND conversation = $2"))
        .bind(part.0)
        .bind(lease.conversation.to_string())
        .fetch_optional(connection)
        .await?;
    match row {
        None => Err(Error::unknown(format!("part {part}"))),
        Some(row) if row.settled => Err(Error::AlreadySettled(part)),
        Some(row) => Ok(row),
    }
}

/// Stores an unsettled part as it is now.
pub(crate) async fn save(connection: &mut SqliteConnection, lease: &Lease, part: &Part) -> Result<()> {
    lanes::check(connection, lease).await?;
    unsettled(connection, lease, part.id).await?;
    if part.state.is_settled() {
        return Err(Error::Settled(part.id));
    }
    update(connection, part).await
}

/// Gives up an unsettled part that is not being sent.
pub(crate) async fn discard(connection: &mut SqliteConnection, part: PartId) -> Result<()> {
    let row: Option<PartRow> =
        sqlx::query_as(select_part!("WHERE id = $1")).bind(part.0).fetch_optional(&mut *connection).await?;
    match row {
        None => Err(Error::unknown(format!("part {part}"))),
        Some(row) if row.settled => Err(Error::AlreadySettled(part)),
        Some(row) if row.open_stream || row.state_detail.0 == PartState::Sending => {
            Err(Error::unknown(format!("part {part} among those that are not being sent")))
        }
        Some(row) => {
            let discarded = PartState::Failed { reason: FailureReason::Discarded };
            update(connection, &Part { state: discarded, ..Part::try_from(row)? }).await
        }
    }
}

/// The message behind which the next one of the conversation stands; what was taken back is not there.
fn last_message(part: &Part) -> Option<&str> {
    match (&part.state, &part.content) {
        (_, PartContent::Withdraw) => None,
        (PartState::Sent { messages }, _) => messages.last().map(|message| message.0.as_str()),
        _ => None,
    }
}

fn prepared_voice(part: &Part) -> Option<&[u8]> {
    match &part.content {
        PartContent::Voice { prepared: Some(voice), .. } => Some(voice.sha256.0.as_slice()),
        _ => None,
    }
}
