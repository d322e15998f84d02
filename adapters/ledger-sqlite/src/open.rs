//! Opening the database: its directory, its settings, its schema, and clear words when that fails.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_ports::{Clock, Ids, ledger::HolderId};
use sqlx::{
    ConnectOptions, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::{
    SqliteLedger,
    error::{code, extended_code, is_busy, is_full},
    held::Held,
    owners::{OWNER_ONLY, OwnerLock, Owners, make_private_directory},
    process::{Process, Settings},
    readers::Readers,
    schema::{self, SchemaError},
    writer::Writer,
};

/// The name of the database in its directory.
pub(crate) const DATABASE: &str = "satchel.db";

const PAGE: u64 = 4096;

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
        let path = data_dir.join(DATABASE);
        let owner = HolderId(ids.next());
        let (owners, lock) = prepare(data_dir.to_owned(), owner).await?;
        let options = options(&path, &settings);
        let failed = |error: sqlx::Error| at_database(&path, data_dir, error);
        let mut connection = connect(&options, settings.busy_timeout).await.map_err(failed)?;
        schema::migrate(&mut connection, &path, &owners).await.map_err(|error| match error {
            SchemaError::Newer { found, known } => OpenError::Newer { path: path.clone(), found, known },
            SchemaError::Failed(error) => failed(error),
            SchemaError::Migration(error) => OpenError::Other { path: path.clone(), source: Box::new(error) },
        })?;
        // SQLite opens a file that it may not write for reading, and would tell with the first message only.
        sqlx::query("DELETE FROM lanes WHERE FALSE").execute(&mut connection).await.map_err(failed)?;
        if let Some(bytes) = settings.max_bytes {
            let pages = format!("PRAGMA max_page_count = {}", bytes.div_ceil(PAGE));
            sqlx::query(sqlx::AssertSqlSafe(pages)).execute(&mut connection).await.map_err(failed)?;
        }
        let readers = Readers::new(options, settings.readers, settings.busy_timeout);
        Ok(Self {
            process: Process::new(owner, owners, settings, clock, ids).into(),
            writer: Writer::start(connection),
            readers,
            held: Held::default(),
            _lock: lock,
        })
    }
}

/// Makes the directories and takes the owner's lock.
async fn prepare(data_dir: PathBuf, owner: HolderId) -> Result<(Owners, OwnerLock), OpenError> {
    let path = data_dir.clone();
    let prepared = tokio::task::spawn_blocking(move || {
        make_private_directory(&data_dir)?;
        create_private_database(&data_dir.join(DATABASE));
        let owners = Owners::open(&data_dir)?;
        owners.clean()?;
        let lock = owners.lock(owner)?;
        Ok((owners, lock))
    });
    let prepared = prepared.await.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    prepared.map_err(|error| at_directory(path, error))
}

/// Makes an empty database that only its owner can read. SQLite would make it by the umask, and gives the files that it
/// puts beside it the mode of the database.
fn create_private_database(path: &Path) {
    // One that exists stays; why it can't be made, SQLite finds out again when it opens it.
    let _ = fs::OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path);
}

fn options(path: &Path, settings: &Settings) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // Where fsync alone doesn't reach the disk (macOS), this one does; elsewhere it changes nothing.
        .pragma("fullfsync", "ON")
        // Its journals of statements and savepoints hold people's words, which belong into no other directory.
        .pragma("temp_store", "MEMORY")
        .busy_timeout(settings.busy_timeout)
        .foreign_keys(true)
        .statement_cache_capacity(256)
        .disable_statement_logging()
}

/// Connects, and waits meanwhile for another process that turns a new file into a database: SQLite itself waits for
/// everything but that, and for the last of others that is just leaving.
pub(crate) async fn connect(options: &SqliteConnectOptions, patience: Duration) -> sqlx::Result<SqliteConnection> {
    let began = Instant::now();
    loop {
        match options.connect().await {
            Err(error) if is_busy(&error) && began.elapsed() < patience => tokio::time::sleep(RETRY_INTERVAL).await,
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

pub(crate) fn at_database(path: &Path, data_dir: &Path, error: sqlx::Error) -> OpenError {
    let code = extended_code(&error).map(|extended| extended & 0xff);
    let full = is_full(&error);
    let path = path.to_owned();
    let source = Box::new(error);
    match code {
        _ if full => OpenError::Full { path, source },
        Some(code::NOTADB | code::CORRUPT) => OpenError::Damaged { path, source },
        Some(code::READONLY) => OpenError::ReadOnly { path, source },
        Some(code::PERM | code::AUTH) => OpenError::NoPermission { path, source },
        // SQLite doesn't say why; trying it ourselves does.
        Some(code::CANTOPEN) => match fs::OpenOptions::new().read(true).write(true).open(&path) {
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
    async fn the_writer_makes_every_commit_durable() {
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
            ("SELECT CAST(timeout AS TEXT) FROM pragma_busy_timeout", "10000"),
        ] {
            let value: String = ledger
                .writer
                .read_in_order("asking", move |s| {
                    Box::pin(async move { Ok(sqlx::query_scalar(pragma).fetch_one(s.connection().await?).await?) })
                })
                .await
                .unwrap();
            assert_eq!(value, expected, "{pragma}");
        }
        assert_eq!(ledger.commits(), 0, "asking costs nothing");
        let mut reader = ledger.readers.lend().await.unwrap();
        let written = sqlx::query("DELETE FROM lanes").execute(&mut *reader).await;
        assert!(written.is_err(), "readers can't write");
    }

    #[tokio::test]
    async fn panicking_job_leaves_writer_usable() {
        let directory = tempfile::tempdir().unwrap();
        let ledger =
            SqliteLedger::open(directory.path(), Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7))
                .await
                .unwrap();
        let insert = |name: &'static str, dies: bool| {
            ledger.writer.write("inserting", move |s| {
                Box::pin(async move {
                    sqlx::query("INSERT INTO lanes (conversation, channel) VALUES ($1, 'x')")
                        .bind(name)
                        .execute(s.connection().await?)
                        .await?;
                    assert!(!dies, "as the test wants it");
                    Ok(())
                })
            })
        };
        let (good, bad, other) = tokio::join!(insert("a", false), insert("b", true), insert("c", false));
        assert!(good.is_ok() && other.is_ok());
        assert!(matches!(bad, Err(satchel_ports::ledger::LedgerError::Store { .. })), "{bad:?}");
        let early = ledger.writer.write("dying early", |_| Box::pin(async { panic!("before the first statement") }));
        let (good, early, other) = tokio::join!(insert("f", false), early, insert("g", false));
        let early: Result<(), _> = early;
        assert!(good.is_ok() && early.is_err() && other.is_ok());
        insert("d", true).await.expect_err("it panicked alone");
        insert("e", false).await.unwrap();
        let mut reader = ledger.readers.lend().await.unwrap();
        let kept: Vec<String> = sqlx::query_scalar("SELECT conversation FROM lanes ORDER BY conversation")
            .fetch_all(&mut *reader)
            .await
            .unwrap();
        assert_eq!(kept, ["a", "c", "e", "f", "g"]);
    }
}
