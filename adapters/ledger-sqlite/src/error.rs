//! What can go wrong inside, and how it is told at the port.

use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};
use satchel_ledger::stored::StoredError;
use satchel_ledger_sql::VerbError;
use satchel_ports::ledger::LedgerError;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("a statement failed")]
    Statement(#[from] rusqlite::Error),
    #[error("the locks of the processes can't be read")]
    Locks(#[from] std::io::Error),
    #[error(transparent)]
    Verb(#[from] VerbError),
    #[error("the transaction that it was part of failed")]
    Group(#[source] Arc<Error>),
    #[error("no space is left")]
    Full,
    #[error("the transaction was rolled back")]
    RolledBack,
    #[error("the verb panicked")]
    Panicked,
    #[error("the writer has stopped")]
    Stopped,
}

impl From<StoredError> for Error {
    fn from(error: StoredError) -> Self {
        Self::Verb(error.into())
    }
}

impl Error {
    /// Whether the disk, or the size that the database may have, is used up.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Group(shared) => shared.is_full(),
            Self::Statement(error) => is_full(error),
            Self::Full => true,
            _ => false,
        }
    }

    /// The error as the port knows it; `operation` says what failed, in the words of an operator.
    pub(crate) fn at_port(self, operation: &'static str) -> LedgerError {
        match self {
            full if full.is_full() => LedgerError::Full,
            Self::Verb(error) => error.at_port(operation),
            other => LedgerError::Store { operation, source: Box::new(other) },
        }
    }
}

/// Whether the disk, or the size that the database may have, is used up.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    let Some(error) = error.sqlite_error() else { return false };
    // A full disk shows as the second one when the first reader comes and the shared-memory file can't grow.
    error.code == ErrorCode::DiskFull || error.extended_code == ffi::SQLITE_IOERR_SHMSIZE
}

/// Whether another process keeps the database locked.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}
