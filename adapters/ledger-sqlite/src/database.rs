//! A connection to the database, with what a verb needs besides rows: time, ids and settings.

use std::{ops::Deref, path::Path, sync::Arc, time::Duration};

use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Params, Row,
    types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef},
};
use satchel_domain::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use uuid::Uuid;

use crate::{
    error::Result,
    process::{Process, Settings},
};

/// How many prepared statements a connection keeps: more than there are.
const STATEMENT_CACHE_CAPACITY: usize = 256;

/// A connection of this process.
#[derive(Debug)]
pub(crate) struct Database {
    connection: Connection,
    pub(crate) process: Arc<Process>,
}

impl Database {
    pub(crate) fn new(connection: Connection, process: Arc<Process>) -> Self {
        Self { connection, process }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.process.clock.now()
    }

    pub(crate) fn new_id(&self) -> Uuid {
        self.process.ids.next()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.process.settings
    }
}

impl Deref for Database {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// Connects to a database whose transactions are durable once they are committed.
pub(crate) fn connect(path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    connection.busy_timeout(busy_timeout)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Where fsync alone doesn't reach the disk (macOS), this one does; elsewhere it changes nothing.
    connection.pragma_update(None, "fullfsync", true)?;
    // Its journals of statements and savepoints hold people's words, which belong into no other directory.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// Statements, each of which a connection prepares once.
///
/// A bound limit is written `LIMIT ?1 + 0`: SQLite plans a statement anew whenever a bare one is bound.
pub(crate) trait Query {
    /// Runs a statement, and returns how many rows it changed.
    fn run(&self, sql: &str, parameters: impl Params) -> Result<usize>;

    /// Reads the first column of the only row.
    fn value<T: FromSql>(&self, sql: &str, parameters: impl Params) -> Result<T>;

    /// Reads the first row, if there is one.
    fn find<T>(&self, sql: &str, parameters: impl Params) -> Result<Option<T>>
    where
        T: for<'r> TryFrom<&'r Row<'r>, Error = rusqlite::Error>;

    /// Reads all rows.
    fn all<T>(&self, sql: &str, parameters: impl Params) -> Result<Vec<T>>
    where
        T: for<'r> TryFrom<&'r Row<'r>, Error = rusqlite::Error>;
}

impl Query for Connection {
    fn run(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        Ok(self.prepare_cached(sql)?.execute(parameters)?)
    }

    fn value<T: FromSql>(&self, sql: &str, parameters: impl Params) -> Result<T> {
        Ok(self.prepare_cached(sql)?.query_row(parameters, |row| row.get(0))?)
    }

    fn find<T>(&self, sql: &str, parameters: impl Params) -> Result<Option<T>>
    where
        T: for<'r> TryFrom<&'r Row<'r>, Error = rusqlite::Error>,
    {
        Ok(self.prepare_cached(sql)?.query_row(parameters, |row| T::try_from(row)).optional()?)
    }

    fn all<T>(&self, sql: &str, parameters: impl Params) -> Result<Vec<T>>
    where
        T: for<'r> TryFrom<&'r Row<'r>, Error = rusqlite::Error>,
    {
        let mut statement = self.prepare_cached(sql)?;
        let rows = statement.query_map(parameters, |row| T::try_from(row))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// A value that is stored as JSON text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0);
        text.map(ToSqlOutput::from).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let value = serde_json::from_str(value.as_str()?);
        value.map(Self).map_err(|error| FromSqlError::Other(Box::new(error)))
    }
}

/// Ids as a JSON array of hexadecimal digits, for `unhex(value)` of `json_each`.
pub(crate) fn hex_ids(ids: impl IntoIterator<Item = Uuid>) -> Json<Vec<String>> {
    Json(ids.into_iter().map(|id| format!("{:X}", id.simple())).collect())
}
