//! How a verb runs: one transaction, run once more where others were in the way, and settled where its commit is in doubt.

use std::{sync::Arc, time::Duration};

use satchel_ports::ledger::LedgerError;
use sqlx::{PgConnection, Postgres, pool::PoolConnection};

use crate::{
    PostgresLedger,
    connections::{ConnectionPurpose, execute},
    error::{Error, Result, is_disconnected},
    session::Database,
};

/// How often a verb is run at most.
const MAX_ATTEMPTS: u32 = 8;

/// How long a verb waits before it is run once more, for each time that it has been.
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// How soon the outcome of a commit is asked for once more.
const OUTCOME_INTERVAL: Duration = Duration::from_millis(100);

/// Reads see one state of the database, however many statements they have.
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Each statement sees what was committed before it, so that what stands behind the lock of a lane is up to date.
const BEGIN_WRITING: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// What a verb does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerbKind {
    Read,
    Write,
    Renewal,
}

impl VerbKind {
    fn is_writing(self) -> bool {
        self != Self::Read
    }

    fn purpose(self) -> ConnectionPurpose {
        match self {
            Self::Read | Self::Write => ConnectionPurpose::Verb,
            Self::Renewal => ConnectionPurpose::Renewal,
        }
    }
}

/// A connection in a transaction.
pub(crate) struct OpenTransaction {
    /// `None` once the transaction has ended.
    connection: Option<PoolConnection<Postgres>>,
    /// Its number, where it has one that is known.
    pub(crate) number: Option<String>,
}

impl OpenTransaction {
    async fn begin(mut connection: PoolConnection<Postgres>, statement: &'static str) -> Result<Self> {
        match execute(&mut connection, statement).await {
            Ok(()) => Ok(Self { connection: Some(connection), number: None }),
            Err(error) => {
                drop(connection.detach());
                Err(error.into())
            }
        }
    }

    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("the transaction is open while the verb runs")
    }

    /// Ends the transaction. Its connection is used again unless that fails.
    async fn finish(mut self, statement: &'static str) -> Result<(), sqlx::Error> {
        let ended = execute(self.connection(), statement).await;
        if ended.is_ok() {
            drop(self.connection.take());
        }
        ended
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // Nobody waits for the verb any longer. Closing the connection makes the server roll it back.
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

/// What became of a transaction whose commit got no answer.
enum CommitOutcome {
    Committed,
    Aborted,
}

impl PostgresLedger {
    /// Runs a verb that writes. `operation` says what it does, in the words of an operator.
    pub(crate) async fn write<T, F, Verb>(&self, operation: &'static str, verb: F) -> Result<T, LedgerError>
    where
        F: Fn(Arc<Database>) -> Verb,
        Verb: Future<Output = Result<T>>,
    {
        self.run(VerbKind::Write, verb).await.map_err(|error| error.at_port(operation))
    }

    /// Runs a verb that renews a lease.
    pub(crate) async fn renew_lease<T, F, Verb>(&self, operation: &'static str, verb: F) -> Result<T, LedgerError>
    where
        F: Fn(Arc<Database>) -> Verb,
        Verb: Future<Output = Result<T>>,
    {
        self.run(VerbKind::Renewal, verb).await.map_err(|error| error.at_port(operation))
    }

    /// Runs a query.
    pub(crate) async fn read<T, F, Verb>(&self, operation: &'static str, query: F) -> Result<T, LedgerError>
    where
        F: Fn(Arc<Database>) -> Verb,
        Verb: Future<Output = Result<T>>,
    {
        self.run(VerbKind::Read, query).await.map_err(|error| error.at_port(operation))
    }

    async fn run<T, F, Verb>(&self, kind: VerbKind, verb: F) -> Result<T>
    where
        F: Fn(Arc<Database>) -> Verb,
        Verb: Future<Output = Result<T>>,
    {
        for attempt in 1.. {
            let ended = tokio::time::timeout(self.process.settings.verb_timeout, self.attempt(kind, &verb)).await;
            match ended.unwrap_or(Err(Error::Timeout)) {
                // Another connection may be alive, where this one was closed while nobody used it.
                Err(error) if attempt < MAX_ATTEMPTS && (error.is_conflict() || error.is_lost_connection()) => {
                    tracing::debug!(error = &error as &dyn std::error::Error, attempt, "running a verb once more");
                    tokio::time::sleep(RETRY_DELAY * attempt).await;
                }
                ended => return ended,
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn attempt<T, F, Verb>(&self, kind: VerbKind, verb: &F) -> Result<T>
    where
        F: Fn(Arc<Database>) -> Verb,
        Verb: Future<Output = Result<T>>,
    {
        let connection = self.connections.acquire(kind.purpose()).await?;
        let begin = if kind.is_writing() { BEGIN_WRITING } else { BEGIN_READING };
        let transaction = OpenTransaction::begin(connection, begin).await?;
        let database = Arc::new(Database::new(transaction, kind.is_writing(), Arc::clone(&self.process)));
        let ended = verb(Arc::clone(&database)).await;
        let database = Arc::into_inner(database).expect("a verb keeps no transaction beyond its end");
        let transaction = database.into_transaction();
        match ended {
            Ok(value) => {
                self.commit(transaction).await?;
                Ok(value)
            }
            Err(error) => {
                // Where this fails, the connection is closed, which has the same effect.
                let _rolled_back = transaction.finish("ROLLBACK").await;
                Err(error)
            }
        }
    }

    async fn commit(&self, transaction: OpenTransaction) -> Result<()> {
        let number = transaction.number.clone();
        match (transaction.finish("COMMIT").await, number) {
            (Err(lost), Some(number)) if is_disconnected(&lost) => match self.find_outcome(&number).await {
                Ok(CommitOutcome::Committed) => Ok(()),
                Ok(CommitOutcome::Aborted) => Err(Error::Statement(lost)),
                Err(_) => Err(Error::InDoubt(lost)),
            },
            (Err(lost), None) if is_disconnected(&lost) => Err(Error::InDoubt(lost)),
            (ended, _) => Ok(ended?),
        }
    }

    /// Asks what became of a transaction, on another connection. Once its own is gone, it doesn't run for long.
    async fn find_outcome(&self, number: &str) -> Result<CommitOutcome> {
        loop {
            let mut connection = self.connections.acquire(ConnectionPurpose::Verb).await?;
            let query = sqlx::query_scalar("SELECT pg_xact_status($1::TEXT::xid8)").bind(number);
            let status: Option<String> = query.fetch_one(&mut *connection).await?;
            match status.as_deref() {
                Some("committed") => return Ok(CommitOutcome::Committed),
                Some("aborted") => return Ok(CommitOutcome::Aborted),
                _ => tokio::time::sleep(OUTCOME_INTERVAL).await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
