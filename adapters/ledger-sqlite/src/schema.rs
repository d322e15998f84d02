//! The schema of the database: its version, and how the database of an earlier version is converted.

use std::{
    cmp::Ordering,
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use futures::future::BoxFuture;
use sqlx::{
    SqliteConnection,
    migrate::{MigrateError, Migrator},
};

use crate::owners::{OWNER_ONLY, Owners};

pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// What follows the database's name in that of a copy, before the version.
pub(crate) const COPY_SUFFIX: &str = ".version-";

/// Why the schema can't be brought up to date.
pub(crate) enum SchemaError {
    Newer { found: i64, known: i64 },
    Failed(sqlx::Error),
    Migration(MigrateError),
}

/// Brings the schema up to date, one process at a time. Of a database of an earlier version a copy is kept beside it.
pub(crate) async fn migrate(
    connection: &mut SqliteConnection,
    path: &Path,
    owners: &Owners,
) -> Result<(), SchemaError> {
    let known = newest_version();
    let is_older = |found: i64| match found.cmp(&known) {
        Ordering::Less => Ok(true),
        Ordering::Equal => Ok(false),
        Ordering::Greater => Err(SchemaError::Newer { found, known }),
    };
    if !is_older(version(connection).await.map_err(SchemaError::Failed)?)? {
        return Ok(());
    }
    let owners = owners.clone();
    let _lock = run_blocking(move || owners.lock_schema()).await?;
    let found = version(connection).await.map_err(SchemaError::Failed)?;
    if is_older(found)? {
        tracing::info!(database = %path.display(), found, version = known, "migrating the database schema");
        if found > 0 {
            let copy = keep_copy(connection, path, found).await?;
            tracing::info!(copy = %copy.display(), "kept a copy of the database as it was");
        }
        run_migrations(connection).await.map_err(|error| match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => SchemaError::Failed(error),
            other => SchemaError::Migration(other),
        })?;
    }
    Ok(())
}

/// Writes a copy beside the database, in place of one of the same version: the database may have changed since.
async fn keep_copy(connection: &mut SqliteConnection, path: &Path, version: i64) -> Result<PathBuf, SchemaError> {
    let beside = |suffix: String| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let copy = beside(format!("{COPY_SUFFIX}{version}"));
    let unfinished = beside(format!("{COPY_SUFFIX}{version}.partial"));
    let created = unfinished.clone();
    run_blocking(move || {
        match fs::remove_file(&created) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(created)
    })
    .await?;
    // Into an empty file, so that nobody else can read it.
    let not_utf8 = || io::Error::new(io::ErrorKind::InvalidInput, "the path of the data directory isn't UTF-8");
    let target = unfinished.to_str().ok_or_else(not_utf8).map_err(|error| SchemaError::Failed(error.into()))?;
    if let Err(error) = sqlx::query("VACUUM INTO $1").bind(target).execute(connection).await {
        let _removed = fs::remove_file(&unfinished);
        return Err(SchemaError::Failed(error));
    }
    let finished = copy.clone();
    run_blocking(move || {
        fs::File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &finished)?;
        fs::File::open(finished.parent().unwrap_or(Path::new(".")))?.sync_all()
    })
    .await?;
    Ok(copy)
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

/// Boxed here, where the connection's lifetime is known: the compiler can't tell otherwise that the future is `Send`.
fn run_migrations(connection: &mut SqliteConnection) -> BoxFuture<'_, Result<(), MigrateError>> {
    Box::pin(MIGRATIONS.run_direct(None, connection, false))
}

/// The newest version that this program knows.
pub(crate) fn newest_version() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// The schema's version in the database; 0 when it is new.
pub(crate) async fn version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let has_schema: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations')")
            .fetch_one(&mut *connection)
            .await?;
    if !has_schema {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations").fetch_one(connection).await
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, SchemaError> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    done.map_err(|error| SchemaError::Failed(error.into()))
}

#[cfg(test)]
mod tests;
