//! The transaction of a verb.

use std::{
    fmt::{self, Display},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use satchel_domain::{ConversationId, Timestamp};
use satchel_ledger::transfer::replace_nul_escapes;
use satchel_ledger_sql::{
    FromColumn, FromRow, Parameter, ParameterType, Row, Session, VerbSettings,
    lanes::{Lane, LaneId},
    params,
};
use satchel_ports::ledger::HolderId;
use sqlx::{
    Arguments, AssertSqlSafe, Postgres, Row as _, ValueRef,
    error::BoxDynError,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    lanes,
    process::Process,
    transactions::OpenTransaction,
};

/// The transaction of a verb.
///
/// Its statements run one after the other; the lock spares a verb's functions a mutable borrow.
pub(crate) struct Database {
    transaction: Mutex<OpenTransaction>,
    /// Whether it may write, so that the lane that it reads is locked until its end.
    pub(crate) is_writing: bool,
    /// How far this process's clock is ahead of the database's, once a lane was locked.
    clock_lead: AtomicI64,
    pub(crate) process: Arc<Process>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("is_writing", &self.is_writing).finish_non_exhaustive()
    }
}

impl Database {
    pub(crate) fn new(transaction: OpenTransaction, is_writing: bool, process: Arc<Process>) -> Self {
        Self { transaction: Mutex::new(transaction), is_writing, clock_lead: AtomicI64::new(0), process }
    }

    pub(crate) fn into_transaction(self) -> OpenTransaction {
        self.transaction.into_inner()
    }

    /// Keeps the number of the transaction.
    pub(crate) async fn record_number(&self, number: String) {
        self.transaction.lock().await.number = Some(number);
    }

    /// Keeps how the clocks differ: what this one showed before the database was asked for its own. Where that took long,
    /// others wait longer and not less.
    pub(crate) fn record_clock_lead(&self, asked_at: Timestamp, database_now: Timestamp) {
        self.clock_lead.store(asked_at.0.saturating_sub(database_now.0), Ordering::Relaxed);
    }
}

impl Session for Database {
    type Error = Error;

    async fn run(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<u64> {
        let query = query(sql, parameters)?;
        let mut transaction = self.transaction.lock().await;
        Ok(query.execute(transaction.connection()).await?.rows_affected())
    }

    async fn value<T: FromColumn>(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<T> {
        let query = query(sql, parameters)?;
        let mut transaction = self.transaction.lock().await;
        let row = query.fetch_one(transaction.connection()).await?;
        Ok(T::from_column(&DatabaseRow(&row), 0)?)
    }

    async fn find<T: FromRow>(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Option<T>> {
        let query = query(sql, parameters)?;
        let mut transaction = self.transaction.lock().await;
        let row = query.fetch_optional(transaction.connection()).await?;
        Ok(row.map(|row| T::from_row(&DatabaseRow(&row))).transpose()?)
    }

    async fn all<T: FromRow>(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<T>> {
        let query = query(sql, parameters)?;
        let mut transaction = self.transaction.lock().await;
        let rows = query.fetch_all(transaction.connection()).await?;
        Ok(rows.iter().map(|row| T::from_row(&DatabaseRow(row))).collect::<Result<_, _>>()?)
    }

    async fn find_lane(&self, conversation: &ConversationId) -> Result<Option<Lane>> {
        lanes::find(self, conversation).await
    }

    async fn lock(&self, name: impl Display) -> Result<()> {
        let name = name.to_string();
        let sql = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || $1, 0))";
        self.run(sql, params![name]).await?;
        Ok(())
    }

    async fn wait_for_index(&self, lane: LaneId, last: i64) -> Result<()> {
        self.run("SELECT 1 FROM turns WHERE lane = $1 AND sequence <= $2 FOR UPDATE", params![lane, last]).await?;
        Ok(())
    }

    /// Nothing: names are few enough to be read.
    async fn index_name(&self, _lane: LaneId, _name: Option<&str>) -> Result<()> {
        Ok(())
    }

    async fn unindex_turns(&self, lane: LaneId, last: i64) -> Result<()> {
        self.run(
            "DELETE FROM search_index WHERE rowid IN (SELECT sequence FROM turns WHERE lane = $1 AND sequence <= $2)",
            params![lane, last],
        )
        .await?;
        Ok(())
    }

    /// Nothing: what removed rows leave in its files is for the server's vacuum.
    async fn request_erasure(&self) -> Result<()> {
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.process.clock.now()
    }

    fn clock_lead(&self) -> i64 {
        self.clock_lead.load(Ordering::Relaxed)
    }

    fn clock_lead_over(&self, ledger_now: Timestamp) -> i64 {
        self.now().0.saturating_sub(ledger_now.0)
    }

    fn new_id(&self) -> Uuid {
        self.process.ids.next()
    }

    fn holder(&self) -> HolderId {
        self.process.holder
    }

    fn is_gone(&self, _holder: HolderId) -> bool {
        false
    }

    fn held_before(&self) -> Option<Timestamp> {
        None
    }

    fn settings(&self) -> &VerbSettings {
        &self.process.settings.verbs
    }
}

fn query<'q>(sql: &'q str, parameters: &[Parameter<'_>]) -> Result<Query<'q, Postgres, PgArguments>> {
    let mut arguments = PgArguments::default();
    arguments.reserve(parameters.len(), 0);
    for value in parameters {
        bind(&mut arguments, value).map_err(sqlx::Error::Encode)?;
    }
    Ok(sqlx::query_with(AssertSqlSafe(sql), arguments))
}

fn bind(arguments: &mut PgArguments, value: &Parameter<'_>) -> Result<(), BoxDynError> {
    match value {
        Parameter::Null(ParameterType::Boolean) => arguments.add(None::<bool>),
        Parameter::Null(ParameterType::Integer) => arguments.add(None::<i64>),
        Parameter::Null(ParameterType::Text) => arguments.add(None::<&str>),
        Parameter::Null(ParameterType::Bytes) => arguments.add(None::<&[u8]>),
        Parameter::Null(ParameterType::Id) => arguments.add(None::<Uuid>),
        Parameter::Null(
            ParameterType::Integers | ParameterType::Ids | ParameterType::Texts | ParameterType::Digests,
        ) => Err("a list that is bound is never NULL".into()),
        Parameter::Boolean(value) => arguments.add(*value),
        Parameter::Integer(value) => arguments.add(*value),
        Parameter::Text(text) => arguments.add(without_nul(text)),
        // Statements that look into a document couldn't read it with NUL in it.
        Parameter::Json(Ok(text)) => arguments.add(replace_nul_escapes(text)),
        Parameter::Json(Err(error)) => Err(error.to_string().into()),
        Parameter::Bytes(bytes) => arguments.add(*bytes),
        Parameter::Id(id) => arguments.add(*id),
        Parameter::Integers(values) => arguments.add(*values),
        Parameter::Ids(ids) => arguments.add(*ids),
        Parameter::Texts(texts) => arguments.add(texts.iter().map(|text| without_nul(text)).collect::<Vec<_>>()),
        Parameter::Digests(digests) => arguments.add(*digests),
    }
}

/// PostgreSQL has no text with the character NUL.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

struct DatabaseRow<'a>(&'a PgRow);

impl Row for DatabaseRow<'_> {
    type Error = sqlx::Error;

    fn position(&self, name: &str) -> sqlx::Result<usize> {
        let column = self.0.try_column(name)?;
        Ok(sqlx::Column::ordinal(column))
    }

    fn is_null(&self, column: usize) -> sqlx::Result<bool> {
        Ok(self.0.try_get_raw(column)?.is_null())
    }

    fn boolean(&self, column: usize) -> sqlx::Result<bool> {
        self.0.try_get(column)
    }

    fn integer(&self, column: usize) -> sqlx::Result<i64> {
        self.0.try_get(column)
    }

    fn text(&self, column: usize) -> sqlx::Result<&str> {
        self.0.try_get(column)
    }

    fn bytes(&self, column: usize) -> sqlx::Result<&[u8]> {
        self.0.try_get(column)
    }

    fn id(&self, column: usize) -> sqlx::Result<Uuid> {
        self.0.try_get(column)
    }

    fn invalid(&self, column: usize, error: impl Into<BoxDynError>) -> sqlx::Error {
        sqlx::Error::ColumnDecode { index: column.to_string(), source: error.into() }
    }
}
