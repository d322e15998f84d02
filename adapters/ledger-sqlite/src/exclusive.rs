//! A ledger that one process has for itself, to move it to or from another database.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use rusqlite::{
    Connection, ToSql, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};
use satchel_domain::Sha256;
use satchel_ledger::transfer::{ExclusiveLedger, NAMED_BLOBS, NamedBlob, PAGE_ROWS, Row, Table, Value, is_moved};
use satchel_ports::{Clock, Ids, ledger::LedgerError};

use crate::{
    SqliteLedger,
    database::{Query, connect},
    error::{Error, Result},
    open::{DATABASE, OpenError, at_database, at_directory},
    owners::Owners,
    process::Settings,
};

/// What a moved ledger holds besides its rows: where they are now.
const MOVED_TO: &str = "moved_to";

/// A ledger whose database is locked.
pub struct ExclusiveSqlite {
    /// In a transaction that keeps others from writing.
    connection: Arc<Mutex<Connection>>,
}

impl SqliteLedger {
    /// Locks the ledger in a data directory, which is created where it is missing. Processes that are started meanwhile
    /// wait for it, and fail in the end.
    ///
    /// # Errors
    /// When the ledger can't be opened, or another process has it open.
    pub async fn open_exclusive(
        data_dir: &Path,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<ExclusiveSqlite, OpenError> {
        // Creates the database, or brings it up to date.
        drop(Self::open(data_dir, Settings::default(), clock, ids).await?);
        let directory = data_dir.to_owned();
        let locked = tokio::task::spawn_blocking(move || lock(&directory)).await;
        locked.map_err(|panic| OpenError::Other { path: data_dir.join(DATABASE), source: Box::new(panic) })?
    }
}

fn lock(data_dir: &Path) -> Result<ExclusiveSqlite, OpenError> {
    let path = data_dir.join(DATABASE);
    let failed = |error| at_database(&path, data_dir, error);
    let connection = connect(&path, Settings::default().busy_timeout).map_err(failed)?;
    connection.execute_batch("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON").map_err(failed)?;
    // Behind the lock: whoever opens the database now waits for it before the first read of a row.
    let living = Owners::open(data_dir).and_then(|owners| owners.living());
    match living.map_err(|error| at_directory(data_dir.to_owned(), error))? {
        0 => Ok(ExclusiveSqlite { connection: Arc::new(Mutex::new(connection)) }),
        processes => Err(OpenError::InUse { path, processes }),
    }
}

/// Where a ledger was moved to, if it was.
pub(crate) fn find_new_location(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1)";
    match connection.query_row(exists, [MOVED_TO], |row| row.get(0))? {
        true => connection.query_row(&format!("SELECT location FROM {MOVED_TO}"), [], |row| row.get(0)).map(Some),
        false => Ok(None),
    }
}

impl ExclusiveSqlite {
    async fn run<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let connection = Arc::clone(&self.connection);
        let work =
            tokio::task::spawn_blocking(move || work(&connection.lock().unwrap_or_else(PoisonError::into_inner)));
        work.await.unwrap_or(Err(Error::Panicked)).map_err(|error| error.at_port(operation))
    }
}

#[async_trait]
impl ExclusiveLedger for ExclusiveSqlite {
    async fn table(&mut self, name: &'static str) -> Result<Table, LedgerError> {
        self.run("looking up a table", move |db| describe_table(db, name)).await
    }

    async fn read(&mut self, table: &Table, behind: Option<&Row>) -> Result<Vec<Row>, LedgerError> {
        let sql = select_page(table, behind.is_some());
        let columns = table.columns.len();
        let key: Row = behind.map(|row| table.key_values(row).cloned().collect()).unwrap_or_default();
        let read = move |db: &Connection| {
            let mut statement = db.prepare_cached(&sql)?;
            let rows = statement.query_map(params_from_iter(key.iter().map(Stored)), |row| {
                (0..columns).map(|column| row.get_ref(column).map(read_value)).collect::<rusqlite::Result<Row>>()
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.run("reading the rows of a table", read).await
    }

    async fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), LedgerError> {
        let columns = table.columns.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ");
        let places = vec!["?"; table.columns.len()].join(", ");
        let sql = format!("INSERT INTO \"{}\" ({columns}) VALUES ({places})", table.name);
        let insert = move |db: &Connection| {
            for row in &rows {
                db.run(&sql, params_from_iter(row.iter().map(Stored)))?;
            }
            Ok(())
        };
        self.run("adding rows to a table", insert).await
    }

    async fn counters(&mut self) -> Result<BTreeMap<String, i64>, LedgerError> {
        let read = |db: &Connection| {
            let counters: Vec<(String, i64)> = db.all("SELECT name, seq FROM sqlite_sequence", [])?;
            Ok(counters.into_iter().collect())
        };
        self.run("reading the counters", read).await
    }

    async fn set_counters(&mut self, counters: BTreeMap<String, i64>) -> Result<(), LedgerError> {
        let set = move |db: &Connection| {
            for (table, last) in &counters {
                // A table that counts its rows itself has none.
                let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1 AND sql LIKE '%AUTOINCREMENT%')";
                if db.value(sql, [table])? {
                    db.run("DELETE FROM sqlite_sequence WHERE name = ?1", [table])?;
                    db.run("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)", (table, last))?;
                }
            }
            Ok(())
        };
        self.run("setting the counters", set).await
    }

    async fn list_blobs(&mut self) -> Result<Vec<NamedBlob>, LedgerError> {
        self.run("listing the files", list_blobs).await
    }

    async fn publish(self: Box<Self>) -> Result<(), LedgerError> {
        let publish = |db: &Connection| {
            // What was said is indexed by the next process.
            db.run(
                "INSERT INTO name_index (rowid, name) SELECT lane, name FROM conversation_listings WHERE name IS NOT NULL",
                [],
            )?;
            Ok(db.execute_batch("COMMIT")?)
        };
        self.run("storing the ledger", publish).await
    }

    async fn retire(self: Box<Self>, location: &str) -> Result<(), LedgerError> {
        let location = location.to_owned();
        let retire = move |db: &Connection| {
            db.execute_batch(&format!("CREATE TABLE {MOVED_TO} (location TEXT NOT NULL) STRICT"))?;
            db.run(&format!("INSERT INTO {MOVED_TO} (location) VALUES (?1)"), [location])?;
            Ok(db.execute_batch("COMMIT")?)
        };
        self.run("marking the ledger as moved", retire).await
    }
}

fn describe_table(db: &Connection, name: &'static str) -> Result<Table> {
    let columns: Vec<(String, i64)> = db.all("SELECT name, pk FROM pragma_table_info(?1) ORDER BY name", [name])?;
    let columns: Vec<_> = columns.into_iter().filter(|(column, _)| is_moved(name, column)).collect();
    let mut key: Vec<(i64, usize)> =
        columns.iter().enumerate().filter(|(_, (_, pk))| *pk > 0).map(|(index, (_, pk))| (*pk, index)).collect();
    key.sort_unstable();
    let key = key.into_iter().map(|(_, index)| index).collect();
    Ok(Table { name, columns: columns.into_iter().map(|(column, _)| column).collect(), key })
}

fn select_page(table: &Table, has_start: bool) -> String {
    let quote =
        |names: &mut dyn Iterator<Item = &str>| names.map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let columns = quote(&mut table.columns.iter().map(String::as_str));
    let key = quote(&mut table.key_columns());
    let start = match has_start {
        true => format!("WHERE ({key}) > ({})", vec!["?"; table.key.len()].join(", ")),
        false => String::new(),
    };
    format!("SELECT {columns} FROM \"{}\" {start} ORDER BY {key} LIMIT {PAGE_ROWS}", table.name)
}

/// The blobs that the ledger names.
pub(crate) fn list_blobs(db: &Connection) -> Result<Vec<NamedBlob>> {
    let rows: Vec<([u8; 32], i64)> = db.all(NAMED_BLOBS, [])?;
    let blob = |(digest, bytes): ([u8; 32], i64)| NamedBlob {
        sha256: Sha256(digest),
        bytes: u64::try_from(bytes).unwrap_or(0),
    };
    Ok(rows.into_iter().map(blob).collect())
}

fn read_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        // No column has this type.
        ValueRef::Real(value) => Value::Text(value.to_string()),
        ValueRef::Text(text) => Value::text(&String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_vec()),
    }
}

struct Stored<'v>(&'v Value);

impl ToSql for Stored<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Integer(value) => ValueRef::Integer(*value),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
