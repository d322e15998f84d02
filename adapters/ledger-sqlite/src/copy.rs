//! Copies the database while processes work with it: SQLite's online backup, of one state.

use std::path::Path;

use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
    ffi,
};
use satchel_domain::Sha256;

use crate::{
    error::Result,
    exclusive::{list_blobs, require_active},
    inspect::connect_without_writing,
    open::{DATABASE, OpenError, at_database},
    schema::{newest_version, version},
};

/// How many pages are copied in one step: 4 MiB.
const PAGES_PER_STEP: i32 = 1024;

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseCopy {
    /// The version of its schema.
    pub version: i64,
    /// The blobs that it names.
    pub blobs: Vec<Sha256>,
}

/// Copies the database of a data directory into an empty file, whose access stays as it is. It blocks.
///
/// One read transaction spans the copy and the list of blobs, so both show the same state. Without it SQLite would begin
/// the copy anew whenever another process commits, and `VACUUM INTO` would move every page, so that the next backup had
/// to store all of them. Writers don't wait; their log grows until the copy is done.
///
/// # Errors
/// When the database can't be read, is of another version, or the copy can't be written.
pub fn copy_database(data_dir: &Path, target: &Path) -> Result<DatabaseCopy, OpenError> {
    let path = data_dir.join(DATABASE);
    let failed = |error: rusqlite::Error| at_database(&path, data_dir, error);
    let source = connect_without_writing(&path).map_err(failed)?;
    source.execute_batch("BEGIN").map_err(failed)?;
    let (found, known) = (version(&source).map_err(failed)?, newest_version());
    if found != known {
        return Err(OpenError::OtherVersion { path, found, known });
    }
    require_active(&source, data_dir)?;
    copy_pages(&source, target).map_err(|error| at_database(target, target.parent().unwrap_or(data_dir), error))?;
    let blobs = list_blobs(&source);
    let blobs = blobs.map_err(|error| OpenError::Other { path: path.clone(), source: Box::new(error) })?;
    Ok(DatabaseCopy { version: found, blobs: blobs.into_iter().map(|blob| blob.sha256).collect() })
}

fn copy_pages(source: &Connection, target: &Path) -> rusqlite::Result<()> {
    // Nobody else knows the file, and not every file system that holds backups has locks.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut copy = Connection::open_with_flags_and_vfs(target, flags, c"unix-none")?;
    // It counts only once it is complete.
    copy.pragma_update(None, "journal_mode", "OFF")?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    let backup = Backup::new(source, &mut copy)?;
    loop {
        match backup.step(PAGES_PER_STEP)? {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            // Nobody else uses either connection.
            _ => return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
    };

    use satchel_domain::{FileReference, Filename, InboundMessage, Sender, StoredBlob};
    use satchel_local::{SystemClock, UuidV7};
    use satchel_ports::{Inbox, ledger::ClaimMode};

    use super::*;
    use crate::{Settings, SqliteLedger};

    async fn open(directory: &Path) -> Arc<SqliteLedger> {
        let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
        Arc::new(SqliteLedger::open(directory, Settings::default(), clock, ids).await.unwrap())
    }

    fn message(number: usize) -> InboundMessage {
        let conversation = "web:a".parse().unwrap();
        let text = format!("{number:050000}");
        InboundMessage { text, ..InboundMessage::new(conversation, number.to_string(), Sender::new("1", "Ann")) }
    }

    /// Each message is two rows of one transaction, pages apart.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn copy_shows_one_state_while_others_write() {
        let (directory, stop) = (tempfile::tempdir().unwrap(), Arc::new(AtomicBool::new(false)));
        let ledger = open(directory.path()).await;
        for number in 0..200 {
            ledger.receive(&message(number), ClaimMode::Never).await.unwrap();
        }
        let (writing, stopped) = (Arc::clone(&ledger), Arc::clone(&stop));
        let writer = tokio::spawn(async move {
            let mut written = 200;
            while !stopped.load(Ordering::Relaxed) {
                writing.receive(&message(written), ClaimMode::Never).await.unwrap();
                written += 1;
            }
            written
        });
        let target = directory.path().join("copy");
        let mut counts = Vec::new();
        for _ in 0..5 {
            fs::write(&target, "").unwrap();
            let (data_dir, copied_to) = (directory.path().to_owned(), target.clone());
            tokio::task::spawn_blocking(move || copy_database(&data_dir, &copied_to)).await.unwrap().unwrap();
            let copy = Connection::open(&target).unwrap();
            let count = |sql: &str| copy.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
            let damage: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            let (messages, keys) = (count("SELECT COUNT(*) FROM inbox"), count("SELECT COUNT(*) FROM inbox_keys"));
            assert_eq!((damage.as_str(), messages), ("ok", keys));
            counts.push(messages);
        }
        stop.store(true, Ordering::Relaxed);
        let written = writer.await.unwrap();
        assert!(counts.is_sorted() && counts[0] >= 200 && counts[4] <= written as i64, "{counts:?} of {written}");
    }

    #[tokio::test]
    async fn blobs_that_the_database_names_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = open(directory.path()).await;
        let sha256 = Sha256::digest("a photo");
        let blob = StoredBlob { sha256, bytes: 7, mime: "image/png".to_owned(), media: Default::default() };
        let files = vec![FileReference::stored(&blob, Filename::from_untrusted("photo.png"))];
        ledger.receive(&InboundMessage { files, ..message(1) }, ClaimMode::Never).await.unwrap();
        let target = directory.path().join("copy");
        fs::write(&target, "").unwrap();
        assert_eq!(copy_database(directory.path(), &target).unwrap().blobs, [sha256]);
    }

    #[tokio::test]
    async fn database_of_another_version_is_not_copied() {
        let directory = tempfile::tempdir().unwrap();
        drop(open(directory.path()).await);
        let database = directory.path().join(DATABASE);
        Connection::open(&database).unwrap().pragma_update(None, "user_version", newest_version() - 1).unwrap();
        let target = directory.path().join("copy");
        fs::write(&target, "").unwrap();
        let error = copy_database(directory.path(), &target).unwrap_err().to_string();
        assert!(error.contains("start `satchel run` once"), "{error}");
        assert_eq!(fs::metadata(target).unwrap().len(), 0);
    }
}
