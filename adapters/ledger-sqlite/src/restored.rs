//! A copy that was restored from a backup: its world is older than the platforms', so it holds back what was unsettled, and
//! what people sent before its owner released it.

use std::path::{Path, PathBuf};

use crate::{
    SqliteLedger,
    database::Database,
    error::Result,
    inspect::connect_without_writing,
    open::{DATABASE, OpenError, at_database},
    running::has_database,
};
use rusqlite::{Connection, OptionalExtension};
use satchel_domain::{Part, PartState, Timestamp, part::FailureReason};
use satchel_ledger_sql::{Json, Session, params, verbs::restored_copy};
use satchel_ports::ledger::{LedgerError, QueuedMessage};

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
    /// Marks the database as a copy that was restored from a backup, holds back what was unsettled in it, and revokes all
    /// links to files.
    ///
    /// # Errors
    /// When the ledger fails.
    pub async fn hold_back(&self, backup_at: Timestamp, original: PathBuf) -> Result<(), LedgerError> {
        self.write("holding back what was unsettled", async move |db: &_| hold_back(db, backup_at, &original).await)
            .await
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
        self.write("releasing what is held back", async move |db: &_| release(db, request).await).await
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

async fn hold_back(db: &Database, backup_at: Timestamp, original: &Path) -> Result<()> {
    db.run(
        "INSERT OR REPLACE INTO restored_copy (id, backup_at, original) VALUES (1, $1, $2)",
        params![backup_at.0, original.to_string_lossy().into_owned()],
    )
    .await?;
    // A turn that runs once more makes its draft and its questions once more.
    db.run("DELETE FROM parts WHERE NOT settled AND turn IN (SELECT id FROM turns WHERE state = 'queued')", params![])
        .await?;
    db.run(
        "INSERT OR REPLACE INTO held_parts (part, state, state_detail) \
         SELECT id, state, state_detail FROM parts WHERE NOT settled",
        params![],
    )
    .await?;
    let failed = PartState::Failed { reason: FailureReason::HeldBack };
    db.run(
        "UPDATE parts SET settled = TRUE, draft = FALSE, state = $1, state_detail = $2 WHERE NOT settled",
        params![failed.as_str(), Json(&failed)],
    )
    .await?;
    db.run(
        "INSERT OR REPLACE INTO held_turns (turn, received) SELECT id, FALSE FROM turns WHERE state = 'queued'",
        params![],
    )
    .await?;
    restored_copy::complete_turns(db).await?;
    db.run("UPDATE lanes SET holder = NULL, expires_at = 0 WHERE holder IS NOT NULL", params![]).await?;
    // Some of them may have been ended since the backup.
    db.run("DELETE FROM logins", params![]).await?;
    revoke_all_links(db).await
}

/// Revokes the links to all files: which of them the original has revoked since the backup isn't known here.
async fn revoke_all_links(db: &Database) -> Result<()> {
    // The original counts on from the backup, and other copies may have been restored from it, so no count follows from
    // another. The end of an id is random.
    let [.., first, second, third, fourth] = db.new_id().into_bytes();
    let count = (u32::from_be_bytes([first, second, third, fourth]) >> 1).max(1);
    db.run("UPDATE attachments SET link_revocations = $1", params![count]).await?;
    Ok(())
}

async fn read_held_back(db: &Database) -> Result<Option<HeldBack>> {
    let Some(copy) = find(db)? else { return Ok(None) };
    let parts = restored_copy::read_parts(db).await?;
    let (unanswered, received) =
        (restored_copy::read_messages(db, false).await?, restored_copy::read_messages(db, true).await?);
    Ok(Some(HeldBack { copy, parts, unanswered, received }))
}

async fn release(db: &Database, request: ReleaseRequest) -> Result<()> {
    let now = db.now();
    db.run("UPDATE restored_copy SET released_at = COALESCE(released_at, $1)", params![now.0]).await?;
    if request.unsettled == HeldChoice::Resume {
        // Its age counts from now: it is to be sent, however old the backup is.
        db.run(
            "UPDATE parts SET settled = FALSE, reported = FALSE, created_at = $1, \
                 (state, state_detail) = (SELECT state, state_detail FROM held_parts WHERE part = parts.id) \
             WHERE id IN (SELECT part FROM held_parts)",
            params![now.0],
        )
        .await?;
    }
    db.run("DELETE FROM held_parts", params![]).await?;
    for (received, choice) in [(false, request.unsettled), (true, request.received)] {
        if choice == HeldChoice::Resume {
            db.run(
                "UPDATE inbox SET consumed_by = NULL \
                 WHERE consumed_by = turn AND turn IN (SELECT turn FROM held_turns WHERE received = $1)",
                params![received],
            )
            .await?;
            db.run(
                "UPDATE turns SET state = 'queued', ending = NULL, completed_at = NULL, indexed = FALSE, crashes = 0, \
                     ready_at = $2 WHERE id IN (SELECT turn FROM held_turns WHERE received = $1)",
                params![received, now.0],
            )
            .await?;
        }
        db.run("DELETE FROM held_turns WHERE received = $1", params![received]).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
