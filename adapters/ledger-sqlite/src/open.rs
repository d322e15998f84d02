//! Opening the database: its directory, its settings, its schema, and clear words when that fails.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};
use satchel_ports::{Clock, Ids, ledger::HolderId};
use tokio::sync::Semaphore;

use crate::{
    SqliteLedger,
    database::{Database, connect},
    erasure::{self, Erasure},
    error::{is_busy, is_full},
    exclusive,
    gateways::GatewayLocks,
    owners::{self, OWNER_ONLY, OwnerLock, Owners, make_private_directory},
    process::{Process, Settings},
    readers::Readers,
    restored,
    schema::{self, SchemaError},
    writer::Writer,
};

/// The name of the database in its directory.
pub const DATABASE: &str = "satchel.db";

const PAGE_BYTES: u64 = 4096;

/// How soon a database that another process keeps locked is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Why the ledger can't be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file is something else, or damaged.
    #[error("`{path}` is not a Satchel database, or it is damaged; move it away or restore it from a backup")]
    Damaged {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A newer Satchel has changed the schema.
    #[error(
        "`{path}` was written by a newer Satchel: it has schema version {found}, this version knows up to {known}; \
         update Satchel"
    )]
    Newer {
        path: PathBuf,
        /// The version in the database.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// A Satchel of before the first release has written it.
    #[error(
        "`{path}` has schema version {found}, this version of Satchel converts databases from version {oldest} on; start an \
         earlier Satchel with it once"
    )]
    TooOld {
        path: PathBuf,
        /// The version in the database.
        found: i64,
        /// The oldest version that is converted.
        oldest: i64,
    },
    /// A copy is wanted of a database that has not been brought up to date.
    #[error("`{path}` has schema version {found}, this version of Satchel needs {known}; start `satchel run` once")]
    OtherVersion {
        path: PathBuf,
        /// The version in the database.
        found: i64,
        /// The version that this program knows.
        known: i64,
    },
    /// It was moved to another database.
    #[error(
        "the ledger in `{path}` was moved to {location} by `satchel migrate`; start with the configuration that names it. \
         To move it back here, run `satchel migrate` with the two configurations exchanged"
    )]
    Moved {
        path: PathBuf,
        /// Where it is now, without a password.
        location: String,
    },
    /// It is the copy of a move that is not finished.
    #[error(
        "`{path}` is a copy of the ledger in {origin} that `satchel migrate` has not finished; run the same command again. \
         If the old configuration still starts, you may also go on with that"
    )]
    Unfinished {
        path: PathBuf,
        /// Where the original is, without a password.
        origin: String,
    },
    /// It is being moved, or filled.
    #[error("`{path}` is locked by `satchel migrate`, which is running; wait until it has ended")]
    Moving { path: PathBuf },
    /// It is wanted by one process alone.
    #[error("`{path}` is in use; stop Satchel first (running processes: {processes})")]
    InUse { path: PathBuf, processes: usize },
    /// The place can be read and not written.
    #[error("`{path}` is read-only; make it writable or choose another storage.data_dir")]
    ReadOnly {
        /// The directory or the database.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The user that runs Satchel may not use the place.
    #[error("no permission to use `{path}`; change its owner or mode, or choose another storage.data_dir")]
    NoPermission {
        /// The directory or the database.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The disk is full.
    #[error("no space is left for `{path}`")]
    Full {
        /// The directory or the database.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Anything else.
    #[error("failed to open `{path}`")]
    Other {
        /// The directory or the database.
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl SqliteLedger {
    /// Opens the ledger in a data directory and creates what is missing; to be called within a Tokio runtime.
    ///
    /// Several processes may have one directory open; each is an owner of its own.
    ///
    /// # Errors
    /// When the directory or the database can't be used, in words for the person who starts Satchel.
    pub async fn open(
        data_dir: &Path,
        settings: Settings,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self, OpenError> {
        let directory = data_dir.to_owned();
        let opened = tokio::task::spawn_blocking(move || open(&directory, settings, clock, ids)).await;
        let other = |panic| OpenError::Other { path: data_dir.join(DATABASE), source: Box::new(panic) };
        opened.map_err(other)?
    }
}

fn open(
    data_dir: &Path,
    settings: Settings,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
) -> Result<SqliteLedger, OpenError> {
    let path = data_dir.join(DATABASE);
    let holder = settings.verbs.scope.holder_id(ids.next());
    let failed = |error| at_database(&path, data_dir, error);
    let OpenDatabase { connection, owners, lock } = open_database(data_dir, holder, settings.busy_timeout)?;
    // Behind the first write: that waits for a process which is moving the ledger.
    exclusive::require_active(&connection, data_dir)?;
    if let Some(bytes) = settings.max_bytes {
        let pages = i64::try_from(bytes.div_ceil(PAGE_BYTES)).unwrap_or(i64::MAX);
        connection.pragma_update(None, "max_page_count", pages).map_err(failed)?;
    }
    let held_before = restored::find(&connection).map_err(failed)?.and_then(|copy| copy.released_at);
    let process = Arc::new(Process { holder, owners, settings, clock, ids, held_before });
    let mut erasure = Erasure::new(data_dir.to_owned(), Instant::now());
    if erasure::is_requested(&connection).map_err(failed)? {
        erasure.start(Instant::now());
    }
    let writer = Writer::start(Database::new(connection, Arc::clone(&process)).map_err(failed)?, erasure);
    Ok(SqliteLedger {
        writer: writer.map_err(|error| at_directory(data_dir.to_owned(), error))?,
        readers: Readers::new(path, Arc::clone(&process)),
        search_permit: Arc::new(Semaphore::new(1)),
        gateways: Arc::new(GatewayLocks::new(holder, process.owners.directory().to_owned())),
        _lock: lock,
    })
}

/// A database of this version's schema that can be written.
pub(crate) struct OpenDatabase {
    pub(crate) connection: Connection,
    pub(crate) owners: Owners,
    pub(crate) lock: OwnerLock,
}

/// Opens the database of a data directory: creates what is missing, and brings the schema up to date.
pub(crate) fn open_database(
    data_dir: &Path,
    holder: HolderId,
    busy_timeout: Duration,
) -> Result<OpenDatabase, OpenError> {
    let path = data_dir.join(DATABASE);
    let (owners, lock) = prepare(data_dir, holder).map_err(|error| at_directory(data_dir.to_owned(), error))?;
    let failed = |error| at_database(&path, data_dir, error);
    let mut connection = connect_when_free(&path, busy_timeout).map_err(failed)?;
    schema::migrate(&mut connection, &path, &owners).map_err(|error| match error {
        SchemaError::Newer { found, known } => OpenError::Newer { path: path.clone(), found, known },
        SchemaError::TooOld { found, oldest } => OpenError::TooOld { path: path.clone(), found, oldest },
        SchemaError::Database(error) => failed(error),
        SchemaError::Copy(error) => at_directory(data_dir.to_owned(), error),
    })?;
    // SQLite opens a file that it may not write for reading, and would tell with the first message only.
    connection.execute("DELETE FROM lanes WHERE FALSE", []).map_err(failed)?;
    Ok(OpenDatabase { connection, owners, lock })
}

/// Makes the directories and takes the owner's lock.
fn prepare(data_dir: &Path, holder: HolderId) -> io::Result<(Owners, OwnerLock)> {
    make_private_directory(data_dir)?;
    create_private_database(&data_dir.join(DATABASE));
    let owners = Owners::open(data_dir)?;
    owners.clean()?;
    let lock = owners.lock(holder)?;
    Ok((owners, lock))
}

/// Makes an empty database that only its owner can read. SQLite would make it by the umask, and gives the files that it
/// puts beside it the mode of the database.
fn create_private_database(path: &Path) {
    // One that exists stays; why it can't be made, SQLite finds out again when it opens it.
    let _ = fs::OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path);
}

/// Connects, and waits meanwhile for another process that turns a new file into a database: SQLite itself waits for
/// everything but that, and for the last of others that is just leaving.
pub(crate) fn connect_when_free(path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let began = Instant::now();
    loop {
        match connect(path, busy_timeout) {
            Err(error) if is_busy(&error) && began.elapsed() < busy_timeout => thread::sleep(RETRY_INTERVAL),
            connected => return connected,
        }
    }
}

pub(crate) fn at_directory(path: PathBuf, error: io::Error) -> OpenError {
    let kind = error.kind();
    let source = Box::new(error);
    match kind {
        io::ErrorKind::PermissionDenied => OpenError::NoPermission { path, source },
        io::ErrorKind::ReadOnlyFilesystem => OpenError::ReadOnly { path, source },
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::Full { path, source },
        _ => OpenError::Other { path, source },
    }
}

pub(crate) fn at_database(path: &Path, data_dir: &Path, error: rusqlite::Error) -> OpenError {
    let code = error.sqlite_error_code();
    let full = is_full(&error);
    let path = path.to_owned();
    let source = Box::new(error);
    match code {
        _ if full => OpenError::Full { path, source },
        Some(ErrorCode::DatabaseBusy) if owners::is_moving(data_dir) => OpenError::Moving { path },
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::Damaged { path, source },
        Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path, source },
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            OpenError::NoPermission { path, source }
        }
        // SQLite doesn't say why; trying it ourselves does.
        Some(ErrorCode::CannotOpen) => match fs::OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                OpenError::NoPermission { path: data_dir.to_owned(), source }
            }
            Err(error) => at_directory(path, error),
            Ok(_) => OpenError::Other { path, source },
        },
        _ => OpenError::Other { path, source },
    }
}

#[cfg(test)]
mod tests {
    use satchel_local::{SystemClock, UuidV7};

    use super::*;
    use crate::database::Query;

    /// The words for what a test can't bring about as every user; whether the others are met is shown in `tests/it`.
    #[test]
    fn the_systems_refusals_are_told_apart() {
        let words = |kind: io::ErrorKind| at_directory("/data".into(), kind.into()).to_string();
        for (kind, expected) in [
            (io::ErrorKind::PermissionDenied, "no permission to use `/data`"),
            (io::ErrorKind::ReadOnlyFilesystem, "`/data` is read-only"),
            (io::ErrorKind::StorageFull, "no space is left for `/data`"),
            (io::ErrorKind::QuotaExceeded, "no space is left for `/data`"),
            (io::ErrorKind::NotADirectory, "failed to open `/data`"),
        ] {
            assert!(words(kind).starts_with(expected), "{kind}: {}", words(kind));
        }
    }

    /// A log that isn't synced with every commit would lose the last of them to a power cut.
    #[tokio::test]
    async fn writer_makes_every_commit_durable_and_overwrites_deletions() {
        let directory = tempfile::tempdir().unwrap();
        let ledger =
            SqliteLedger::open(directory.path(), Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7))
                .await
                .unwrap();
        for (pragma, expected) in [
            ("SELECT journal_mode FROM pragma_journal_mode", "wal"),
            ("SELECT CAST(synchronous AS TEXT) FROM pragma_synchronous", "2"),
            ("SELECT CAST(fullfsync AS TEXT) FROM pragma_fullfsync", "1"),
            ("SELECT CAST(foreign_keys AS TEXT) FROM pragma_foreign_keys", "1"),
            ("SELECT CAST(secure_delete AS TEXT) FROM pragma_secure_delete", "1"),
            ("SELECT CAST(timeout AS TEXT) FROM pragma_busy_timeout", "10000"),
        ] {
            let value: String = ledger.writer.run("asking", move |db| Query::value(&**db, pragma, [])).await.unwrap();
            assert_eq!(value, expected, "{pragma}");
        }
        assert_eq!(ledger.commits(), 0, "asking costs nothing");
        let written = ledger.readers.run(|db| Query::run(&**db, "DELETE FROM lanes", [])).await;
        assert!(written.is_err(), "readers can't write");
    }
}
