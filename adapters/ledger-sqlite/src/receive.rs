//! What comes in: deduplicated, joined to its album, put in place of what it edits, or queued as a turn of its own.

use std::collections::BTreeMap;

use satchel_domain::{InboundMessage, InboxId, Timestamp, TurnId};
use satchel_ledger::{QueuedTurnState, can_be_replaced, can_join_album};
use satchel_ports::ledger::{ClaimMode, ClaimedLane, QueuedMessage, QueuedTurn, ReceiveOutcome};
use sqlx::types::Json;
use uuid::Uuid;

use crate::{
    batch::Batch,
    error::{Error, Result},
    lanes,
    process::Process,
    rows::LaneRow,
    session::Session,
    turns,
};

/// Stores a message and, if asked, claims its lane.
pub(crate) async fn receive(
    session: &mut Session<'_>,
    process: &Process,
    message: &InboundMessage,
    claim: ClaimMode,
) -> Result<ReceiveOutcome> {
    let found = find_conversation(session, message).await?;
    if let Some(turn) = found.known.map(TurnId) {
        return Ok(ReceiveOutcome { turn, duplicate: true, claimed: None });
    }
    let lane = found.lane();
    let now = process.now();
    // This process may work on a lane whose time is up, until it finds out: where the wall clock has leapt, it renews.
    let is_own = lane.as_ref().is_some_and(|lane| lane.state().holder == Some(process.owner));
    let free = !is_own && lane.as_ref().is_none_or(|lane| lanes::is_free(process, lane, now));
    let mut batch = Batch::default();
    if lane.is_none() {
        lanes::create(&mut batch, &message.conversation);
    }
    // Before the message is stored: a crash that it did not see is not its own.
    let lease = match claim {
        ClaimMode::IfFree if free => Some(lanes::claim(&mut batch, process, &message.conversation, lane.as_ref(), now)),
        ClaimMode::IfFree | ClaimMode::Never => None,
    };
    let place = Arrival { process, message, now, owned: !free };
    let (turn, stored) = match place.replace(session, &mut batch).await? {
        Some(turn) => (turn, None),
        None => place.add(session, &mut batch).await?,
    };
    let Some(lease) = lease else {
        session.finish(batch);
        return Ok(ReceiveOutcome { turn, duplicate: false, claimed: None });
    };
    let handed_over = match stored {
        // Nothing else is known of the turn than its message, so nothing has to be read.
        Some(stored) if !found.queued && !found.has_unreported => {
            session.finish(batch);
            Some(Box::new(QueuedTurn {
                id: turn,
                ready_at: now,
                messages: vec![stored],
                has_followers: false,
                journal: Vec::new(),
                draft: None,
                crashes: 0,
                unreported_failures: Vec::new(),
                voice: lane.is_some_and(|lane| lane.voice),
                agent: found.agent,
            }))
        }
        // An item of a new album: others may still join it.
        _ if !found.queued && message.album.is_some() => {
            session.finish(batch);
            None
        }
        _ => turns::claimed_turn(session, batch, &message.conversation, now).await?,
    };
    let claimed = ClaimedLane { lease, claimed_at: now, turn: handed_over, unsettled: found.unsettled };
    Ok(ReceiveOutcome { turn, duplicate: false, claimed: Some(claimed) })
}

/// What is there when a message comes.
#[derive(sqlx::FromRow)]
struct Found {
    /// The turn of the message, if it is known already.
    known: Option<Uuid>,
    holder: Option<Uuid>,
    /// There is none before the conversation's first message.
    token: Option<i64>,
    expires_at: Option<i64>,
    voice: Option<bool>,
    /// The agent that was chosen for the conversation.
    agent: Option<String>,
    unsettled: bool,
    /// Whether a turn of the conversation waits or runs.
    queued: bool,
    /// Whether something was not delivered and it hasn't been reported to the model.
    has_unreported: bool,
}

impl Found {
    fn lane(&self) -> Option<LaneRow> {
        let (token, expires_at, voice) = (self.token?, self.expires_at?, self.voice?);
        Some(LaneRow { holder: self.holder, token, expires_at, voice })
    }
}

async fn find_conversation(session: &mut Session<'_>, message: &InboundMessage) -> Result<Found> {
    let mut batch = Batch::default();
    // One row: each row and each statement that ends wakes whoever waits for the batch.
    let found = batch
        .add(
            "SELECT (SELECT inbox.turn FROM inbox_keys JOIN inbox ON inbox.sequence = inbox_keys.message \
                     WHERE inbox_keys.channel = $1 AND inbox_keys.key = $2) AS known, \
                 holder, token, expires_at, voice, agent, \
                 EXISTS (SELECT 1 FROM parts WHERE parts.conversation = $3 AND settled = 0) AS unsettled, \
                 EXISTS (SELECT 1 FROM turns WHERE turns.conversation = $3 AND state = 'queued') AS queued, \
                 EXISTS (SELECT 1 FROM parts WHERE parts.conversation = $3 AND state = 'failed' AND reported = 0 AND call IS NULL \
                     AND kind <> 'delete') \
                     AS has_unreported \
             FROM (SELECT 1) LEFT JOIN lanes ON lanes.conversation = $3",
        )
        .bind(message.conversation.channel().as_str())
        .bind(&message.key)
        .bind(message.conversation.to_string())
        .only_row();
    session.run(batch).await?.first_row(found)?.ok_or(Error::Row { what: "look at a conversation" })
}

/// A message whose key is new, and what decides where it goes.
struct Arrival<'a> {
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
    begun: bool,
    oldest: bool,
}

impl Joinable {
    fn state(&self, is_held: bool) -> QueuedTurnState {
        let (ready_at, is_begun, is_oldest) = (Timestamp(self.ready_at), self.begun, self.oldest);
        QueuedTurnState { ready_at, is_begun, is_oldest, is_held }
    }
}

impl Arrival<'_> {
    /// Puts an edit in the place of its original, if that is queued and nobody has taken it up.
    ///
    /// Taken up is what was injected into a running turn, too. The row gets a new id, so that whoever has read the old words can't consume the new ones with them.
    async fn replace(&self, session: &mut Session<'_>, batch: &mut Batch) -> Result<Option<TurnId>> {
        let Some(original) = &self.message.edit_of else { return Ok(None) };
        let found: Option<(i64, Uuid)> = sqlx::query_as(
            "SELECT inbox.sequence, inbox.turn FROM inbox_keys JOIN inbox ON inbox.sequence = inbox_keys.message \
             WHERE inbox_keys.channel = $1 AND inbox_keys.key = $2 \
               AND inbox.consumed_by IS NULL AND inbox.steered_into IS NULL",
        )
        .bind(self.message.conversation.channel().as_str())
        .bind(original)
        .fetch_optional(session.connection().await?)
        .await?;
        let Some((sequence, turn)) = found else { return Ok(None) };
        match self.queued_turn(session, turn).await? {
            Some(turn) if can_be_replaced(turn.state(self.owned)) => {}
            _ => return Ok(None),
        }
        let id = self.process.new_id();
        batch
            .add("UPDATE inbox SET id = $2, message = $3 WHERE sequence = $1")
            .bind(sequence)
            .bind(id)
            .bind(Json(self.message));
        batch.add("DELETE FROM inbox_files WHERE message = $1").bind(sequence);
        self.store_key_and_files(batch, id);
        Ok(Some(TurnId(turn)))
    }

    /// Stores the message in its album's turn, or in a new one. Brings it as it is queued if it is a turn by itself and
    /// there is nothing to fetch.
    async fn add(&self, session: &mut Session<'_>, batch: &mut Batch) -> Result<(TurnId, Option<QueuedMessage>)> {
        let quiet_at = match self.message.album {
            Some(_) => self.now.saturating_add(self.process.settings.album_quiet),
            None => self.now,
        };
        let conversation = self.message.conversation.to_string();
        let turn = match self.album_turn(session).await? {
            Some(album) => {
                batch.add("UPDATE turns SET ready_at = $2 WHERE sequence = $1").bind(album.sequence).bind(quiet_at.0);
                album.id
            }
            None => {
                let id = self.process.new_id();
                batch
                    .add("INSERT INTO turns (id, conversation, state, album, ready_at) VALUES ($1, $2, 'queued', $3, $4)")
                    .bind(id)
                    .bind(&conversation)
                    .bind(self.message.album.as_deref())
                    .bind(quiet_at.0);
                id
            }
        };
        let id = self.process.new_id();
        batch
            .add(
                "INSERT INTO inbox (id, conversation, turn, message, received_at) \
                 VALUES ($1, $2, $3, $4, $5)",
            )
            .bind(id)
            .bind(&conversation)
            .bind(turn)
            .bind(Json(self.message))
            .bind(self.now.0);
        self.store_key_and_files(batch, id);
        if let Some(original) = &self.message.edit_of {
            // Where the original is first heard of by its edit, it is known by it from then on: what comes of it later
            // is a repeat, and its next edit is one of this message.
            batch
                .add(
                    "INSERT INTO inbox_keys (channel, key, message) \
                     VALUES ($1, $2, (SELECT sequence FROM inbox WHERE id = $3)) ON CONFLICT (channel, key) DO NOTHING",
                )
                .bind(self.message.conversation.channel().as_str())
                .bind(original)
                .bind(id);
        }
        let by_itself = self.message.album.is_none() && self.message.files.is_empty();
        let queued = by_itself.then(|| QueuedMessage {
            id: InboxId(id),
            turn: TurnId(turn),
            message: self.message.clone(),
            files: Vec::new(),
            transcriptions: BTreeMap::new(),
            received_at: self.now,
        });
        Ok((TurnId(turn), queued))
    }

    /// The queued turn of the sender's album, if others may still join it.
    async fn album_turn(&self, session: &mut Session<'_>) -> Result<Option<Joinable>> {
        let Some(album) = &self.message.album else { return Ok(None) };
        let latest: Option<Uuid> = sqlx::query_scalar(
            "SELECT id FROM turns WHERE conversation = $1 AND state = 'queued' AND album = $2 \
               AND EXISTS (SELECT 1 FROM inbox WHERE inbox.turn = turns.id AND message ->> '$.sender.id' = $3) \
             ORDER BY sequence DESC LIMIT 1",
        )
        .bind(self.message.conversation.to_string())
        .bind(album)
        .bind(&self.message.sender.id)
        .fetch_optional(session.connection().await?)
        .await?;
        let Some(latest) = latest else { return Ok(None) };
        let turn = self.queued_turn(session, latest).await?;
        Ok(turn.filter(|turn| can_join_album(turn.state(self.owned), self.now)))
    }

    async fn queued_turn(&self, session: &mut Session<'_>, turn: Uuid) -> Result<Option<Joinable>> {
        let turn = sqlx::query_as(
            "SELECT sequence, id, ready_at, \
                 EXISTS (SELECT 1 FROM journal WHERE journal.turn = turns.id) \
                 OR EXISTS (SELECT 1 FROM parts WHERE parts.turn = turns.id) AS begun, \
                 NOT EXISTS (SELECT 1 FROM turns AS earlier WHERE earlier.conversation = turns.conversation \
                     AND earlier.state = 'queued' AND earlier.sequence < turns.sequence) AS oldest \
             FROM turns WHERE id = $1 AND state = 'queued'",
        )
        .bind(turn)
        .fetch_optional(session.connection().await?)
        .await?;
        Ok(turn)
    }

    fn store_key_and_files(&self, batch: &mut Batch, id: Uuid) {
        batch
            .add(
                "INSERT INTO inbox_keys (channel, key, message) VALUES ($1, $2, (SELECT sequence FROM inbox WHERE id = $3))",
            )
            .bind(self.message.conversation.channel().as_str())
            .bind(&self.message.key)
            .bind(id);
        if !self.message.files.is_empty() {
            batch
                .add(
                    "INSERT INTO inbox_files (message, position, state, reference, sha256) \
                     SELECT sequence, file.key, 'waiting', file.value, unhex(file.value ->> 'stored') \
                     FROM inbox JOIN json_each($2) AS file WHERE inbox.id = $1",
                )
                .bind(id)
                .bind(Json(&self.message.files));
        }
    }
}
