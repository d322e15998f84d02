//! A transaction, with what a verb needs besides rows: time, ids and settings.

use std::{
    fmt::{self, Display},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use satchel_domain::Timestamp;
use satchel_ledger::transfer::replace_nul_escapes;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::{
    AssertSqlSafe, Decode, Encode, PgConnection, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{PgArguments, PgRow, PgTypeInfo, PgValueRef},
};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::{
    error::Result,
    process::{Process, Settings},
    transactions::OpenTransaction,
};

/// Collects what is bound in a statement.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        $crate::database::StatementParameters::default()$(.with(&$value))*
    };
}
pub(crate) use params;

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

    pub(crate) fn now(&self) -> Timestamp {
        self.process.clock.now()
    }

    pub(crate) fn new_id(&self) -> Uuid {
        self.process.ids.next()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.process.settings
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

    /// How far this process's clock is ahead of the database's, in milliseconds.
    pub(crate) fn clock_lead(&self) -> i64 {
        self.clock_lead.load(Ordering::Relaxed)
    }

    /// Lets one verb at a time look at what no lane's lock covers and change it, such as what a person has in all
    /// conversations. It is named like that.
    pub(crate) async fn lock(&self, name: impl Display) -> Result<()> {
        let sql = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || $1, 0))";
        self.run(sql, params![name.to_string()]).await?;
        Ok(())
    }

    /// Runs a statement, and returns how many rows it changed.
    pub(crate) async fn run(&self, sql: &str, parameters: StatementParameters) -> Result<u64> {
        let query = sqlx::query_with(AssertSqlSafe(sql), parameters.arguments()?);
        let mut transaction = self.transaction.lock().await;
        Ok(query.execute(transaction.connection()).await?.rows_affected())
    }

    /// Reads the first column of the only row.
    pub(crate) async fn value<T>(&self, sql: &str, parameters: StatementParameters) -> Result<T>
    where
        T: for<'r> Decode<'r, Postgres> + Type<Postgres> + Send + Unpin,
    {
        let query = sqlx::query_scalar_with(AssertSqlSafe(sql), parameters.arguments()?);
        let mut transaction = self.transaction.lock().await;
        Ok(query.fetch_one(transaction.connection()).await?)
    }

    /// Reads the first row, if there is one.
    pub(crate) async fn find<T>(&self, sql: &str, parameters: StatementParameters) -> Result<Option<T>>
    where
        T: for<'r> sqlx::FromRow<'r, PgRow> + Send + Unpin,
    {
        let query = sqlx::query_as_with(AssertSqlSafe(sql), parameters.arguments()?);
        let mut transaction = self.transaction.lock().await;
        Ok(query.fetch_optional(transaction.connection()).await?)
    }

    /// Reads all rows.
    pub(crate) async fn all<T>(&self, sql: &str, parameters: StatementParameters) -> Result<Vec<T>>
    where
        T: for<'r> sqlx::FromRow<'r, PgRow> + Send + Unpin,
    {
        let query = sqlx::query_as_with(AssertSqlSafe(sql), parameters.arguments()?);
        let mut transaction = self.transaction.lock().await;
        Ok(query.fetch_all(transaction.connection()).await?)
    }
}

/// What is bound in a statement, as `$1` and so on.
#[derive(Default)]
pub(crate) struct StatementParameters {
    arguments: PgArguments,
    error: Option<BoxDynError>,
}

impl StatementParameters {
    pub(crate) fn with(mut self, value: &impl ColumnValue) -> Self {
        self.push(value);
        self
    }

    pub(crate) fn push(&mut self, value: &impl ColumnValue) {
        use sqlx::Arguments;
        if let Err(error) = self.arguments.add(value.stored()) {
            self.error = Some(error);
        }
    }

    pub(crate) fn len(&self) -> usize {
        use sqlx::Arguments;
        self.arguments.len()
    }

    fn arguments(self) -> Result<PgArguments> {
        match self.error {
            None => Ok(self.arguments),
            Some(error) => Err(sqlx::Error::Encode(error).into()),
        }
    }
}

/// A value in the form in which a column stores it.
pub(crate) trait ColumnValue {
    type Stored: for<'q> Encode<'q, Postgres> + Type<Postgres> + 'static;

    fn stored(&self) -> Self::Stored;
}

/// Types that are stored as they are, or by a conversion.
macro_rules! column_values {
    ($($type:ty => $stored:ty, $value:ident => $conversion:expr;)*) => {
        $(impl ColumnValue for $type {
            type Stored = $stored;

            fn stored(&self) -> $stored {
                let $value = self;
                $conversion
            }
        })*
    };
}

column_values! {
    bool => bool, value => *value;
    i64 => i64, value => *value;
    u32 => i64, value => i64::from(*value);
    usize => i64, value => i64::try_from(*value).unwrap_or(i64::MAX);
    Uuid => Uuid, value => *value;
    [u8; 32] => Vec<u8>, value => value.to_vec();
    Vec<i64> => Vec<i64>, value => value.clone();
    Vec<Uuid> => Vec<Uuid>, value => value.clone();
    Vec<Vec<u8>> => Vec<Vec<u8>>, value => value.clone();
    Vec<String> => Vec<String>, value => value.iter().map(|text| without_nul(text)).collect();
    str => String, value => without_nul(value);
    String => String, value => without_nul(value);
}

impl<T: ColumnValue + ?Sized> ColumnValue for &T {
    type Stored = T::Stored;

    fn stored(&self) -> Self::Stored {
        (**self).stored()
    }
}

impl<T: ColumnValue> ColumnValue for Option<T> {
    type Stored = Option<T::Stored>;

    fn stored(&self) -> Self::Stored {
        self.as_ref().map(T::stored)
    }
}

/// PostgreSQL has no text with the character NUL.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// A value that is stored as JSON text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> ColumnValue for Json<T> {
    type Stored = JsonText;

    fn stored(&self) -> JsonText {
        JsonText(serde_json::to_string(&self.0))
    }
}

/// JSON that is to be stored.
pub(crate) struct JsonText(serde_json::Result<String>);

impl Type<Postgres> for JsonText {
    fn type_info() -> PgTypeInfo {
        <String as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for JsonText {
    fn encode_by_ref(&self, buffer: &mut sqlx::postgres::PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let text = self.0.as_deref().map_err(ToString::to_string)?;
        // Statements that look into a document couldn't read it with NUL in it.
        Encode::<Postgres>::encode_by_ref(&replace_nul_escapes(text), buffer)
    }
}

impl<T> Type<Postgres> for Json<T> {
    fn type_info() -> PgTypeInfo {
        <String as Type<Postgres>>::type_info()
    }

    fn compatible(type_info: &PgTypeInfo) -> bool {
        <String as Type<Postgres>>::compatible(type_info)
    }
}

impl<'r, T: DeserializeOwned> Decode<'r, Postgres> for Json<T> {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = <&str as Decode<Postgres>>::decode(value)?;
        Ok(Self(serde_json::from_str(text)?))
    }
}

/// Ids as an array, for `= ANY($1)`.
pub(crate) fn id_array(ids: impl IntoIterator<Item = Uuid>) -> Vec<Uuid> {
    ids.into_iter().collect()
}

/// A connection that is no verb's.
pub(crate) async fn execute(connection: &mut PgConnection, sql: &str) -> Result<(), sqlx::Error> {
    use sqlx::Executor;
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    Ok(())
}
