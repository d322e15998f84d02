//! What comes in: deduplicated, joined to its album, put in place of what it edits, or queued as a turn of its own.

use satchel_domain::{InboundMessage, Timestamp, TurnId};
use satchel_ports::ledger::{Claim, Received};
use sqlx::{SqliteConnection, types::Json};
use uuid::Uuid;

use crate::{error::Result, lanes, process::Process};

/// Stores a message and, if asked, claims its lane.
pub(crate) async fn receive(
    connection: &mut SqliteConnection,
    process: &Process,
    message: &InboundMessage,
    claim: Claim,
) -> Result<Received> {
    if let Some(turn) = turn_of(connection, message).await? {
        return Ok(Received { turn, duplicate: true, lease: None });
    }
    let now = process.now();
    let lane = lanes::lane_of(connection, &message.conversation).await?;
    let free = lanes::is_free(process, &lane, now);
    // Before the message is stored: a crash that it did not see is not its own.
    let lease = match claim {
        Claim::IfFree if free => Some(lanes::claim(connection, process, &message.conversation, &lane, now).await?),
        Claim::IfFree | Claim::Leave => None,
    };
    let place = Place { process, message, now, owned: !free };
    let turn = match place.replace(connection).await? {
        Some(turn) => turn,
        None => place.add(connection).await?,
    };
    Ok(Received { turn, duplicate: false, lease })
}

/// A message whose key is new, and what decides where it goes.
struct Place<'a> {
    process: &'a Process,
    message: &'a InboundMessage,
    now: Timestamp,
    /// Whether somebody worked on the lane when the message came.
    owned: bool,
}

/// A queued turn, as far as it matters to who may still join it.
#[derive(sqlx::FromRow)]
struct Joinable {
    sequence: i64,
    id: Uuid,
    ready_at: i64,
    /// An earlier or running attempt has journalled or streamed something.
    begun: bool,
    oldest: bool,
}

impl Place<'_> {
    /// Puts an edit in the place of its original, if that is queued and nobody has taken it up.
    ///
    /// Taken up is what was injected into a running turn, and the turn that an owner works on: the lane's oldest. The
    /// row gets a new id, so that whoever has read the old words can't consume the new ones with them.
    async fn replace(&self, connection: &mut SqliteConnection) -> Result<Option<TurnId>> {
        let Some(original) = &self.message.edit_of else { return Ok(None) };
        let found: Option<(i64, Uuid)> = sqlx::query_as(
            "SELECT inbox.sequence, inbox.turn FROM inbox_keys JOIN inbox ON inbox.sequence = inbox_keys.message \
             WHERE inbox_keys.channel = $1 AND inbox_keys.key = $2 \
               AND inbox.consumed_by IS NULL AND inbox.steered_into IS NULL",
        )
        .bind(self.message.conversation.channel().as_str())
        .bind(original)
        .fetch_optional(&mut *connection)
        .await?;
        let Some((sequence, turn)) = found else { return Ok(None) };
        match self.queued_turn(connection, turn).await? {
            Some(turn) if !(turn.begun || self.owned && turn.oldest) => {}
            _ => return Ok(None),
        }
        sqlx::query("UPDATE inbox SET id = $2, message = $3 WHERE sequence = $1")
            .bind(sequence)
            .bind(Uuid::now_v7())
            .bind(Json(self.message))
            .execute(&mut *connection)
            .await?;
        sqlx::query("DELETE FROM inbox_files WHERE message = $1").bind(sequence).execute(&mut *connection).await?;
        self.store_key_and_files(connection, sequence).await?;
        Ok(Some(TurnId(turn)))
    }

    /// Stores the message in its album's turn, or in a new one.
    async fn add(&self, connection: &mut SqliteConnection) -> Result<TurnId> {
        let quiet_at = match self.message.album {
            Some(_) => self.now.plus(self.process.settings.album_quiet),
            None => self.now,
        };
        let turn = match self.album_turn(connection).await? {
            Some(album) => {
                sqlx::query("UPDATE turns SET ready_at = $2 WHERE sequence = $1")
                    .bind(album.sequence)
                    .bind(quiet_at.0)
                    .execute(&mut *connection)
                    .await?;
                album.id
            }
            None => {
                let id = Uuid::now_v7();
                sqlx::query(
                    "INSERT INTO turns (id, conversation, state, album, ready_at) VALUES ($1, $2, 'queued', $3, $4)",
                )
                .bind(id)
                .bind(self.message.conversation.to_string())
                .bind(self.message.album.as_deref())
                .bind(quiet_at.0)
                .execute(&mut *connection)
                .await?;
                id
            }
        };
        let sequence: i64 = sqlx::query_scalar(
            "INSERT INTO inbox (id, conversation, turn, message, received_at) VALUES ($1, $2, $3, $4, $5) \
             RETURNING sequence",
        )
        .bind(Uuid::now_v7())
        .bind(self.message.conversation.to_string())
        .bind(turn)
        .bind(Json(self.message))
        .bind(self.now.0)
        .fetch_one(&mut *connection)
        .await?;
        self.store_key_and_files(connection, sequence).await?;
        Ok(TurnId(turn))
    }

    /// The queued turn of the message's album, if it can't have begun: nothing of it is journalled or streamed, and
    /// nobody works on it, which is so until it is both ready and the oldest of an owned lane.
    async fn album_turn(&self, connection: &mut SqliteConnection) -> Result<Option<Joinable>> {
        let Some(album) = &self.message.album else { return Ok(None) };
        let latest: Option<Uuid> = sqlx::query_scalar(
            "SELECT id FROM turns WHERE conversation = $1 AND state = 'queued' AND album = $2 \
             ORDER BY sequence DESC LIMIT 1",
        )
        .bind(self.message.conversation.to_string())
        .bind(album)
        .fetch_optional(&mut *connection)
        .await?;
        let Some(latest) = latest else { return Ok(None) };
        let turn = self.queued_turn(connection, latest).await?;
        Ok(turn.filter(|turn| !(turn.begun || self.owned && turn.oldest && turn.ready_at <= self.now.0)))
    }

    async fn queued_turn(&self, connection: &mut SqliteConnection, turn: Uuid) -> Result<Option<Joinable>> {
        let turn = sqlx::query_as(
            "SELECT sequence, id, ready_at, \
                 EXISTS (SELECT 1 FROM journal WHERE journal.turn = turns.id) \
                 OR EXISTS (SELECT 1 FROM parts WHERE parts.turn = turns.id) AS begun, \
                 NOT EXISTS (SELECT 1 FROM turns AS earlier WHERE earlier.conversation = turns.conversation \
                     AND earlier.state = 'queued' AND earlier.sequence < turns.sequence) AS oldest \
             FROM turns WHERE id = $1 AND state = 'queued'",
        )
        .bind(turn)
        .fetch_optional(connection)
        .await?;
        Ok(turn)
    }

    async fn store_key_and_files(&self, connection: &mut SqliteConnection, sequence: i64) -> Result<()> {
        sqlx::query("INSERT INTO inbox_keys (channel, key, message) VALUES ($1, $2, $3)")
            .bind(self.message.conversation.channel().as_str())
            .bind(&self.message.key)
            .bind(sequence)
            .execute(&mut *connection)
            .await?;
        for (position, file) in (0_i64..).zip(&self.message.files) {
            sqlx::query("INSERT INTO inbox_files (message, position, state, reference) VALUES ($1, $2, 'waiting', $3)")
                .bind(sequence)
                .bind(position)
                .bind(Json(file))
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }
}

async fn turn_of(connection: &mut SqliteConnection, message: &InboundMessage) -> Result<Option<TurnId>> {
    let turn: Option<Uuid> = sqlx::query_scalar(
        "SELECT inbox.turn FROM inbox_keys JOIN inbox ON inbox.sequence = inbox_keys.message \
         WHERE inbox_keys.channel = $1 AND inbox_keys.key = $2",
    )
    .bind(message.conversation.channel().as_str())
    .bind(&message.key)
    .fetch_optional(connection)
    .await?;
    Ok(turn.map(TurnId))
}
