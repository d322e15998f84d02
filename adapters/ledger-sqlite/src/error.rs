//! What can go wrong inside, and how it is told at the port.

use std::sync::Arc;

use satchel_domain::{ConversationId, PartId};
use satchel_ports::ledger::{LedgerError, QuotaExceeded};

/// SQLite's result codes that somebody branches on (<https://sqlite.org/rescode.html>).
pub(crate) mod code {
    pub(crate) const PERM: i32 = 3;
    pub(crate) const BUSY: i32 = 5;
    pub(crate) const READONLY: i32 = 8;
    pub(crate) const CORRUPT: i32 = 11;
    pub(crate) const FULL: i32 = 13;
    pub(crate) const CANTOPEN: i32 = 14;
    pub(crate) const CONSTRAINT: i32 = 19;
    pub(crate) const AUTH: i32 = 23;
    pub(crate) const NOTADB: i32 = 26;
    /// The shared-memory file could not grow; a full disk shows like this when the first reader comes.
    pub(crate) const IOERR_SHMSIZE: i32 = 4874;
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("a statement failed")]
    Statement(#[from] sqlx::Error),
    #[error("a row contains an invalid {what}")]
    Row { what: &'static str },
    #[error("the transaction that it was part of failed")]
    Group(#[source] Arc<Error>),
    #[error("{0}")]
    QuotaExceeded(QuotaExceeded),
    #[error("no space is left")]
    Full,
    #[error("the job panicked")]
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

    /// Whether the schema has refused a row.
    fn is_refused_row(&self) -> bool {
        match self {
            Self::Group(shared) => shared.is_refused_row(),
            Self::Statement(error) => extended_code(error).is_some_and(|extended| extended & 0xff == code::CONSTRAINT),
            _ => false,
        }
    }

    /// The error as the port knows it; `doing` says what failed, in the words of an operator.
    pub(crate) fn at_port(self, doing: &'static str) -> LedgerError {
        match self {
            full if full.is_full() => LedgerError::Full,
            Self::LeaseLost(conversation) => LedgerError::LeaseLost(conversation),
            Self::AlreadySettled(part) => LedgerError::AlreadySettled(part),
            Self::Unknown(what) => LedgerError::Unknown { item: what },
            Self::QuotaExceeded(exceeded) => LedgerError::QuotaExceeded(exceeded),
            other => LedgerError::Store { operation: doing, source: Box::new(other) },
        }
    }
}

/// Whether a verb has failed because something isn't as its statements expect it: they can only say so by a row that
/// the schema refuses. Nothing was changed.
pub(crate) fn is_otherwise<T>(done: &Result<T, LedgerError>) -> bool {
    match done {
        Err(LedgerError::Store { source, .. }) => source.downcast_ref().is_some_and(Error::is_refused_row),
        _ => false,
    }
}

/// Whether the disk, or the size that the database may have, is used up.
pub(crate) fn is_full(error: &sqlx::Error) -> bool {
    let no_room = |error: &std::io::Error| error.kind() == std::io::ErrorKind::StorageFull;
    match (extended_code(error), error) {
        (Some(extended), _) => extended & 0xff == code::FULL || extended == code::IOERR_SHMSIZE,
        (None, sqlx::Error::Io(error)) => no_room(error),
        _ => false,
    }
}

/// Whether another process keeps the database locked.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    extended_code(error).is_some_and(|extended| extended & 0xff == code::BUSY)
}

/// SQLite's extended result code; the low eight bits are the primary one.
pub(crate) fn extended_code(error: &sqlx::Error) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}
