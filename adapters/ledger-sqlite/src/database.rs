//! A connection to the database, and the statements of what is no verb.

use std::{cell::Cell, ops::Deref, path::Path, sync::Arc, time::Duration};

use rusqlite::{Connection, OpenFlags, Params, Row, functions::FunctionFlags, types::FromSql};

use crate::{error::Result, process::Process};

/// How many prepared statements a connection keeps: more than there are.
const STATEMENT_CACHE_CAPACITY: usize = 256;

/// A connection of this process.
#[derive(Debug)]
pub(crate) struct Database {
    connection: Connection,
    pub(crate) process: Arc<Process>,
    /// Whether a verb has forgotten something since that was last taken.
    has_forgotten: Cell<bool>,
}

impl Database {
    /// Gives a connection what statements use besides SQLite's own functions.
    pub(crate) fn new(connection: Connection, process: Arc<Process>) -> rusqlite::Result<Self> {
        rusqlite::vtab::array::load_module(&connection)?;
        let clock = Arc::clone(&process.clock);
        connection.create_scalar_function("ledger_now", 0, FunctionFlags::SQLITE_UTF8, move |_| Ok(clock.now().0))?;
        Ok(Self { connection, process, has_forgotten: Cell::new(false) })
    }

    /// Has what a verb forgets erased behind its commit.
    pub(crate) fn start_erasure(&self) {
        self.has_forgotten.set(true);
    }

    /// Returns whether a verb has forgotten something since the last call.
    pub(crate) fn take_erasure(&self) -> bool {
        self.has_forgotten.take()
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
    // What is deleted is overwritten with zeros, whole pages too.
    connection.pragma_update(None, "secure_delete", true)?;
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

    fn all<T>(&self, sql: &str, parameters: impl Params) -> Result<Vec<T>>
    where
        T: for<'r> TryFrom<&'r Row<'r>, Error = rusqlite::Error>,
    {
        let mut statement = self.prepare_cached(sql)?;
        let rows = statement.query_map(parameters, |row| T::try_from(row))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}
