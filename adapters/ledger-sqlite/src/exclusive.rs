//! A ledger that one process has for itself, to move it to or from another database.

use std::{
    collections::BTreeMap,
    fs::File,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use rusqlite::{
    Connection, Row as DatabaseRow, ToSql, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};
use satchel_domain::Sha256;
use satchel_ledger::transfer::{
    ExclusiveLedger, NAMED_BLOBS, NamedBlob, PAGE_ROWS, Row, TABLES, Table, Value, is_moved,
};
use satchel_ledger_sql::VerbError;
use satchel_ports::{
    Ids,
    ledger::{HolderId, LedgerError},
};

use crate::{
    SqliteLedger,
    database::Query,
    error::{Error, Result},
    open::{DATABASE, OpenDatabase, OpenError, at_database, at_directory, open_database},
    process::Settings,
};

/// What a moved ledger holds besides its rows: where they are now.
const MOVED_TO: &str = "moved_to";

/// What the copy of a ledger holds besides its rows until it is activated: where the original is.
const MOVED_FROM: &str = "moved_from";

/// A ledger whose database is locked.
pub struct ExclusiveSqlite {
    /// In a transaction that keeps others from writing.
    connection: Arc<Mutex<Connection>>,
    /// Tells others what they wait for.
    _move_lock: File,
}

impl SqliteLedger {
    /// Locks the ledger in a data directory, which is created where it is missing. Processes that are started meanwhile
    /// wait for it, and fail in the end.
    ///
    /// # Errors
    /// When the ledger can't be opened, or another process has it open.
    pub async fn open_exclusive(data_dir: &Path, ids: Arc<dyn Ids>) -> Result<ExclusiveSqlite, OpenError> {
        lock_in_background(data_dir, ids, None).await
    }

    /// As [`open_exclusive`](Self::open_exclusive), but also opens a ledger that was moved to `location`, from where it is to
    /// come back.
    ///
    /// # Errors
    /// When the ledger can't be opened, or another process has it open.
    pub async fn open_exclusive_for_return(
        data_dir: &Path,
        ids: Arc<dyn Ids>,
        location: &str,
    ) -> Result<ExclusiveSqlite, OpenError> {
        lock_in_background(data_dir, ids, Some(location.to_owned())).await
    }
}

async fn lock_in_background(
    data_dir: &Path,
    ids: Arc<dyn Ids>,
    returns_from: Option<String>,
) -> Result<ExclusiveSqlite, OpenError> {
    let directory = data_dir.to_owned();
    let lock = move || lock(&directory, HolderId(ids.next()), returns_from.as_deref());
    let locked = tokio::task::spawn_blocking(lock).await;
    locked.map_err(|panic| OpenError::Other { path: data_dir.join(DATABASE), source: Box::new(panic) })?
}

fn lock(data_dir: &Path, holder: HolderId, returns_from: Option<&str>) -> Result<ExclusiveSqlite, OpenError> {
    let path = data_dir.join(DATABASE);
    let failed = |error| at_database(&path, data_dir, error);
    let in_directory = |error| at_directory(data_dir.to_owned(), error);
    let OpenDatabase { connection, owners, lock } = open_database(data_dir, holder, Settings::default().busy_timeout)?;
    drop(lock);
    connection.execute_batch("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = ON").map_err(failed)?;
    match find_location(&connection, MOVED_TO).map_err(failed)? {
        Some(location) if returns_from != Some(location.as_str()) => return Err(OpenError::Moved { path, location }),
        _ => {}
    }
    // Behind the lock: whoever opens the database now waits for it before the first read of a row.
    match owners.living().map_err(in_directory)? {
        0 => {}
        processes => return Err(OpenError::InUse { path, processes }),
    }
    let move_lock = owners.lock_move().map_err(in_directory)?;
    Ok(ExclusiveSqlite { connection: Arc::new(Mutex::new(connection)), _move_lock: move_lock })
}

/// Refuses a ledger that was moved, and a copy that is not activated yet.
pub(crate) fn require_active(connection: &Connection, data_dir: &Path) -> Result<(), OpenError> {
    let path = data_dir.join(DATABASE);
    let find = |mark| find_location(connection, mark).map_err(|error| at_database(&path, data_dir, error));
    if let Some(location) = find(MOVED_TO)? {
        return Err(OpenError::Moved { path, location });
    }
    match find(MOVED_FROM)? {
        Some(origin) => Err(OpenError::Unfinished { path, origin }),
        None => Ok(()),
    }
}

/// Reads the location that a mark names, if the ledger has that mark.
fn find_location(connection: &Connection, mark: &str) -> rusqlite::Result<Option<String>> {
    let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1)";
    match connection.query_row(exists, [mark], |row| row.get(0))? {
        true => connection.query_row(&format!("SELECT location FROM {mark}"), [], |row| row.get(0)).map(Some),
        false => Ok(None),
    }
}

/// Marks the ledger.
fn set_location(connection: &Connection, mark: &str, location: &str) -> rusqlite::Result<()> {
    connection.execute_batch(&format!("CREATE TABLE {mark} (location TEXT NOT NULL) STRICT"))?;
    connection.execute(&format!("INSERT INTO {mark} (location) VALUES (?1)"), [location])?;
    Ok(())
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
        let (columns, key_columns) = (table.columns.len(), table.key.clone());
        let key: Row = behind.map(|row| table.key_values(row).cloned().collect()).unwrap_or_default();
        let read = move |db: &Connection| {
            let mut statement = db.prepare_cached(&sql)?;
            let key = params_from_iter(key.iter().map(Stored));
            statement.query_and_then(key, |row| read_row(row, columns, &key_columns))?.collect()
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

    async fn find_origin(&mut self) -> Result<Option<String>, LedgerError> {
        self.run("reading where the ledger is from", |db| Ok(find_location(db, MOVED_FROM)?)).await
    }

    async fn find_new_location(&mut self) -> Result<Option<String>, LedgerError> {
        self.run("reading where the ledger is now", |db| Ok(find_location(db, MOVED_TO)?)).await
    }

    async fn clear(&mut self) -> Result<(), LedgerError> {
        let clear = |db: &Connection| {
            for table in TABLES.iter().rev().chain(&["search_index", "name_index"]) {
                db.run(&format!("DELETE FROM \"{table}\""), [])?;
            }
            let drop_marks = format!("DROP TABLE IF EXISTS {MOVED_TO}; DROP TABLE IF EXISTS {MOVED_FROM}");
            Ok(db.execute_batch(&format!("DELETE FROM sqlite_sequence; {drop_marks}"))?)
        };
        self.run("removing the rows of a ledger that was moved", clear).await
    }

    async fn publish(&mut self, origin: &str) -> Result<(), LedgerError> {
        let origin = origin.to_owned();
        let publish = move |db: &Connection| {
            // What was said is indexed by the next process.
            db.run(
                "INSERT INTO name_index (rowid, name) SELECT lane, name FROM conversation_listings WHERE name IS NOT NULL",
                [],
            )?;
            set_location(db, MOVED_FROM, &origin)?;
            Ok(db.execute_batch("COMMIT; BEGIN IMMEDIATE")?)
        };
        self.run("storing the ledger", publish).await
    }

    async fn retire(self: Box<Self>, location: &str) -> Result<(), LedgerError> {
        let location = location.to_owned();
        let retire = move |db: &Connection| {
            set_location(db, MOVED_TO, &location)?;
            Ok(db.execute_batch("COMMIT")?)
        };
        self.run("marking the ledger as moved", retire).await
    }

    async fn activate(self: Box<Self>) -> Result<(), LedgerError> {
        let activate = |db: &Connection| Ok(db.execute_batch(&format!("DROP TABLE IF EXISTS {MOVED_FROM}; COMMIT"))?);
        self.run("activating the ledger", activate).await
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

/// Reads a row. A key that another database can't store as it is would have another place there, so the pages of rows would
/// lose some.
fn read_row(row: &DatabaseRow<'_>, columns: usize, key: &[usize]) -> Result<Row> {
    let read = |column: usize| -> Result<Value> {
        let stored = row.get_ref(column)?;
        let value = read_value(stored);
        match (stored, &value) {
            (ValueRef::Text(stored), Value::Text(text)) if key.contains(&column) && stored != text.as_bytes() => {
                Err(VerbError::Row { what: "key: it has the character NUL, or is not UTF-8" }.into())
            }
            _ => Ok(value),
        }
    };
    (0..columns).map(read).collect()
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
