//! The transaction of a verb on a connection. It never waits: each statement is done when it returns.

use std::{
    fmt::Display,
    pin::pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use rusqlite::{
    CachedStatement, Row, ToSql,
    types::{ToSqlOutput, Type, Value as OwnedValue, ValueRef},
};
use satchel_domain::{ConversationId, Timestamp};
use satchel_ledger_sql::{
    FromColumn, FromRow, Parameter, Row as SessionRow, Session, VerbSettings,
    lanes::{Lane, LaneId},
    params,
};
use satchel_ports::ledger::HolderId;
use uuid::Uuid;

use crate::{
    database::Database,
    error::{Error, Result},
    search,
};

/// Runs a verb to its end.
pub(crate) fn finish<T>(verb: impl Future<Output = T>) -> T {
    match pin!(verb).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => unreachable!("a verb waits for nothing but its statements"),
    }
}

impl Session for Database {
    type Error = Error;

    async fn run(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<u64> {
        let mut statement = self.prepare_cached(sql)?;
        bind(&mut statement, parameters)?;
        Ok(statement.raw_execute()? as u64)
    }

    async fn value<T: FromColumn>(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<T> {
        let mut statement = self.prepare_cached(sql)?;
        bind(&mut statement, parameters)?;
        let mut rows = statement.raw_query();
        let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        Ok(T::from_column(&SqliteRow(row), 0)?)
    }

    async fn find<T: FromRow>(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Option<T>> {
        let mut statement = self.prepare_cached(sql)?;
        bind(&mut statement, parameters)?;
        let mut rows = statement.raw_query();
        Ok(rows.next()?.map(|row| T::from_row(&SqliteRow(row))).transpose()?)
    }

    async fn all<T: FromRow>(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<T>> {
        let mut statement = self.prepare_cached(sql)?;
        bind(&mut statement, parameters)?;
        let mut rows = statement.raw_query();
        let mut read = Vec::new();
        while let Some(row) = rows.next()? {
            read.push(T::from_row(&SqliteRow(row))?);
        }
        Ok(read)
    }

    async fn find_lane(&self, conversation: &ConversationId) -> Result<Option<Lane>> {
        self.find(
            "SELECT id, holder, token, expires_at, ledger_now() AS now FROM lanes WHERE conversation = $1",
            params![conversation.to_string()],
        )
        .await
    }

    /// Nothing: a verb that writes has the whole database for itself.
    async fn lock(&self, _name: impl Display) -> Result<()> {
        Ok(())
    }

    /// Nothing: a verb that writes has the whole database for itself.
    async fn wait_for_index(&self, _lane: LaneId, _last: i64) -> Result<()> {
        Ok(())
    }

    async fn index_name(&self, lane: LaneId, name: Option<&str>) -> Result<()> {
        search::index_name(self, lane, name).await
    }

    async fn unindex_turns(&self, lane: LaneId, last: i64) -> Result<()> {
        search::unindex_turns(self, lane, last).await
    }

    async fn request_erasure(&self) -> Result<()> {
        self.run(
            // A number that no earlier row had, which a process may still remember.
            "INSERT INTO pending_erasure (id, requests) VALUES (1, abs(random() / 2)) \
             ON CONFLICT (id) DO UPDATE SET requests = pending_erasure.requests + 1",
            params![],
        )
        .await?;
        self.start_erasure();
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.process.clock.now()
    }

    /// None: `ledger_now()` is this process's clock.
    fn clock_lead(&self) -> i64 {
        0
    }

    /// None: `ledger_now()` is this process's clock.
    fn clock_lead_over(&self, _ledger_now: Timestamp) -> i64 {
        0
    }

    fn new_id(&self) -> Uuid {
        self.process.ids.next()
    }

    fn holder(&self) -> HolderId {
        self.process.holder
    }

    fn is_gone(&self, holder: HolderId) -> bool {
        self.process.owners.is_gone(holder)
    }

    fn held_before(&self) -> Option<Timestamp> {
        self.process.held_before
    }

    fn settings(&self) -> &VerbSettings {
        &self.process.settings.verbs
    }
}

/// Binds `$1` and so on, which SQLite numbers as they first appear in the statement.
fn bind(statement: &mut CachedStatement<'_>, parameters: &[Parameter<'_>]) -> Result<()> {
    for index in 1..=statement.parameter_count() {
        let number = statement.parameter_name(index).and_then(|name| name.strip_prefix('$')?.parse::<usize>().ok());
        let value = number.and_then(|number| parameters.get(number.checked_sub(1)?));
        let value = value.ok_or(rusqlite::Error::InvalidParameterCount(parameters.len(), index))?;
        match value {
            Parameter::Integers(values) => {
                bind_list(statement, index, values.iter().map(|value| OwnedValue::Integer(*value)))
            }
            Parameter::Ids(ids) => {
                bind_list(statement, index, ids.iter().map(|id| OwnedValue::Blob(id.as_bytes().to_vec())))
            }
            Parameter::Texts(texts) => bind_list(statement, index, texts.iter().cloned().map(OwnedValue::Text)),
            Parameter::Digests(digests) => {
                bind_list(statement, index, digests.iter().map(|digest| OwnedValue::Blob(digest.to_vec())))
            }
            _ => statement.raw_bind_parameter(index, SingleParameter(value)),
        }?;
    }
    Ok(())
}

/// Binds a list for `rarray`.
fn bind_list(
    statement: &mut CachedStatement<'_>,
    index: usize,
    values: impl Iterator<Item = OwnedValue>,
) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(index, Rc::new(values.collect::<Vec<_>>()))
}

struct SingleParameter<'a>(&'a Parameter<'a>);

impl ToSql for SingleParameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Parameter::Null(_) => ToSqlOutput::Borrowed(ValueRef::Null),
            Parameter::Boolean(value) => ToSqlOutput::Borrowed(ValueRef::Integer(i64::from(*value))),
            Parameter::Integer(value) => ToSqlOutput::Borrowed(ValueRef::Integer(*value)),
            Parameter::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Parameter::Json(Ok(text)) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Parameter::Json(Err(error)) => {
                return Err(rusqlite::Error::ToSqlConversionFailure(error.to_string().into()));
            }
            Parameter::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Parameter::Id(id) => ToSqlOutput::Borrowed(ValueRef::Blob(id.as_bytes())),
            Parameter::Integers(_) | Parameter::Ids(_) | Parameter::Texts(_) | Parameter::Digests(_) => {
                return Err(rusqlite::Error::ToSqlConversionFailure("a list is bound for `rarray`".into()));
            }
        })
    }
}

struct SqliteRow<'a>(&'a Row<'a>);

impl SessionRow for SqliteRow<'_> {
    type Error = rusqlite::Error;

    fn position(&self, name: &str) -> rusqlite::Result<usize> {
        self.0.as_ref().column_index(name)
    }

    fn is_null(&self, column: usize) -> rusqlite::Result<bool> {
        Ok(self.0.get_ref(column)? == ValueRef::Null)
    }

    fn boolean(&self, column: usize) -> rusqlite::Result<bool> {
        self.0.get(column)
    }

    fn integer(&self, column: usize) -> rusqlite::Result<i64> {
        self.0.get(column)
    }

    fn text(&self, column: usize) -> rusqlite::Result<&str> {
        self.0.get_ref(column)?.as_str().map_err(|error| self.invalid(column, error))
    }

    fn bytes(&self, column: usize) -> rusqlite::Result<&[u8]> {
        self.0.get_ref(column)?.as_blob().map_err(|error| self.invalid(column, error))
    }

    fn id(&self, column: usize) -> rusqlite::Result<Uuid> {
        Uuid::from_slice(self.bytes(column)?).map_err(|error| self.invalid(column, error))
    }

    fn invalid(&self, column: usize, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Null, error.into())
    }
}
