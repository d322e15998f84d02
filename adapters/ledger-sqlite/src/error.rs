//! What can go wrong inside, and how it is told at the port.

use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};
use satchel_domain::{ConversationId, PartId};
use satchel_ledger::stored::StoredError;
use satchel_ports::ledger::{LedgerError, QuotaExceeded};

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("a statement failed")]
    Statement(#[from] rusqlite::Error),
    #[error("the locks of the processes can't be read")]
    Locks(#[from] std::io::Error),
    #[error("a row contains an invalid {what}")]
    Row { what: &'static str },
    #[error("the transaction that it was part of failed")]
    Group(#[source] Arc<Error>),
    #[error("{0}")]
    QuotaExceeded(QuotaExceeded),
    #[error("no space is left")]
    Full,
    #[error("the transaction was rolled back")]
    RolledBack,
    #[error("the verb panicked")]
    Panicked,
    #[error("the writer has stopped")]
    Stopped,
    #[error("part {0} should be settled but is not in a settled state")]
    NotSettled(PartId),
    #[error("part {0} should stay unsettled but is in a settled state")]
    SettleOutcome(PartId),
    #[error("the lane of {0} has another holder")]
    LeaseLost(ConversationId),
    #[error("part {0} is already settled")]
    AlreadySettled(PartId),
    #[error("unknown {0}")]
    Unknown(String),
}

impl From<StoredError> for Error {
    fn from(error: StoredError) -> Self {
        match error {
            StoredError::Invalid { what } => Self::Row { what },
            StoredError::Unknown { item } => Self::Unknown(item),
        }
    }
}

impl Error {
    pub(crate) fn unknown(what: impl Into<String>) -> Self {
        Self::Unknown(what.into())
    }

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
            Self::LeaseLost(conversation) => LedgerError::LeaseLost(conversation),
            Self::AlreadySettled(part) => LedgerError::AlreadySettled(part),
            Self::Unknown(what) => LedgerError::Unknown { item: what },
            Self::QuotaExceeded(exceeded) => LedgerError::QuotaExceeded(exceeded),
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
