//! What comes in: deduplicated, joined to its album, put in place of what it edits, or queued as a turn of its own.

use std::collections::BTreeMap;

use satchel_domain::{InboundMessage, InboxId, RefusedFile, Timestamp, TurnId};
use satchel_ledger::{QueuedTurnState, can_be_replaced, can_join_album};
use satchel_ports::ledger::{ClaimMode, ClaimedLane, PersonKey, QueuedMessage, QueuedTurn, ReceiveOutcome};
use uuid::Uuid;

use self::{
    earlier_version::{EarlierVersion, is_forgotten},
    reusable_files::ReusableFile,
};
use crate::{
    error::VerbError,
    lanes::{self, Lane, LaneId},
    parameters::Json,
    params,
    session::{Session, VerbResult},
    verbs::{conversation_settings, history, reminders, restored_copy, turns},
    work_scope::{TurnSelection, WorkScope},
};

mod earlier_version;
mod opening;
mod reusable_files;

/// Stores a message and, if asked, claims its lane.
pub async fn receive<S: Session>(db: &S, message: &InboundMessage, claim: ClaimMode) -> VerbResult<ReceiveOutcome, S> {
    if let Some(turn) = find_turn(db, message).await? {
        return Ok(ReceiveOutcome { turn, duplicate: true, claimed: None });
    }
    // Before the database's clock is read: a process trusts its lease from here on, and so never for too long.
    let now = db.now();
    let lane = match db.find_lane(&message.conversation).await? {
        Some(lane) => lane,
        None => lanes::create(db, &message.conversation).await?,
    };
    // This process may work on a lane whose time is up, until it finds out: where the wall clock has leapt, it renews.
    let is_own = lane.state.holder == Some(db.holder());
    let is_free = !is_own && lanes::is_free(db, &lane);
    let earlier = EarlierVersion::find(db, message).await?;
    let opened = opening::open(db, message, lane.id, earlier.as_ref()).await?;
    let message = &*opened;
    if let Some(earlier) = earlier.as_ref().filter(|earlier| earlier.is_same(message)) {
        // It may come once more, after an edit that has changed something.
        let arrival = Arrival { db, message, lane: &lane, now, is_held: !is_free };
        arrival.store_own_key(earlier.sequence).await?;
        return Ok(ReceiveOutcome { turn: earlier.turn, duplicate: true, claimed: None });
    }
    if restored_copy::is_held_back(db, message) {
        let turn = Arrival { db, message, lane: &lane, now, is_held: !is_free }.hold_back(earlier.as_ref()).await?;
        return Ok(ReceiveOutcome { turn, duplicate: false, claimed: None });
    }
    if must_wait(db, claim) && !is_own && !is_free {
        return Err(VerbError::LaneHeld(message.conversation.clone()).into());
    }
    let work = LaneWork::read(db, lane.id).await?;
    // Before the message is stored: a crash that it did not see is not its own.
    let lease = match claim {
        ClaimMode::IfFree | ClaimMode::IfFreeOrQueue if is_free => {
            Some(lanes::claim(db, &message.conversation, &lane).await?)
        }
        ClaimMode::IfFree | ClaimMode::IfFreeOrQueue | ClaimMode::Never => None,
    };
    let arrival = Arrival { db, message, lane: &lane, now, is_held: !is_free };
    let (turn, stored) = match arrival.replace_queued(earlier.as_ref()).await? {
        Some(turn) => (turn, None),
        None => arrival.add_after(earlier.as_ref()).await?,
    };
    if let WorkScope::OwnTurns(own) = &db.settings().scope {
        own.add(turn.0);
    }
    let Some(lease) = lease else { return Ok(ReceiveOutcome { turn, duplicate: false, claimed: None }) };
    let handed_over = match stored {
        // Nothing else is known of the turn than its message, so nothing has to be read.
        Some(stored) if !work.has_turns && !work.has_unreported => Some(Box::new(new_turn(db, &lane, stored).await?)),
        // An item of a new album: others may still join it.
        _ if !work.has_turns && message.album.is_some() => None,
        _ => turns::claimed_turn(db, &lane).await?,
    };
    let claimed = ClaimedLane { lease, claimed_at: now, turn: handed_over, unsettled: work.has_unsettled };
    Ok(ReceiveOutcome { turn, duplicate: false, claimed: Some(claimed) })
}

/// Whether a message waits outside until nobody works on its lane. That of a process that works on its own turns only would
/// be answered within the turn that runs, or by another process. One that is about the turn that runs is for its process.
fn must_wait<S: Session>(db: &S, claim: ClaimMode) -> bool {
    db.settings().scope.has_own_turns_only() && claim != ClaimMode::IfFreeOrQueue
}

/// Finds the turn of a message that is known already.
async fn find_turn<S: Session>(db: &S, message: &InboundMessage) -> VerbResult<Option<TurnId>, S> {
    let turn: Option<(Uuid,)> = db
        .find(
            "SELECT inbox.turn FROM inbox_keys JOIN inbox ON inbox.sequence = inbox_keys.message \
         WHERE inbox_keys.channel = $1 AND inbox_keys.key = $2",
            params![message.conversation.channel().as_str(), message.key.as_str()],
        )
        .await?;
    Ok(turn.map(|(turn,)| TurnId(turn)))
}

/// The turn of a message that nobody works on and nobody has worked on.
async fn new_turn<S: Session>(db: &S, lane: &Lane, mut message: QueuedMessage) -> VerbResult<QueuedTurn, S> {
    let sender = PersonKey::new(message.message.conversation.channel(), &message.message.sender);
    message.message.timezone = reminders::load_timezone(db, &sender).await?;
    Ok(QueuedTurn {
        id: message.turn,
        ready_at: message.received_at,
        messages: vec![message],
        has_followers: false,
        journal: Vec::new(),
        draft: None,
        crashes: 0,
        unreported_failures: Vec::new(),
        settings: conversation_settings::read(db, lane.id).await?,
        history: history::read(db, lane.id, db.settings().max_history_messages).await?.into(),
    })
}

/// What a conversation has to do when a message comes.
struct LaneWork {
    has_unsettled: bool,
    /// Whether a turn waits or runs.
    has_turns: bool,
    /// Whether something was not delivered and it hasn't been reported to the model.
    has_unreported: bool,
}

impl LaneWork {
    async fn read<S: Session>(db: &S, lane: LaneId) -> VerbResult<Self, S> {
        let TurnSelection { all, own } = db.settings().scope.turns();
        let exists: Option<(bool, bool, bool)> = db
            .find(
                "SELECT EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND NOT settled \
                     AND ($2 OR turn IN (SELECT value FROM rarray($3)))), \
                 EXISTS (SELECT 1 FROM turns WHERE lane = $1 AND state = 'queued'), \
                 EXISTS (SELECT 1 FROM parts WHERE lane = $1 AND state = 'failed' AND NOT reported AND call IS NULL \
                     AND kind NOT IN ('delete', 'notice'))",
                params![lane, all, own],
            )
            .await?;
        let (has_unsettled, has_turns, has_unreported) = exists.unwrap_or_default();
        Ok(Self { has_unsettled, has_turns, has_unreported })
    }
}

/// A message whose key is new, and what decides where it goes.
struct Arrival<'a, S> {
    db: &'a S,
    message: &'a InboundMessage,
    lane: &'a Lane,
    /// The time by this process's clock. Queues go by the database's.
    now: Timestamp,
    /// Whether somebody worked on the lane when the message came.
    is_held: bool,
}

/// A queued turn, and what decides who may still join it.
struct JoinableTurn {
    sequence: i64,
    id: Uuid,
    state: QueuedTurnState,
}

impl<S: Session> Arrival<'_, S> {
    /// Stores the message for the owner of a restored copy to decide about, unless it edits one that is answered anyway.
    async fn hold_back(&self, earlier: Option<&EarlierVersion>) -> VerbResult<TurnId, S> {
        if let Some(turn) = self.replace_queued(earlier).await? {
            return Ok(turn);
        }
        if let Some(original) = &self.message.edit_of
            && let Some((sequence, turn)) = restored_copy::find_message(self.db, self.message, original).await?
        {
            self.overwrite_row(sequence).await?;
            return Ok(TurnId(turn));
        }
        let (turn, _) = self.add_after(earlier).await?;
        restored_copy::hold_received(self.db, turn).await?;
        Ok(turn)
    }

    /// Puts an edit in the place of what it edits, if that is queued and nobody has taken it up.
    ///
    /// Taken up is what was injected into a running turn, too. The row gets a new id, so that whoever has read the old
    /// words can't consume the new ones with them.
    async fn replace_queued(&self, earlier: Option<&EarlierVersion>) -> VerbResult<Option<TurnId>, S> {
        let Some(earlier) = earlier else { return Ok(None) };
        let waiting: Option<(i64,)> = self
            .db
            .find(
                "SELECT sequence FROM inbox WHERE sequence = $1 AND consumed_by IS NULL AND steered_into IS NULL",
                params![earlier.sequence],
            )
            .await?;
        if waiting.is_none() {
            return Ok(None);
        }
        match self.queued_turn(earlier.turn.0).await? {
            Some(turn) if can_be_replaced(turn.state) => {}
            _ => return Ok(None),
        }
        self.with_message(&earlier.replaced_by(self.message)).overwrite_row(earlier.sequence).await?;
        Ok(Some(earlier.turn))
    }

    /// Stores the message as [`add`](Self::add) does; an edit with what it corrects.
    async fn add_after(&self, earlier: Option<&EarlierVersion>) -> VerbResult<(TurnId, Option<QueuedMessage>), S> {
        match earlier {
            Some(earlier) => self.with_message(&earlier.corrected_by(self.message)).add().await,
            None => self.add().await,
        }
    }

    fn with_message<'b>(&'b self, message: &'b InboundMessage) -> Arrival<'b, S> {
        Arrival { db: self.db, message, lane: self.lane, now: self.now, is_held: self.is_held }
    }

    /// Stores the message in the row of another one, which it replaces. A file that both have stays as it is: a turn that was
    /// stopped, or whose process is gone, may have stored it.
    async fn overwrite_row(&self, sequence: i64) -> VerbResult<(), S> {
        let stored = ReusableFile::read(self.db, sequence).await?;
        self.db
            .run(
                "UPDATE inbox SET id = $2, message = $3 WHERE sequence = $1",
                params![sequence, self.db.new_id(), Json(self.message)],
            )
            .await?;
        self.db.run("DELETE FROM inbox_files WHERE message = $1", params![sequence]).await?;
        self.store_own_key(sequence).await?;
        self.store_files(sequence).await?;
        for (position, file) in reusable_files::match_files(stored, &self.message.files) {
            file.restore(self.db, sequence, position).await?;
        }
        Ok(())
    }

    /// Stores the message in its album's turn, or in a new one. Returns it as it is queued if it is a turn by itself and
    /// there is nothing to fetch.
    async fn add(&self) -> VerbResult<(TurnId, Option<QueuedMessage>), S> {
        let turn = self.join_or_create_turn().await?;
        let id = self.db.new_id();
        let sequence: i64 = self.db.value(
            "INSERT INTO inbox (id, lane, turn, message, received_at) VALUES ($1, $2, $3, $4, $5) RETURNING sequence",
            params![id, self.lane.id, turn, Json(self.message), self.now.0],
        ).await?;
        self.store_own_key(sequence).await?;
        self.store_files(sequence).await?;
        if let Some(original) = &self.message.edit_of {
            // The original is known by its newest version from then on, even if it is first heard of by its edit: what comes
            // of it later is a repeat, and its next edit is one of this message.
            self.point_key(original, sequence).await?;
        }
        let is_alone = self.message.album.is_none() && self.message.files.is_empty();
        let queued = is_alone.then(|| QueuedMessage {
            id: InboxId(id),
            turn: TurnId(turn),
            message: self.message.clone(),
            files: Vec::new(),
            transcriptions: BTreeMap::new(),
            received_at: self.now,
        });
        Ok((TurnId(turn), queued))
    }

    async fn join_or_create_turn(&self) -> VerbResult<Uuid, S> {
        let ready_at = match self.message.album {
            Some(_) => self.lane.now.saturating_add(self.db.settings().album_quiet),
            None => self.lane.now,
        };
        if restored_copy::is_held_back(self.db, self.message)
            && let Some(album) = restored_copy::find_album(self.db, self.lane.id, self.message).await?
        {
            return Ok(album);
        }
        if let Some(album) = self.album_turn().await? {
            self.db
                .run("UPDATE turns SET ready_at = $2 WHERE sequence = $1", params![album.sequence, ready_at.0])
                .await?;
            return Ok(album.id);
        }
        let id = self.db.new_id();
        self.db
            .run(
                "INSERT INTO turns (id, lane, state, album, ready_at) VALUES ($1, $2, 'queued', $3, $4)",
                params![id, self.lane.id, self.message.album, ready_at.0],
            )
            .await?;
        Ok(id)
    }

    /// The queued turn of the sender's album, if others may still join it.
    async fn album_turn(&self) -> VerbResult<Option<JoinableTurn>, S> {
        let Some(album) = &self.message.album else { return Ok(None) };
        let latest: Option<(Uuid,)> = self
            .db
            .find(
                "SELECT id FROM turns WHERE lane = $1 AND state = 'queued' AND album = $2 \
               AND EXISTS (SELECT 1 FROM inbox WHERE inbox.turn = turns.id AND json_extract(message, '$.sender.id') = $3) \
             ORDER BY sequence DESC LIMIT 1",
                params![self.lane.id, album, self.message.sender.id],
            )
            .await?;
        let Some((latest,)) = latest else { return Ok(None) };
        let turn = self.queued_turn(latest).await?;
        Ok(turn.filter(|turn| can_join_album(turn.state, self.lane.now)))
    }

    async fn queued_turn(&self, turn: Uuid) -> VerbResult<Option<JoinableTurn>, S> {
        let row: Option<(i64, i64, bool, bool)> = self
            .db
            .find(
                "SELECT sequence, ready_at, \
                 EXISTS (SELECT 1 FROM journal WHERE journal.turn = turns.id) \
                 OR EXISTS (SELECT 1 FROM parts WHERE parts.turn = turns.id), \
                 NOT EXISTS (SELECT 1 FROM turns AS earlier WHERE earlier.lane = turns.lane \
                     AND earlier.state = 'queued' AND earlier.sequence < turns.sequence) \
             FROM turns WHERE id = $1 AND state = 'queued'",
                params![turn],
            )
            .await?;
        Ok(row.map(|(sequence, ready_at, is_begun, is_oldest)| {
            let ready_at = Timestamp(ready_at);
            let state = QueuedTurnState { ready_at, is_begun, is_oldest, is_held: self.is_held };
            JoinableTurn { sequence, id: turn, state }
        }))
    }

    /// Stores the key of the message. Where another process has stored it meanwhile, this one is run once more, and finds it.
    async fn store_own_key(&self, sequence: i64) -> VerbResult<(), S> {
        let channel = self.message.conversation.channel().as_str();
        self.db
            .run(
                "INSERT INTO inbox_keys (channel, key, message) VALUES ($1, $2, $3)",
                params![channel, self.message.key, sequence],
            )
            .await?;
        Ok(())
    }

    /// Makes another key lead to the message, whether it is known already or not.
    async fn point_key(&self, key: &str, sequence: i64) -> VerbResult<(), S> {
        self.db
            .run(
                "INSERT INTO inbox_keys (channel, key, message) VALUES ($1, $2, $3) \
                 ON CONFLICT (channel, key) DO UPDATE SET message = excluded.message",
                params![self.message.conversation.channel().as_str(), key, sequence],
            )
            .await?;
        Ok(())
    }

    async fn store_files(&self, sequence: i64) -> VerbResult<(), S> {
        for (position, file) in (0_i64..).zip(&self.message.files) {
            let removed = || "it was removed here; send it again to keep it".to_owned();
            if let Some(reason) = is_forgotten(file).then(removed).or_else(|| file.unreadable.clone()) {
                let refused = RefusedFile { filename: file.filename.clone(), bytes: None, reason };
                self.db.run(
                    "INSERT INTO inbox_files (message, position, state, reference, refused) VALUES ($1, $2, 'refused', $3, $4)",
                    params![sequence, position, Json(file), Json(&refused)],
                ).await?;
                continue;
            }
            self.db.run(
                "INSERT INTO inbox_files (message, position, state, reference, sha256) VALUES ($1, $2, 'waiting', $3, $4)",
                params![sequence, position, Json(file), file.stored.map(|stored| stored.0)],
            ).await?;
        }
        Ok(())
    }
}
