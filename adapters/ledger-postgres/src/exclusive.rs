//! A ledger that one process has for itself, to move it to or from another database.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use satchel_domain::Sha256;
use satchel_ledger::transfer::{ExclusiveLedger, NAMED_BLOBS, NamedBlob, PAGE_ROWS, Row, Table, Value, is_moved};
use satchel_ledger_sql::VerbError;
use satchel_ports::ledger::LedgerError;
use sqlx::{
    AssertSqlSafe, ConnectOptions, PgConnection, Row as _,
    postgres::{PgArguments, PgConnectOptions, PgRow},
    query::Query,
};
use uuid::Uuid;

use crate::{
    PostgresLedger,
    connect::{ConnectError, ConnectionTarget, parse_url},
    connections::execute,
    connections::set_up,
    error::{Error, Result},
    process::Settings,
    schema::{MigrateError, Schema},
};

/// A transfer waits for files to be copied between two of its statements, and its statements work on whole tables.
const NO_LIMITS: &str = "SET statement_timeout TO 0; SET idle_in_transaction_session_timeout TO 0";

/// How long a process that has just ended may still be connected, and how often that is looked up.
const GONE_TIMEOUT: Duration = Duration::from_secs(3);
const GONE_INTERVAL: Duration = Duration::from_millis(100);

/// A ledger whose schema is locked.
pub struct ExclusivePostgres {
    /// In a transaction that keeps others from connecting to the schema, until the ledger is published.
    connection: PgConnection,
    types: BTreeMap<&'static str, Vec<ColumnType>>,
    schema: Schema,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnType {
    Integer,
    Flag,
    Text,
    Id,
    Bytes,
}

impl PostgresLedger {
    /// Locks the ledger in a database, whose schema is created where it is missing. Processes that are started meanwhile wait
    /// for it, and fail in the end.
    ///
    /// # Errors
    /// When the ledger can't be opened, or another process is connected to it.
    pub async fn open_exclusive(settings: &Settings) -> Result<ExclusivePostgres, ConnectError> {
        Self::open_exclusive_from(settings, None).await
    }

    /// As [`open_exclusive`](Self::open_exclusive), but also opens a ledger that was moved to `location`, from where it is to
    /// come back.
    ///
    /// # Errors
    /// When the ledger can't be opened, or another process is connected to it.
    pub async fn open_exclusive_for_return(
        settings: &Settings,
        location: &str,
    ) -> Result<ExclusivePostgres, ConnectError> {
        Self::open_exclusive_from(settings, Some(location)).await
    }

    async fn open_exclusive_from(
        settings: &Settings,
        returns_from: Option<&str>,
    ) -> Result<ExclusivePostgres, ConnectError> {
        let (options, schema) = parse_url(settings)?;
        let target = ConnectionTarget::new(&options, &schema);
        let locked = tokio::time::timeout(settings.verb_timeout, lock(&options, &schema, returns_from)).await;
        match locked {
            Ok(Ok((connection, 0))) => Ok(ExclusivePostgres { connection, types: BTreeMap::new(), schema }),
            Ok(Ok((_, processes))) => {
                let ConnectionTarget { server, schema, .. } = target;
                Err(ConnectError::InUse { server, schema, processes })
            }
            Ok(Err(error)) => Err(target.describe(error)),
            Err(elapsed) => Err(ConnectError::Unreachable { server: target.server, source: Box::new(elapsed) }),
        }
    }
}

/// Brings the schema up to date, locks it, and counts the processes that work with it nevertheless.
async fn lock(
    options: &PgConnectOptions,
    schema: &Schema,
    returns_from: Option<&str>,
) -> Result<(PgConnection, i64), MigrateError> {
    let mut connection = options.connect().await?;
    set_up(&mut connection, schema).await?;
    let is_returning = match returns_from {
        Some(location) => schema.was_moved_to(&mut connection, location).await?,
        None => false,
    };
    if !is_returning {
        schema.migrate(&mut connection).await?;
    }
    // Whoever connects reads the version first.
    execute(&mut connection, &format!("{NO_LIMITS}; BEGIN; LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE"))
        .await?;
    execute(&mut connection, "SET CONSTRAINTS ALL DEFERRED").await?;
    // Another process may have moved it meanwhile. A ledger that was moved away stays so until it comes back.
    if !is_returning {
        schema.is_current(&mut connection).await?;
    }
    // The server notices a while after its end that a process is gone.
    let began = Instant::now();
    loop {
        // Within a transaction the server shows again what it has shown before.
        execute(&mut connection, "SELECT pg_stat_clear_snapshot()").await?;
        let processes = schema.count_processes(&mut connection).await?;
        if processes == 0 || began.elapsed() > GONE_TIMEOUT {
            return Ok((connection, processes));
        }
        tokio::time::sleep(GONE_INTERVAL).await;
    }
}

#[async_trait]
impl ExclusiveLedger for ExclusivePostgres {
    async fn table(&mut self, name: &'static str) -> Result<Table, LedgerError> {
        self.describe_table(name).await.map_err(|error| error.at_port("looking up a table"))
    }

    async fn read(&mut self, table: &Table, behind: Option<&Row>) -> Result<Vec<Row>, LedgerError> {
        self.read_page(table, behind).await.map_err(|error| error.at_port("reading the rows of a table"))
    }

    async fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), LedgerError> {
        self.copy_in(table, rows).await.map_err(|error| error.at_port("adding rows to a table"))
    }

    async fn counters(&mut self) -> Result<BTreeMap<String, i64>, LedgerError> {
        self.read_counters().await.map_err(|error| error.at_port("reading the counters"))
    }

    async fn set_counters(&mut self, counters: BTreeMap<String, i64>) -> Result<(), LedgerError> {
        self.write_counters(counters).await.map_err(|error| error.at_port("setting the counters"))
    }

    async fn list_blobs(&mut self) -> Result<Vec<NamedBlob>, LedgerError> {
        let rows = sqlx::query_as(NAMED_BLOBS).fetch_all(&mut self.connection).await;
        let rows: Vec<(Vec<u8>, i64)> = rows.map_err(|error| Error::from(error).at_port("listing the files"))?;
        let blob = |(digest, bytes): (Vec<u8>, i64)| {
            Some(NamedBlob { sha256: Sha256(digest.try_into().ok()?), bytes: u64::try_from(bytes).unwrap_or(0) })
        };
        let blobs: Option<Vec<_>> = rows.into_iter().map(blob).collect();
        blobs.ok_or_else(|| VerbError::Row { what: "digest" }.at_port("listing the files"))
    }

    async fn find_origin(&mut self) -> Result<Option<String>, LedgerError> {
        let origin = sqlx::query_scalar("SELECT moved_from FROM schema_version").fetch_one(&mut self.connection).await;
        origin.map_err(|error| Error::from(error).at_port("reading where the ledger is from"))
    }

    async fn find_new_location(&mut self) -> Result<Option<String>, LedgerError> {
        let location = sqlx::query_scalar("SELECT moved_to FROM schema_version").fetch_one(&mut self.connection).await;
        location.map_err(|error| Error::from(error).at_port("reading where the ledger is now"))
    }

    async fn clear(&mut self) -> Result<(), LedgerError> {
        let cleared = self.schema.clear(&mut self.connection).await;
        cleared.map_err(|error| Error::from(error).at_port("removing the rows of a ledger that was moved"))
    }

    async fn publish(&mut self, origin: &str) -> Result<(), LedgerError> {
        // What was said is indexed by the next process.
        let mark = sqlx::query("UPDATE schema_version SET moved_from = $1").bind(origin);
        let published = async {
            self.mark(mark).await?;
            Ok(execute(&mut self.connection, "BEGIN").await?)
        };
        published.await.map_err(|error: Error| error.at_port("storing the ledger"))
    }

    async fn retire(mut self: Box<Self>, location: &str) -> Result<(), LedgerError> {
        let mark = sqlx::query("UPDATE schema_version SET moved_to = $1").bind(location);
        self.mark(mark).await.map_err(|error| error.at_port("marking the ledger as moved"))
    }

    async fn activate(mut self: Box<Self>) -> Result<(), LedgerError> {
        let mark = sqlx::query("UPDATE schema_version SET moved_from = NULL");
        self.mark(mark).await.map_err(|error| error.at_port("activating the ledger"))
    }
}

impl ExclusivePostgres {
    async fn describe_table(&mut self, name: &'static str) -> Result<Table> {
        let columns: Vec<(String, String, i64)> = sqlx::query_as(
            "SELECT attname::TEXT, format_type(atttypid, NULL), \
                 COALESCE(array_position(indkey::INT2[], attnum) + 1, 0)::BIGINT \
             FROM pg_attribute LEFT JOIN pg_index ON indrelid = attrelid AND indisprimary \
             WHERE attrelid = to_regclass(quote_ident(current_schema()) || '.' || $1) AND attnum > 0 AND NOT attisdropped \
             ORDER BY attname COLLATE \"C\"",
        )
        .bind(name)
        .fetch_all(&mut self.connection)
        .await?;
        let columns: Vec<_> = columns.into_iter().filter(|(column, ..)| is_moved(name, column)).collect();
        let mut key: Vec<(i64, usize)> = columns
            .iter()
            .enumerate()
            .filter(|(_, (.., key))| *key > 0)
            .map(|(index, (.., key))| (*key, index))
            .collect();
        key.sort_unstable();
        let types: Option<_> = columns.iter().map(|(_, name, _)| ColumnType::parse(name)).collect();
        self.types.insert(name, types.ok_or(VerbError::Row { what: "type of a column" })?);
        let key = key.into_iter().map(|(_, index)| index).collect();
        Ok(Table { name, columns: columns.into_iter().map(|(column, ..)| column).collect(), key })
    }

    fn types(&self, table: &Table) -> Result<&[ColumnType]> {
        Ok(self.types.get(table.name).map(Vec::as_slice).ok_or(VerbError::Row { what: "table" })?)
    }

    /// Changes a mark, and commits.
    async fn mark(&mut self, statement: PgQuery<'_>) -> Result<()> {
        statement.execute(&mut self.connection).await?;
        Ok(execute(&mut self.connection, "COMMIT").await?)
    }

    async fn read_page(&mut self, table: &Table, behind: Option<&Row>) -> Result<Vec<Row>> {
        let types = self.types(table)?.to_vec();
        let sql = select_page(table, &types, behind.is_some());
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (column, value) in table.key.iter().zip(behind.into_iter().flat_map(|row| table.key_values(row))) {
            query = bind(query, types[*column], value)?;
        }
        let rows = query.fetch_all(&mut self.connection).await?;
        rows.iter().map(|row| read_row(row, &types)).collect()
    }

    async fn copy_in(&mut self, table: &Table, rows: Vec<Row>) -> Result<()> {
        let types = self.types(table)?;
        let mut text = String::new();
        for row in &rows {
            write_row(&mut text, row, types)?;
        }
        let columns = table.columns.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ");
        let statement = format!("COPY \"{}\" ({columns}) FROM STDIN", table.name);
        let mut copy = self.connection.copy_in_raw(&statement).await?;
        copy.send(text.into_bytes()).await?;
        copy.finish().await?;
        Ok(())
    }

    /// The tables that number their rows, and the names of their sequences.
    async fn sequences(&mut self) -> Result<Vec<(String, String, String)>> {
        Ok(sqlx::query_as(
            "SELECT relname::TEXT, attname::TEXT, \
                 pg_get_serial_sequence(quote_ident(current_schema()) || '.' || quote_ident(relname), attname) \
             FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid \
             WHERE attidentity <> '' AND relnamespace = current_schema()::REGNAMESPACE",
        )
        .fetch_all(&mut self.connection)
        .await?)
    }

    async fn read_counters(&mut self) -> Result<BTreeMap<String, i64>> {
        let mut counters = BTreeMap::new();
        for (table, _, sequence) in self.sequences().await? {
            let last: Option<i64> = sqlx::query_scalar("SELECT pg_sequence_last_value($1::REGCLASS)")
                .bind(sequence)
                .fetch_one(&mut self.connection)
                .await?;
            counters.extend(last.map(|last| (table, last)));
        }
        Ok(counters)
    }

    /// A table that has no counter in the other database goes on behind its last row.
    async fn write_counters(&mut self, counters: BTreeMap<String, i64>) -> Result<()> {
        for (table, column, sequence) in self.sequences().await? {
            let last = counters.get(&table).copied().unwrap_or(0);
            let sql = format!(
                "SELECT setval($1::REGCLASS, last) FROM (SELECT GREATEST(MAX(\"{column}\"), $2) AS last FROM \"{table}\") \
                 AS numbers WHERE last > 0"
            );
            sqlx::query(AssertSqlSafe(sql)).bind(sequence).bind(last).execute(&mut self.connection).await?;
        }
        Ok(())
    }
}

impl ColumnType {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "bigint" => Some(Self::Integer),
            "boolean" => Some(Self::Flag),
            "text" => Some(Self::Text),
            "uuid" => Some(Self::Id),
            "bytea" => Some(Self::Bytes),
            _ => None,
        }
    }
}

fn select_page(table: &Table, types: &[ColumnType], has_start: bool) -> String {
    let column = |(name, kind): (&String, &ColumnType)| match kind {
        ColumnType::Flag => format!("\"{name}\"::INT::BIGINT"),
        ColumnType::Id => format!("uuid_send(\"{name}\")"),
        _ => format!("\"{name}\""),
    };
    let columns: Vec<_> = table.columns.iter().zip(types).map(column).collect();
    // Names are compared byte by byte, as elsewhere.
    let key = table.key.iter().map(|column| match types[*column] {
        ColumnType::Text => format!("\"{}\" COLLATE \"C\"", table.columns[*column]),
        _ => format!("\"{}\"", table.columns[*column]),
    });
    let key = key.collect::<Vec<_>>().join(", ");
    let places: Vec<_> = (1..=table.key.len()).map(|place| format!("${place}")).collect();
    let start = match has_start {
        true => format!("WHERE ({key}) > ({})", places.join(", ")),
        false => String::new(),
    };
    format!("SELECT {} FROM \"{}\" {start} ORDER BY {key} LIMIT {PAGE_ROWS}", columns.join(", "), table.name)
}

type PgQuery<'q> = Query<'q, sqlx::Postgres, PgArguments>;

fn bind<'q>(query: PgQuery<'q>, kind: ColumnType, value: &Value) -> Result<PgQuery<'q>> {
    match (kind, value) {
        (ColumnType::Integer, Value::Integer(value)) => Ok(query.bind(*value)),
        (ColumnType::Text, Value::Text(text)) => Ok(query.bind(text.clone())),
        (ColumnType::Id, Value::Bytes(bytes)) => Ok(query.bind(read_id(bytes)?)),
        _ => Err(VerbError::Row { what: "key" }.into()),
    }
}

fn read_id(bytes: &[u8]) -> Result<Uuid> {
    Ok(Uuid::from_slice(bytes).map_err(|_| VerbError::Row { what: "id" })?)
}

fn read_row(row: &PgRow, types: &[ColumnType]) -> Result<Row> {
    let read = |(index, kind): (usize, &ColumnType)| {
        Ok(match kind {
            ColumnType::Integer | ColumnType::Flag => row.try_get::<Option<_>, _>(index)?.map(Value::Integer),
            ColumnType::Text => row.try_get::<Option<_>, _>(index)?.map(Value::Text),
            ColumnType::Id | ColumnType::Bytes => row.try_get::<Option<_>, _>(index)?.map(Value::Bytes),
        }
        .unwrap_or(Value::Null))
    };
    types.iter().enumerate().map(read).collect()
}

/// Writes a line as `COPY` reads it.
fn write_row(line: &mut String, row: &Row, types: &[ColumnType]) -> Result<()> {
    for (index, (value, kind)) in row.iter().zip(types).enumerate() {
        if index > 0 {
            line.push('\t');
        }
        match (kind, value) {
            (_, Value::Null) => line.push_str("\\N"),
            (ColumnType::Integer | ColumnType::Flag, Value::Integer(value)) => line.push_str(&value.to_string()),
            (ColumnType::Text, Value::Text(text)) => text.chars().for_each(|char| match char {
                '\\' => line.push_str("\\\\"),
                '\t' => line.push_str("\\t"),
                '\n' => line.push_str("\\n"),
                '\r' => line.push_str("\\r"),
                other => line.push(other),
            }),
            (ColumnType::Id, Value::Bytes(bytes)) => line.push_str(&read_id(bytes)?.to_string()),
            (ColumnType::Bytes, Value::Bytes(bytes)) => {
                line.push_str("\\\\x");
                bytes.iter().for_each(|byte| line.push_str(&format!("{byte:02x}")));
            }
            _ => return Err(VerbError::Row { what: "value" }.into()),
        }
    }
    line.push('\n');
    Ok(())
}
