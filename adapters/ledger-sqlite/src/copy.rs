//! Copies the database while processes work with it: by `VACUUM INTO`, of one state, without unused space.

use std::{io, path::Path};

use rusqlite::{Connection, OpenFlags};
use satchel_domain::Sha256;

use crate::{
    erasure::clear_index,
    exclusive::{list_blobs, require_active},
    open::{DATABASE, OpenError, at_database},
    process::Settings,
    schema::{newest_version, version},
};

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
/// Rows are written one by one into new pages, so nothing of what was deleted or forgotten is in the copy, whatever is still
/// in unused space of the original. The blobs are those that the copy names. Writers don't wait; their log grows until the
/// copy is done. Of a long conversation that is forgotten just before the copy begins, the search index of the copy may have
/// turns that no search finds; a process that opens the copy erases them.
///
/// # Errors
/// When the database can't be read, is of another version, or the copy can't be written.
pub fn copy_database(data_dir: &Path, target: &Path) -> Result<DatabaseCopy, OpenError> {
    let path = data_dir.join(DATABASE);
    let failed = |error: rusqlite::Error| at_database(&path, data_dir, error);
    let source = connect(&path).map_err(failed)?;
    require_current(&source, data_dir)?;
    // A process may not have come to it yet.
    clear_index(&source).map_err(failed)?;
    let uri = to_uri(target).ok_or_else(|| {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the path isn't UTF-8");
        OpenError::Other { path: target.to_owned(), source: Box::new(source) }
    })?;
    let at_target = |error: rusqlite::Error| at_database(target, target.parent().unwrap_or(data_dir), error);
    source.execute("VACUUM INTO ?1", [uri]).map_err(at_target)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let copy = Connection::open_with_flags_and_vfs(target, flags, c"unix-none").map_err(at_target)?;
    // Others may have converted or moved the database since it was looked at.
    let version = require_current(&copy, data_dir)?;
    let blobs = list_blobs(&copy);
    let blobs = blobs.map_err(|error| OpenError::Other { path: path.clone(), source: Box::new(error) })?;
    Ok(DatabaseCopy { version, blobs: blobs.into_iter().map(|blob| blob.sha256).collect() })
}

/// Connects to a database that exists.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Settings::default().busy_timeout)?;
    // As every connection that writes (see `database`).
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "secure_delete", true)?;
    Ok(connection)
}

/// Returns the version of a database, or of its copy, which must be that of this program.
fn require_current(connection: &Connection, data_dir: &Path) -> Result<i64, OpenError> {
    let path = data_dir.join(DATABASE);
    let (found, known) = (version(connection), newest_version());
    let found = found.map_err(|error| at_database(&path, data_dir, error))?;
    if found != known {
        return Err(OpenError::OtherVersion { path, found, known });
    }
    require_active(connection, data_dir)?;
    Ok(found)
}

/// Names a file so that SQLite takes no locks on it: nobody else knows it, and not every file system that holds backups has
/// locks. `None` if the path isn't UTF-8.
fn to_uri(path: &Path) -> Option<String> {
    let path = path.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    Some(format!("file:{path}?vfs=unix-none"))
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
    use crate::SqliteLedger;

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

    /// What earlier versions left in free pages, and the splitting of pages leaves in others.
    #[tokio::test]
    async fn copy_has_nothing_of_unused_space() {
        let directory = tempfile::tempdir().unwrap();
        let ledger = open(directory.path()).await;
        ledger.receive(&message(1), ClaimMode::Never).await.unwrap();
        let database = directory.path().join(DATABASE);
        let delete = "CREATE TABLE scratch (word TEXT); INSERT INTO scratch VALUES ('xylophone'); DROP TABLE scratch;";
        let connection = Connection::open(&database).unwrap();
        connection.pragma_update(None, "secure_delete", false).unwrap();
        connection.execute_batch(delete).unwrap();
        connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
        let has_word = |path: &Path| fs::read(path).unwrap().windows(9).any(|window| window == b"xylophone");
        assert!(has_word(&database));
        // A path that would be an address with a query.
        let target = directory.path().join("copy of 100%?vfs=none#1");
        fs::write(&target, "").unwrap();
        let copied = copy_database(directory.path(), &target).unwrap();
        assert_eq!((copied.version, has_word(&target)), (newest_version(), false));
        let mut names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(!names.any(|name| name.to_string_lossy().contains("journal")), "nothing else is left");
    }

    /// Turns that their process has forgotten and not yet taken out of the index.
    #[tokio::test]
    async fn copy_has_no_forgotten_turn_in_its_index() {
        let directory = tempfile::tempdir().unwrap();
        drop(open(directory.path()).await);
        let connection = Connection::open(directory.path().join(DATABASE)).unwrap();
        let forgotten = "INSERT INTO lanes (id, conversation, channel) VALUES (1, 'web:a', 'web');
             INSERT INTO turns (id, lane, state, ready_at, indexed) VALUES (x'01', 1, 'merged', 0, 1);
             INSERT INTO search_index (rowid, channel, text, files) VALUES (1, 'c l1', 'xylophone', '');";
        connection.execute_batch(forgotten).unwrap();
        let target = directory.path().join("copy");
        fs::write(&target, "").unwrap();
        copy_database(directory.path(), &target).unwrap();
        assert!(!fs::read(&target).unwrap().windows(9).any(|window| window == b"xylophone"));
    }
}
