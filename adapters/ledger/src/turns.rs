//! What there is to work on in a lane: its oldest incomplete turn and what waits behind it.

use satchel_domain::{Part, PartId, PartState, Timestamp, TurnId, part::RoutingError};
use satchel_ports::ledger::{JournalEntry, Lease, QueuedMessage, QueuedTurn};
use sqlx::{SqliteConnection, types::Json};
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    lanes,
    rows::{self, MessageRow, PartRow, select_part},
};

/// The columns of [`MessageRow`], followed by the rest of the statement.
macro_rules! select_messages {
    ($rest:literal) => {
        concat!(
            "SELECT inbox.id, inbox.turn, inbox.message, inbox.received_at, inbox_files.state AS file_state, ",
            "inbox_files.reference, attachments.record, inbox_files.refused FROM inbox ",
            "LEFT JOIN inbox_files ON inbox_files.message = inbox.sequence ",
            "LEFT JOIN attachments ON attachments.id = inbox_files.attachment ",
            $rest
        )
    };
}

/// How many of the messages behind a turn are looked at: it is done at every message that arrives, and a flood must not
/// make each of them dearer than the one before.
const WAITING: i64 = 200;

#[derive(sqlx::FromRow)]
struct OldestTurn {
    owner: Option<Uuid>,
    token: i64,
    id: Option<Uuid>,
    sequence: Option<i64>,
    album: Option<String>,
    ready_at: Option<i64>,
    crashes: Option<i64>,
}

/// A turn as it was read.
pub(crate) struct ReadTurn {
    pub(crate) turn: QueuedTurn,
    /// Whether messages may join it until it begins.
    pub(crate) is_album: bool,
}

/// Reads the lane's oldest incomplete turn.
pub(crate) async fn next_turn(connection: &mut SqliteConnection, lease: &Lease) -> Result<Option<ReadTurn>> {
    let conversation = lease.conversation.to_string();
    let lost = || Error::LeaseLost(lease.conversation.clone());
    let oldest: Option<OldestTurn> = sqlx::query_as(
        "SELECT lanes.owner, lanes.token, turns.id, turns.sequence, turns.album, turns.ready_at, turns.crashes \
         FROM lanes LEFT JOIN turns ON turns.sequence = (SELECT sequence FROM turns \
             WHERE conversation = $1 AND state = 'queued' ORDER BY sequence LIMIT 1) \
         WHERE lanes.conversation = $1",
    )
    .bind(&conversation)
    .fetch_optional(&mut *connection)
    .await?;
    let oldest = oldest.ok_or_else(lost)?;
    if oldest.owner != Some(lease.owner.0) || oldest.token != lease.token.cast_signed() {
        return Err(lost());
    }
    let (Some(id), Some(sequence), Some(ready_at)) = (oldest.id, oldest.sequence, oldest.ready_at) else {
        return Ok(None);
    };
    let messages: Vec<MessageRow> = sqlx::query_as(select_messages!(
        "WHERE inbox.turn = $1 AND inbox.consumed_by IS NULL ORDER BY inbox.sequence, inbox_files.position"
    ))
    .bind(id)
    .fetch_all(&mut *connection)
    .await?;
    let journal: Vec<(Json<JournalEntry>,)> =
        sqlx::query_as("SELECT entry FROM journal WHERE turn = $1 ORDER BY position")
            .bind(id)
            .fetch_all(&mut *connection)
            .await?;
    let stream: Option<PartRow> = sqlx::query_as(select_part!("WHERE turn = $1 AND open_stream = 1 AND settled = 0"))
        .bind(id)
        .fetch_optional(&mut *connection)
        .await?;
    let untold: Vec<PartRow> = sqlx::query_as(select_part!(
        "WHERE conversation = $1 AND state = 'failed' AND told = 0 AND turn_sequence < $2 \
         ORDER BY turn_sequence, position"
    ))
    .bind(&conversation)
    .bind(sequence)
    .fetch_all(&mut *connection)
    .await?;
    let turn = QueuedTurn {
        id: TurnId(id),
        messages: rows::messages(messages)?,
        ready_at: Timestamp(ready_at),
        journal: journal.into_iter().map(|(entry,)| entry.0).collect(),
        stream: stream.map(Part::try_from).transpose()?,
        crashes: rows::number(oldest.crashes.unwrap_or(0), "number of crashes")?,
        untold: untold.into_iter().filter_map(routing_error).collect(),
    };
    Ok(Some(ReadTurn { turn, is_album: oldest.album.is_some() }))
}

/// Reads the messages that wait behind a turn, oldest first; those that were injected into it wait no longer.
pub(crate) async fn waiting_behind(
    connection: &mut SqliteConnection,
    lease: &Lease,
    turn: TurnId,
) -> Result<Vec<QueuedMessage>> {
    lanes::check(connection, lease).await?;
    let messages: Vec<MessageRow> = sqlx::query_as(select_messages!(
        "JOIN turns ON turns.id = inbox.turn \
         WHERE inbox.sequence IN \
           (SELECT waiting.sequence FROM inbox AS waiting JOIN turns ON turns.id = waiting.turn \
            WHERE waiting.conversation = $1 AND waiting.consumed_by IS NULL AND waiting.steered_into IS NULL \
              AND turns.sequence > (SELECT sequence FROM turns WHERE id = $2) \
            ORDER BY turns.sequence, waiting.sequence LIMIT $3) \
         ORDER BY turns.sequence, inbox.sequence, inbox_files.position"
    ))
    .bind(lease.conversation.to_string())
    .bind(turn.0)
    .bind(WAITING)
    .fetch_all(connection)
    .await?;
    rows::messages(messages)
}

fn routing_error(row: PartRow) -> Option<RoutingError> {
    match row.state_detail.0 {
        PartState::Failed { reason } => {
            Some(RoutingError { part: PartId(row.id), turn: TurnId(row.turn), content: row.content.0, reason })
        }
        _ => None,
    }
}
