//! The schema of the database: its version, and how the database of an earlier version is converted.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use crate::{
    erasure,
    owners::{OWNER_ONLY, Owners},
};

/// The schema of a new database.
const SCHEMA: &str = include_str!("schema.sql");

/// The oldest version that is converted. Satchel was not released before it.
const OLDEST_VERSION: i64 = 20;

/// The steps by which a database of [`OLDEST_VERSION`] comes to it, one version each.
const STEPS: &[&str] = &[
    include_str!("../migrations/0021_common_conditions.sql"),
    include_str!("../migrations/0022_links_without_clocks.sql"),
    include_str!("../migrations/0023_erasure.sql"),
    include_str!("../migrations/0024_logins.sql"),
    include_str!("../migrations/0025_secrets_and_authors.sql"),
    include_str!("../migrations/0026_texts_in_blocks.sql"),
];

/// The first version that overwrites what it deletes.
const ERASING_VERSION: i64 = 23;

/// What follows the database's name in that of a copy, before the version.
pub(crate) const COPY_SUFFIX: &str = ".version-";

/// Why the schema can't be brought up to date.
pub(crate) enum SchemaError {
    Newer {
        found: i64,
        known: i64,
    },
    TooOld {
        found: i64,
        oldest: i64,
    },
    Database(rusqlite::Error),
    /// No copy of the database can be kept.
    Copy(io::Error),
}

impl From<rusqlite::Error> for SchemaError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Brings the schema up to date, one process at a time. Of a database of an earlier version a copy is kept beside it.
pub(crate) fn migrate(connection: &mut Connection, path: &Path, owners: &Owners) -> Result<(), SchemaError> {
    if is_current(version(connection)?)? {
        return Ok(());
    }
    let _lock = owners.lock_schema().map_err(SchemaError::Copy)?;
    match version(connection)? {
        found if is_current(found)? => Ok(()),
        0 if is_empty(connection)? => Ok(create(connection)?),
        found if found < OLDEST_VERSION => Err(SchemaError::TooOld { found, oldest: OLDEST_VERSION }),
        found => convert(connection, path, found),
    }
}

fn is_current(found: i64) -> Result<bool, SchemaError> {
    let known = newest_version();
    if found > known { Err(SchemaError::Newer { found, known }) } else { Ok(found == known) }
}

/// Whether there are no tables yet.
fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

/// Creates the schema in an empty database.
fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "user_version", newest_version())?;
    transaction.commit()
}

/// Converts the database of an earlier version, of which a copy stays.
fn convert(connection: &mut Connection, path: &Path, found: i64) -> Result<(), SchemaError> {
    tracing::info!(database = %path.display(), found, version = newest_version(), "migrating the database schema");
    let copy = keep_copy(connection, path, found)?;
    tracing::info!(copy = %copy.display(), "kept a copy of the database as it was");
    let steps = (OLDEST_VERSION + 1..).zip(STEPS).filter(|(version, _)| *version > found);
    let transaction = connection.transaction()?;
    for (version, step) in steps {
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", version)?;
    }
    transaction.commit()?;
    // Or the pages of all tables stay in memory.
    connection.release_memory()?;
    if found < ERASING_VERSION {
        rewrite(connection, path.parent().unwrap_or(Path::new(".")));
    }
    Ok(())
}

/// Erases what earlier versions left in unused space and in the log. If it fails, as for want of room, the request
/// stays and the writer tries it again.
fn rewrite(connection: &Connection, data_dir: &Path) {
    if let Err(error) = erasure::rewrite_at_once(connection, data_dir) {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "rewriting the database failed; what was deleted earlier is still in unused space");
    }
}

/// Writes a copy beside the database, in place of one of the same version: the database may have changed since.
fn keep_copy(connection: &Connection, path: &Path, version: i64) -> Result<PathBuf, SchemaError> {
    let beside = |suffix: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let copy = beside(format!("{COPY_SUFFIX}{version}"));
    let unfinished = beside(format!("{COPY_SUFFIX}{version}.partial"));
    let not_utf8 = || io::Error::new(io::ErrorKind::InvalidInput, "the path of the data directory isn't UTF-8");
    let target = unfinished.to_str().ok_or_else(not_utf8).map_err(SchemaError::Copy)?;
    create_private_file(&unfinished).map_err(SchemaError::Copy)?;
    if let Err(error) = connection.execute("VACUUM INTO ?1", [target]) {
        let _removed = fs::remove_file(&unfinished);
        return Err(SchemaError::Database(error));
    }
    finish_copy(&unfinished, &copy).map_err(SchemaError::Copy)?;
    Ok(copy)
}

/// Creates an empty file in place of what a killed start has left, so that nobody else can read what is written into it.
fn create_private_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path)?;
    Ok(())
}

fn finish_copy(unfinished: &Path, copy: &Path) -> io::Result<()> {
    fs::File::open(unfinished)?.sync_all()?;
    fs::rename(unfinished, copy)?;
    fs::File::open(copy.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns the copies of earlier versions that are kept in a data directory, in the order of their names.
///
/// # Errors
/// When the directory can't be read.
pub(crate) fn list_copies(data_dir: &Path, database: &str) -> io::Result<Vec<PathBuf>> {
    let prefix = format!("{database}{COPY_SUFFIX}");
    let mut copies = Vec::new();
    for entry in fs::read_dir(data_dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let version = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        if version.is_some_and(|version| version.parse::<i64>().is_ok()) {
            copies.push(entry.path());
        }
    }
    copies.sort();
    Ok(copies)
}

/// The newest version that this program knows.
pub(crate) fn newest_version() -> i64 {
    OLDEST_VERSION + i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// The schema's version in the database; 0 when it is new.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

#[cfg(test)]
mod tests;
