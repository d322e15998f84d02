//! What can go wrong inside, and how it is told at the port.

use satchel_ledger::stored::StoredError;
use satchel_ledger_sql::VerbError;
use satchel_ports::ledger::LedgerError;

use crate::schema::SchemaMismatch;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("a statement failed")]
    Statement(#[from] sqlx::Error),
    #[error("the connection to the database was lost, or there is none; a retry may help")]
    Disconnected(#[source] sqlx::Error),
    #[error("the database didn't answer in time; a retry may help")]
    Timeout,
    #[error("nobody knows whether it was committed: the connection was lost and the database can't be asked")]
    InDoubt(#[source] sqlx::Error),
    #[error(transparent)]
    Schema(SchemaMismatch),
    #[error(transparent)]
    Verb(#[from] VerbError),
}

impl From<StoredError> for Error {
    fn from(error: StoredError) -> Self {
        Self::Verb(error.into())
    }
}

impl Error {
    /// Whether others were in the way, so that the verb may succeed when it is run from its beginning: transactions that
    /// can't be in an order, that wait for each other, or that made the same row.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self.code().as_deref(), Some("40001" | "40P01" | "23505"))
    }

    /// Whether the connection was lost, so that the verb may succeed on another one.
    pub(crate) fn is_lost_connection(&self) -> bool {
        matches!(self, Self::Statement(error) if is_disconnected(error))
    }

    fn is_full(&self) -> bool {
        matches!(self.code().as_deref(), Some("53100"))
    }

    fn code(&self) -> Option<String> {
        match self {
            Self::Statement(error) => error.as_database_error()?.code().map(std::borrow::Cow::into_owned),
            _ => None,
        }
    }

    /// The error as the port knows it; `operation` says what failed, in the words of an operator.
    pub(crate) fn at_port(self, operation: &'static str) -> LedgerError {
        match self {
            full if full.is_full() => LedgerError::Full,
            Self::Verb(error) => error.at_port(operation),
            Self::Statement(error) if is_disconnected(&error) => {
                LedgerError::Store { operation, source: Box::new(Self::Disconnected(error)) }
            }
            other => LedgerError::Store { operation, source: Box::new(other) },
        }
    }
}

/// Whether a connection is gone or can't be had: the server stops, starts, crashed or can't be reached.
pub(crate) fn is_disconnected(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => true,
        // What came was cut off.
        sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(error) => {
            // Shut down by an administrator, by a crash, starting, or no connection left; or ended while idle.
            let code = error.code().unwrap_or_default();
            matches!(code.as_ref(), "57P01" | "57P02" | "57P03" | "57P05" | "53300" | "25P03") || code.starts_with("08")
        }
        _ => false,
    }
}
