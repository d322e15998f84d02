//! The schema: its name, its version, and how an earlier version is brought up to date.

use satchel_ports::ledger::HolderId;
use sqlx::PgConnection;

use crate::connections::execute;

/// The schema in which tables stand unless the URL names another.
const DEFAULT_NAME: &str = "satchel";

/// The longest name of a schema with which the names of connections are as long as PostgreSQL keeps them.
const MAX_NAME_BYTES: usize = 46;

/// What a new schema has.
const SCHEMA: &str = include_str!("schema.sql");

/// The oldest version that is converted. Satchel was not released before it.
const OLDEST_VERSION: i64 = 2;

/// The steps by which a schema of [`OLDEST_VERSION`] comes to it, one version each.
pub(crate) const STEPS: &[&str] = &[
    include_str!("../migrations/0003_common_statements.sql"),
    include_str!("../migrations/0004_links_without_clocks.sql"),
    include_str!("../migrations/0005_logins.sql"),
    include_str!("../migrations/0006_secrets_and_authors.sql"),
    include_str!("../migrations/0007_texts_in_blocks.sql"),
];

/// A schema of another version than this program's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaMismatch {
    /// A newer Satchel has changed it.
    #[error(
        "schema `{schema}` was written by a newer Satchel: it has version {found}, this one knows up to {known}; \
         update this Satchel"
    )]
    Newer { schema: String, found: i64, known: i64 },
    /// A Satchel of before the first release has written it.
    #[error(
        "schema `{schema}` has version {found}, this Satchel converts schemas from version {oldest} on; start an earlier \
         Satchel with it once"
    )]
    TooOld { schema: String, found: i64, oldest: i64 },
    /// It has to be converted first, while others still work with it as it is.
    #[error(
        "schema `{schema}` has version {found}, this Satchel needs {known}, and {processes} processes of the older one \
         are connected; stop all of them, then start this one first"
    )]
    InUse { schema: String, found: i64, known: i64, processes: i64 },
    /// It was converted back, or restored, while this process works with it.
    #[error("schema `{schema}` has version {found} now, this Satchel needs {known}; restart it to convert the schema")]
    Older { schema: String, found: i64, known: i64 },
    /// Its ledger was moved to another database.
    #[error(
        "the ledger in schema `{schema}` was moved to {location} by `satchel migrate`; start with the configuration that \
         names it. To move it back here, run `satchel migrate` with the two configurations exchanged"
    )]
    Moved {
        schema: String,
        /// Where it is now, without a password.
        location: String,
    },
    /// It is the copy of a move that is not finished.
    #[error(
        "schema `{schema}` holds a copy of the ledger in {origin} that `satchel migrate` has not finished; run the same \
         command again. If the old configuration still starts, you may also go on with that"
    )]
    Unfinished {
        schema: String,
        /// Where the original is, without a password.
        origin: String,
    },
}

/// Why the schema can't be brought up to date.
pub(crate) enum MigrateError {
    Mismatch(SchemaMismatch),
    /// The schema isn't there, and this role may not create it.
    MayNotCreate(sqlx::Error),
    Database(sqlx::Error),
}

impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// What a schema says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SchemaState {
    pub(crate) version: i64,
    /// Where its ledger is now, if it was moved.
    pub(crate) moved_to: Option<String>,
    /// Where the original is, of a copy that is not activated yet.
    pub(crate) moved_from: Option<String>,
}

/// A schema of the database, as this program knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schema {
    pub(crate) name: String,
    steps: &'static [&'static str],
}

impl Schema {
    /// Finds the schema that the options of a URL choose, as in `-c search_path=name`; the error is a name that it can't have.
    pub(crate) fn from_options(options: Option<&str>) -> Result<Self, String> {
        let chosen = options.and_then(|options| options.split("search_path=").nth(1));
        let first = chosen.and_then(|path| path.split([',', ' ']).next()).map(|name| name.trim_matches(['"', '\'']));
        let name = first.unwrap_or(DEFAULT_NAME).to_ascii_lowercase();
        let is_letter = |char: char| char.is_ascii_lowercase() || char == '_';
        let is_name = name.starts_with(is_letter) && name.chars().all(|char| is_letter(char) || char.is_ascii_digit());
        if is_name && name.len() <= MAX_NAME_BYTES && !name.starts_with("pg_") {
            Ok(Self { name, steps: STEPS })
        } else {
            Err(name)
        }
    }

    /// The name by which a process shows that it works with the schema, which the server keeps as it is.
    pub(crate) fn application_name(&self, holder: HolderId) -> String {
        // The first digits are a time, which several processes can share.
        let holder = holder.0.simple().to_string();
        format!("satchel/{}/{}", &holder[24..], self.name)
    }

    pub(crate) fn newest_version(&self) -> i64 {
        OLDEST_VERSION + i64::try_from(self.steps.len()).unwrap_or(i64::MAX)
    }

    /// Brings the schema up to date, one process at a time.
    pub(crate) async fn migrate(&self, connection: &mut PgConnection) -> Result<(), MigrateError> {
        if self.is_current(connection).await? {
            return Ok(());
        }
        // Behind the lock each statement sees what others have committed, whatever the server's default is.
        execute(connection, "BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        let migrated = self.migrate_in_transaction(connection).await;
        execute(connection, if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
        migrated
    }

    /// Whether the schema is one of this version. It may hold a copy that is not activated yet.
    pub(crate) async fn is_current(&self, connection: &mut PgConnection) -> Result<bool, MigrateError> {
        match self.read_state(connection).await? {
            Some(SchemaState { moved_to: Some(location), .. }) => {
                Err(MigrateError::Mismatch(SchemaMismatch::Moved { schema: self.name.clone(), location }))
            }
            Some(SchemaState { version: found, .. }) if found > self.newest_version() => {
                let (schema, known) = (self.name.clone(), self.newest_version());
                Err(MigrateError::Mismatch(SchemaMismatch::Newer { schema, found, known }))
            }
            found => Ok(found.is_some_and(|found| found.version == self.newest_version())),
        }
    }

    /// Whether its ledger was moved to this location, and its tables are those of this version.
    pub(crate) async fn was_moved_to(
        &self,
        connection: &mut PgConnection,
        location: &str,
    ) -> Result<bool, sqlx::Error> {
        let state = self.read_state(connection).await?.unwrap_or_default();
        Ok(state.moved_to.is_some_and(|moved_to| moved_to == location) && state.version == self.newest_version())
    }

    /// Removes the rows of all tables but its own, and the marks of a move.
    pub(crate) async fn clear(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let truncate: String = sqlx::query_scalar(
            "SELECT 'TRUNCATE TABLE ' || string_agg(format('%I.%I', schemaname, tablename), ', ') FROM pg_tables \
             WHERE schemaname = $1 AND tablename <> 'schema_version'",
        )
        .bind(&self.name)
        .fetch_one(&mut *connection)
        .await?;
        execute(connection, &truncate).await?;
        execute(connection, "UPDATE schema_version SET moved_to = NULL, moved_from = NULL").await
    }

    async fn migrate_in_transaction(&self, connection: &mut PgConnection) -> Result<(), MigrateError> {
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
            .bind(format!("satchel schema {}", self.name))
            .execute(&mut *connection)
            .await?;
        // Another process may have been faster.
        if self.is_current(connection).await? {
            return Ok(());
        }
        match self.read_state(connection).await?.map(|found| found.version) {
            Some(found) => self.convert(connection, found).await?,
            None => self.create(connection).await?,
        }
        let known = self.newest_version();
        tracing::info!(schema = self.name, version = known, "brought the schema up to date");
        sqlx::query("UPDATE schema_version SET version = $1").bind(known).execute(connection).await?;
        Ok(())
    }

    async fn convert(&self, connection: &mut PgConnection, found: i64) -> Result<(), MigrateError> {
        let Ok(done) = usize::try_from(found - OLDEST_VERSION) else {
            let (schema, oldest) = (self.name.clone(), OLDEST_VERSION);
            return Err(MigrateError::Mismatch(SchemaMismatch::TooOld { schema, found, oldest }));
        };
        self.require_unconverted(connection, found).await?;
        for step in self.steps.iter().skip(done) {
            execute(connection, step).await?;
        }
        Ok(())
    }

    /// Refuses to convert a schema with which others work.
    async fn require_unconverted(&self, connection: &mut PgConnection, found: i64) -> Result<(), MigrateError> {
        let processes = self.count_processes(connection).await?;
        if processes == 0 {
            return Ok(());
        }
        let (schema, known) = (self.name.clone(), self.newest_version());
        Err(MigrateError::Mismatch(SchemaMismatch::InUse { schema, found, known, processes }))
    }

    /// Counts the processes that work with the schema, besides this connection's.
    pub(crate) async fn count_processes(&self, connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(
            "SELECT COUNT(DISTINCT application_name) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid() \
             AND split_part(application_name, '/', 1) = 'satchel' AND split_part(application_name, '/', 3) = $1",
        )
        .bind(&self.name)
        .fetch_one(connection)
        .await
    }

    /// Creates the schema where it is missing, and its tables.
    async fn create(&self, connection: &mut PgConnection) -> Result<(), MigrateError> {
        let exists: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)")
            .bind(&self.name)
            .fetch_one(&mut *connection)
            .await?;
        if !exists {
            let created = execute(connection, &format!("CREATE SCHEMA \"{}\"", self.name)).await;
            created.map_err(MigrateError::MayNotCreate)?;
        }
        Ok(execute(connection, SCHEMA).await?)
    }

    /// Reads what the schema says of itself; `None` where there are no tables yet.
    pub(crate) async fn read_state(&self, connection: &mut PgConnection) -> Result<Option<SchemaState>, sqlx::Error> {
        // Not by `to_regclass`, which may not know yet what another process has created while this one waited for it.
        let exists: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
                 WHERE nspname = $1 AND relname = 'schema_version')",
        )
        .bind(&self.name)
        .fetch_one(&mut *connection)
        .await?;
        if !exists {
            return Ok(None);
        }
        // The oldest schemas have no `moved_from`.
        let sql = "SELECT version, moved_to, to_jsonb(schema_version) ->> 'moved_from' FROM schema_version";
        let state = sqlx::query_as(sql).fetch_optional(connection).await?;
        Ok(state.map(|(version, moved_to, moved_from)| SchemaState { version, moved_to, moved_from }))
    }

    /// Returns how the schema differs from what this process has found or made of it.
    pub(crate) async fn check(&self, connection: &mut PgConnection) -> Result<Option<SchemaMismatch>, sqlx::Error> {
        let (schema, known) = (self.name.clone(), self.newest_version());
        let state = self.read_state(connection).await?.unwrap_or_default();
        let SchemaState { version: found, moved_to, moved_from } = state;
        if let Some(location) = moved_to {
            return Ok(Some(SchemaMismatch::Moved { schema, location }));
        }
        if let Some(origin) = moved_from {
            return Ok(Some(SchemaMismatch::Unfinished { schema, origin }));
        }
        Ok(match found {
            found if found > known => Some(SchemaMismatch::Newer { schema, found, known }),
            found if found < known => Some(SchemaMismatch::Older { schema, found, known }),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
