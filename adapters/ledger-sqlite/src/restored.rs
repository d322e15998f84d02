//! A copy that was restored from a backup: its world is older than the platforms', so it holds back what was unsettled, and
//! what people sent before its owner released it.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};
use satchel_domain::{Ending, InboundMessage, Part, PartState, Timestamp, TurnId, part::FailureReason};
use satchel_ports::ledger::{LedgerError, QueuedMessage};
use uuid::Uuid;

use crate::{
    SqliteLedger,
    attachments::Records,
    database::{Database, Json, Query},
    error::Result,
    inspect::connect_without_writing,
    lanes::LaneId,
    open::{DATABASE, OpenError, at_database},
    rows::{self, MessageRow, PartRow, select_messages, select_part},
    running::has_database,
};

/// The backup of which a database is a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredCopy {
    /// When the backup was taken.
    pub backup_at: Timestamp,
    /// The data directory that it was taken of.
    pub original: PathBuf,
    /// When its owner decided about what it holds back; until then it must not run.
    pub released_at: Option<Timestamp>,
}

/// What a restored copy holds back.
#[derive(Debug, Clone)]
pub struct HeldBack {
    pub copy: RestoredCopy,
    /// Parts that were not settled when the backup was taken.
    pub parts: Vec<Part>,
    /// Messages that were not answered when the backup was taken.
    pub unanswered: Vec<QueuedMessage>,
    /// Messages that people sent before the copy was released, and that came in since.
    pub received: Vec<QueuedMessage>,
}

/// What becomes of what is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldChoice {
    /// Parts are sent and messages answered.
    Resume,
    /// Nothing is done.
    Drop,
}

/// What the owner has decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleaseRequest {
    /// About the parts and messages of the backup.
    pub unsettled: HeldChoice,
    /// About the messages that came in since.
    pub received: HeldChoice,
}

/// Finds out whether the database of a data directory is a restored copy. Nothing is changed; it blocks.
///
/// # Errors
/// When the database can't be read.
pub fn find_restored_copy(data_dir: &Path) -> Result<Option<RestoredCopy>, OpenError> {
    let path = data_dir.join(DATABASE);
    // What is wrong with the directory, opening it tells in better words.
    if !has_database(data_dir).unwrap_or(false) {
        return Ok(None);
    }
    let failed = |error| at_database(&path, data_dir, error);
    let connection = connect_without_writing(&path).map_err(failed)?;
    // The database of an earlier version has no such table.
    let table = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'restored_copy')";
    match connection.query_row(table, [], |row| row.get(0)).map_err(failed)? {
        true => find(&connection).map_err(failed),
        false => Ok(None),
    }
}

impl SqliteLedger {
    /// Marks the database as a copy that was restored from a backup, and holds back what was unsettled in it.
    ///
    /// # Errors
    /// When the ledger fails.
    pub async fn hold_back(&self, backup_at: Timestamp, original: PathBuf) -> Result<(), LedgerError> {
        self.writer.run("holding back what was unsettled", move |db| hold_back(db, backup_at, &original)).await
    }

    /// Reads what is held back; `None` where the database is no restored copy.
    ///
    /// # Errors
    /// When the ledger fails.
    pub async fn held_back(&self) -> Result<Option<HeldBack>, LedgerError> {
        self.read("reading what is held back", read_held_back).await
    }

    /// Carries out what the owner has decided. From the first time on the copy may run.
    ///
    /// # Errors
    /// When the ledger fails.
    pub async fn release_held(&self, request: ReleaseRequest) -> Result<(), LedgerError> {
        self.writer.run("releasing what is held back", move |db| release(db, request)).await
    }
}

/// Reads of which backup the database is a copy.
pub(crate) fn find(connection: &Connection) -> rusqlite::Result<Option<RestoredCopy>> {
    let read = connection.query_row("SELECT backup_at, original, released_at FROM restored_copy", [], |row| {
        let (original, released_at): (String, Option<i64>) = (row.get(1)?, row.get(2)?);
        Ok(RestoredCopy {
            backup_at: Timestamp(row.get(0)?),
            original: PathBuf::from(original),
            released_at: released_at.map(Timestamp),
        })
    });
    read.optional()
}

fn hold_back(db: &Database, backup_at: Timestamp, original: &Path) -> Result<()> {
    db.run(
        "INSERT OR REPLACE INTO restored_copy (id, backup_at, original) VALUES (1, ?1, ?2)",
        params![backup_at.0, original.to_string_lossy()],
    )?;
    // A turn that runs once more makes its draft and its questions once more.
    db.run("DELETE FROM parts WHERE settled = 0 AND turn IN (SELECT id FROM turns WHERE state = 'queued')", [])?;
    db.run(
        "INSERT OR REPLACE INTO held_parts (part, state, state_detail) \
         SELECT id, state, state_detail FROM parts WHERE settled = 0",
        [],
    )?;
    let failed = PartState::Failed { reason: FailureReason::HeldBack };
    db.run(
        "UPDATE parts SET settled = 1, draft = 0, state = ?1, state_detail = ?2 WHERE settled = 0",
        params![failed.as_str(), Json(&failed)],
    )?;
    db.run("INSERT OR REPLACE INTO held_turns (turn, received) SELECT id, 0 FROM turns WHERE state = 'queued'", [])?;
    complete_held(db)?;
    db.run("UPDATE lanes SET holder = NULL, expires_at = 0 WHERE holder IS NOT NULL", [])?;
    Ok(())
}

/// Takes the turns that are held back out of their lanes' queues. The keys of their messages stay, so that none is stored
/// twice.
fn complete_held(db: &Database) -> Result<()> {
    db.run(
        "UPDATE inbox SET consumed_by = turn \
         WHERE consumed_by IS NULL AND turn IN (SELECT turn FROM held_turns)",
        [],
    )?;
    db.run(
        "UPDATE turns SET state = 'completed', ending = ?1, completed_at = ?2, indexed = 1 \
         WHERE state = 'queued' AND id IN (SELECT turn FROM held_turns)",
        params![Json(&Ending::Cancelled), db.now().0],
    )?;
    Ok(())
}

/// Whether a message was sent before the copy was released. What the platform doesn't date, such as the press of a button,
/// can't be told from a new one.
pub(crate) fn is_held_back(db: &Database, message: &InboundMessage) -> bool {
    db.process.held_before.is_some_and(|released_at| message.sent_at.is_some_and(|sent_at| sent_at < released_at))
}

/// Holds back the new turn of a message that came in.
pub(crate) fn hold_received(db: &Database, turn: TurnId) -> Result<()> {
    tracing::warn!(turn.id = %turn, "a message from before this restored copy was released is held back; `satchel backup held` lists it");
    db.run("INSERT OR IGNORE INTO held_turns (turn, received) VALUES (?1, 1)", [turn.0])?;
    complete_held(db)
}

/// Finds a message that came in and is held back, by its key, and its turn.
pub(crate) fn find_held_message(db: &Database, edit: &InboundMessage, key: &str) -> Result<Option<(i64, Uuid)>> {
    db.find(
        "SELECT inbox.sequence, inbox.turn FROM inbox_keys JOIN inbox ON inbox.sequence = inbox_keys.message \
         JOIN held_turns ON held_turns.turn = inbox.turn \
         WHERE inbox_keys.channel = ?1 AND inbox_keys.key = ?2 AND received = 1",
        [edit.conversation.channel().as_str(), key],
    )
}

/// Finds the held turn of the album of a message that is held back.
pub(crate) fn find_held_album(db: &Database, lane: LaneId, message: &InboundMessage) -> Result<Option<Uuid>> {
    let turn: Option<(Uuid,)> = db.find(
        "SELECT turns.id FROM turns JOIN held_turns ON held_turns.turn = turns.id \
         WHERE lane = ?1 AND album = ?2 AND received = 1 \
           AND EXISTS (SELECT 1 FROM inbox WHERE inbox.turn = turns.id AND message ->> '$.sender.id' = ?3)",
        params![lane, message.album, message.sender.id],
    )?;
    Ok(turn.map(|(turn,)| turn))
}

fn read_held_back(db: &Database) -> Result<Option<HeldBack>> {
    let Some(copy) = find(db)? else { return Ok(None) };
    let parts: Vec<PartRow> =
        db.all(select_part!("WHERE parts.id IN (SELECT part FROM held_parts) ORDER BY turn_sequence, position"), [])?;
    let messages = |received: bool| -> Result<Vec<QueuedMessage>> {
        let rows: Vec<MessageRow> = db.all(
            select_messages!(
                "JOIN held_turns ON held_turns.turn = inbox.turn WHERE received = ?1 AND inbox.consumed_by = inbox.turn \
                 ORDER BY inbox.sequence, inbox_files.position"
            ),
            [received],
        )?;
        let records = Records::read(db, rows.iter().filter_map(MessageRow::file).collect())?;
        rows::messages(rows, &records)
    };
    let (unanswered, received) = (messages(false)?, messages(true)?);
    Ok(Some(HeldBack { copy, parts: rows::parts(db, parts)?, unanswered, received }))
}

fn release(db: &Database, request: ReleaseRequest) -> Result<()> {
    let now = db.now();
    db.run("UPDATE restored_copy SET released_at = COALESCE(released_at, ?1)", [now.0])?;
    if request.unsettled == HeldChoice::Resume {
        // Its age counts from now: it is to be sent, however old the backup is.
        db.run(
            "UPDATE parts SET settled = 0, reported = 0, created_at = ?1, \
                 (state, state_detail) = (SELECT state, state_detail FROM held_parts WHERE part = parts.id) \
             WHERE id IN (SELECT part FROM held_parts)",
            [now.0],
        )?;
    }
    db.run("DELETE FROM held_parts", [])?;
    for (received, choice) in [(false, request.unsettled), (true, request.received)] {
        if choice == HeldChoice::Resume {
            db.run(
                "UPDATE inbox SET consumed_by = NULL \
                 WHERE consumed_by = turn AND turn IN (SELECT turn FROM held_turns WHERE received = ?1)",
                [received],
            )?;
            db.run(
                "UPDATE turns SET state = 'queued', ending = NULL, completed_at = NULL, indexed = 0, crashes = 0, \
                     ready_at = ?2 WHERE id IN (SELECT turn FROM held_turns WHERE received = ?1)",
                params![received, now.0],
            )?;
        }
        db.run("DELETE FROM held_turns WHERE received = ?1", [received])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
