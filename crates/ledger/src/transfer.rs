//! Moves a ledger from one database to another, row by row, and compares the two by hash.
//!
//! All ledgers have the same tables, columns and keys. What differs is how a database stores a value, so adapters hand out
//! rows in one form ([`Value`]), with the columns of a table in the order of their names and its rows in that of its key.
//!
//! A move has three commits, behind each of which it may be cut off. The copy is published with a mark: processes open the
//! original still, and not the copy. Then the original is retired: they open neither. Then the copy is activated: they open
//! the copy. If the original has gone on behind the first commit, the next move replaces the copy.

use std::collections::BTreeMap;

use async_trait::async_trait;
use satchel_domain::Sha256;
use satchel_ports::ledger::LedgerError;
use sha2::Digest;

/// The tables that are moved, each behind those that its rows name. (Turns name each other.)
pub const TABLES: [&str; 26] = [
    "lanes",
    "conversation_settings",
    "conversation_listings",
    "turns",
    "inbox",
    "inbox_keys",
    "attachments",
    "inbox_files",
    "journal",
    "history",
    "parts",
    "audit",
    "usage",
    "workspace_shares",
    "bookmarks",
    "undecodable_updates",
    "paired_people",
    "pairings",
    "wrong_codes",
    "reminders",
    "person_settings",
    "logins",
    "installation_secrets",
    "restored_copy",
    "held_turns",
    "held_parts",
];

/// The tables that are not moved: indexes, which are made anew, and what only means something to processes that run.
pub const UNMOVED_TABLES: [&str; 5] = ["search_index", "name_index", "gateways", "schema_version", "pending_erasure"];

/// The columns that are not moved for the same reasons.
const UNMOVED_COLUMNS: [(&str, &str); 3] = [("lanes", "holder"), ("lanes", "expires_at"), ("turns", "indexed")];

/// The blobs that files, prepared voices and messages that wait or are held back name, each with its size where that is
/// known, or 0.
pub const NAMED_BLOBS: &str = "SELECT sha256, MAX(bytes) FROM ( \
         SELECT sha256, bytes FROM attachments WHERE forgotten_at IS NULL \
         UNION ALL SELECT voice_sha256, 0 FROM parts WHERE voice_sha256 IS NOT NULL \
         UNION ALL SELECT waiting.sha256, 0 FROM inbox_files AS waiting JOIN inbox ON inbox.sequence = waiting.message \
             WHERE waiting.sha256 IS NOT NULL AND waiting.state = 'waiting' AND (inbox.consumed_by IS NULL \
                 OR EXISTS (SELECT 1 FROM held_turns WHERE held_turns.turn = inbox.turn)) \
     ) AS named GROUP BY sha256 ORDER BY sha256";

/// How many rows are read at a time.
pub const PAGE_ROWS: usize = 200;

/// Whether a column is moved.
#[must_use]
pub fn is_moved(table: &str, column: &str) -> bool {
    !UNMOVED_COLUMNS.contains(&(table, column))
}

/// A value of a row, whatever its type is in the database: ids and digests are bytes, flags are 0 and 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    /// Text as every database can store it: without NUL, which PostgreSQL has in no text, nor, where statements look into
    /// it, in JSON.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let text = text.replace('\0', "\u{fffd}");
        Self::Text(if text.starts_with(['{', '[', '"']) { replace_nul_escapes(&text) } else { text })
    }
}

/// Replaces the escapes of NUL in JSON.
#[must_use]
pub fn replace_nul_escapes(json: &str) -> String {
    // A backslash before the escape would be one that is escaped itself, and takes the escape's backslash along.
    let parts: Vec<String> = json.split("\\\\").map(|part| part.replace("\\u0000", "\\ufffd")).collect();
    parts.join("\\\\")
}

/// A row, in the order of its table's columns.
pub type Row = Vec<Value>;

/// What a table looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub name: &'static str,
    /// The columns that are moved, in the order of their names.
    pub columns: Vec<String>,
    /// Which of the columns are the primary key, in its order.
    pub key: Vec<usize>,
}

impl Table {
    /// The names of the columns of the key.
    pub fn key_columns(&self) -> impl Iterator<Item = &str> {
        self.key.iter().map(|column| self.columns[*column].as_str())
    }

    /// The values of the key in a row.
    pub fn key_values<'r>(&self, row: &'r Row) -> impl Iterator<Item = &'r Value> {
        self.key.iter().map(|column| &row[*column])
    }
}

/// A blob that a ledger names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedBlob {
    pub sha256: Sha256,
    /// Its size in bytes, or 0 where the ledger doesn't know it.
    pub bytes: u64,
}

/// The database of a ledger that no other process works with, nor can begin to, in one transaction, which is rolled back
/// when it is dropped.
#[async_trait]
pub trait ExclusiveLedger: Send {
    /// Looks up one of [`TABLES`].
    async fn table(&mut self, name: &'static str) -> Result<Table, LedgerError>;

    /// Reads the first [`PAGE_ROWS`] rows, or those behind a row.
    async fn read(&mut self, table: &Table, behind: Option<&Row>) -> Result<Vec<Row>, LedgerError>;

    /// Adds rows.
    async fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), LedgerError>;

    /// Reads the highest number that each table has given to a row, also to one that is gone.
    async fn counters(&mut self) -> Result<BTreeMap<String, i64>, LedgerError>;

    /// Sets the numbers behind which tables go on. Tables that need none are left out.
    async fn set_counters(&mut self, counters: BTreeMap<String, i64>) -> Result<(), LedgerError>;

    /// Lists the blobs that the ledger names.
    async fn list_blobs(&mut self) -> Result<Vec<NamedBlob>, LedgerError>;

    /// Returns where the original is, of a copy that is not activated yet.
    async fn find_origin(&mut self) -> Result<Option<String>, LedgerError>;

    /// Returns where the ledger is now, of one that was moved away and is opened to come back.
    async fn find_new_location(&mut self) -> Result<Option<String>, LedgerError>;

    /// Removes all rows of such a ledger, or of a copy that is not activated yet, and its mark. It is committed with what
    /// comes in their place.
    async fn clear(&mut self) -> Result<(), LedgerError>;

    /// Makes what is derived from the rows that were added, marks the ledger as a copy of the one at `origin`, so that no
    /// process opens it yet, commits, and begins the next transaction.
    async fn publish(&mut self, origin: &str) -> Result<(), LedgerError>;

    /// Marks the ledger as one that was moved to `location`, so that no process opens it again, and commits.
    async fn retire(self: Box<Self>, location: &str) -> Result<(), LedgerError>;

    /// Removes the mark of a copy, and commits.
    async fn activate(self: Box<Self>) -> Result<(), LedgerError>;
}

/// Why a ledger could not be copied. Nothing was committed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The two are of different versions.
    #[error("table `{table}` has other columns in the new database")]
    Columns { table: &'static str },
    /// What was read back is not what was written.
    #[error("the copy of table `{table}` has other rows than the original; nothing was committed")]
    Differs { table: &'static str },
}

/// The rows of a ledger, by number and hash. Two ledgers with the same rows have the same digest, whatever their databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerDigest(Vec<TableDigest>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct TableDigest {
    table: &'static str,
    rows: u64,
    sha256: Sha256,
}

impl LedgerDigest {
    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.iter().map(|table| table.rows).sum()
    }
}

/// Whether a ledger has no rows at all.
///
/// # Errors
/// When the ledger fails.
pub async fn is_empty(ledger: &mut dyn ExclusiveLedger) -> Result<bool, LedgerError> {
    for name in TABLES {
        let table = ledger.table(name).await?;
        if !ledger.read(&table, None).await?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads all rows. `on_rows` is told how many came.
///
/// # Errors
/// When the ledger fails.
pub async fn digest(
    ledger: &mut dyn ExclusiveLedger,
    on_rows: &(dyn Fn(usize) + Sync),
) -> Result<LedgerDigest, LedgerError> {
    let mut tables = Vec::new();
    for name in TABLES {
        let table = ledger.table(name).await?;
        let mut hasher = RowHasher::default();
        let mut last = None;
        loop {
            let rows = ledger.read(&table, last.as_ref()).await?;
            on_rows(rows.len());
            rows.iter().for_each(|row| hasher.update(row));
            match rows.into_iter().next_back() {
                Some(row) => last = Some(row),
                None => break,
            }
        }
        tables.push(hasher.finish(name));
    }
    Ok(LedgerDigest(tables))
}

/// Copies all rows of a ledger into an empty one, and compares what that has then. Nothing is committed yet. `on_rows` is
/// told how many were copied, and then how many were compared.
///
/// # Errors
/// When one of them fails, or they differ.
pub async fn copy_rows(
    source: &mut dyn ExclusiveLedger,
    target: &mut dyn ExclusiveLedger,
    on_rows: &(dyn Fn(usize) + Sync),
) -> Result<LedgerDigest, TransferError> {
    let mut copied = Vec::new();
    for name in TABLES {
        copied.push(copy_table(name, source, target, on_rows).await?);
    }
    target.set_counters(source.counters().await?).await?;
    let found = digest(target, on_rows).await?;
    match copied.iter().zip(&found.0).find(|(copied, found)| copied != found) {
        Some((TableDigest { table, .. }, _)) => Err(TransferError::Differs { table }),
        None => Ok(found),
    }
}

async fn copy_table(
    name: &'static str,
    source: &mut dyn ExclusiveLedger,
    target: &mut dyn ExclusiveLedger,
    on_rows: &(dyn Fn(usize) + Sync),
) -> Result<TableDigest, TransferError> {
    let table = source.table(name).await?;
    if table != target.table(name).await? {
        return Err(TransferError::Columns { table: name });
    }
    let mut hasher = RowHasher::default();
    let mut last = None;
    loop {
        let rows = source.read(&table, last.as_ref()).await?;
        on_rows(rows.len());
        rows.iter().for_each(|row| hasher.update(row));
        match rows.last() {
            Some(row) => last = Some(row.clone()),
            None => return Ok(hasher.finish(name)),
        }
        target.insert(&table, rows).await?;
    }
}

/// Hashes rows so that no two tables with different rows are written alike: each value with its type and length.
#[derive(Default)]
struct RowHasher {
    sha256: sha2::Sha256,
    rows: u64,
}

impl RowHasher {
    fn update(&mut self, row: &Row) {
        self.rows += 1;
        for value in row {
            let integer;
            let (kind, bytes): (u8, &[u8]) = match value {
                Value::Null => (0, &[]),
                Value::Integer(value) => {
                    integer = value.to_le_bytes();
                    (1, &integer)
                }
                Value::Text(text) => (2, text.as_bytes()),
                Value::Bytes(bytes) => (3, bytes),
            };
            self.sha256.update([kind]);
            self.sha256.update((bytes.len() as u64).to_le_bytes());
            self.sha256.update(bytes);
        }
    }

    fn finish(self, table: &'static str) -> TableDigest {
        TableDigest { table, rows: self.rows, sha256: Sha256(self.sha256.finalize().into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lose_what_not_every_database_can_store() {
        for (text, expected) in [
            ("a\0b", "a\u{fffd}b"),
            (r#"{"a":"b\u0000c"}"#, r#"{"a":"b\ufffdc"}"#),
            (r#"{"a":"b\\u0000c"}"#, r#"{"a":"b\\u0000c"}"#),
            (r#"["\\\u0000"]"#, r#"["\\\ufffd"]"#),
            (r"C:\u0000", r"C:\u0000"),
        ] {
            assert_eq!(Value::text(text), Value::Text(expected.to_owned()), "{text}");
        }
    }

    /// Values that a hash without their types and lengths would take for the same.
    #[test]
    fn digest_tells_rows_apart() {
        let digest = |rows: &[Row]| {
            let mut hasher = RowHasher::default();
            rows.iter().for_each(|row| hasher.update(row));
            hasher.finish("turns").sha256
        };
        let text = |text: &str| Value::Text(text.to_owned());
        let tables = [
            vec![vec![text("ab"), text("c")]],
            vec![vec![text("a"), text("bc")]],
            vec![vec![text("abc"), text("")]],
            vec![vec![text("abc"), Value::Null]],
            vec![vec![Value::Bytes(b"ab".to_vec()), text("c")]],
            vec![vec![Value::Integer(0x6162)], vec![text("c")]],
        ];
        for (index, table) in tables.iter().enumerate() {
            assert!(tables[..index].iter().all(|other| digest(other) != digest(table)), "{table:?}");
        }
    }
}
