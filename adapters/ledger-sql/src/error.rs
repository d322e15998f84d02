//! Why a verb refuses, whichever engine runs it.

use satchel_domain::{ConversationId, PartId, TurnId};
use satchel_ledger::stored::StoredError;
use satchel_ports::ledger::{LedgerError, QuotaExceeded};

/// Why a verb refuses.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum VerbError {
    #[error("a row contains an invalid {what}")]
    Row { what: &'static str },
    #[error("{0}")]
    QuotaExceeded(QuotaExceeded),
    #[error("part {0} should be settled but is not in a settled state")]
    NotSettled(PartId),
    #[error("part {0} should stay unsettled but is in a settled state")]
    SettleOutcome(PartId),
    #[error("the lane of {0} has another holder")]
    LeaseLost(ConversationId),
    #[error("another process works on {0}")]
    LaneHeld(ConversationId),
    #[error("turn {0} can't forget what came before it while some of that waits")]
    EarlierWork(TurnId),
    #[error("part {0} is already settled")]
    AlreadySettled(PartId),
    #[error("unknown {0}")]
    Unknown(String),
}

impl From<StoredError> for VerbError {
    fn from(error: StoredError) -> Self {
        match error {
            StoredError::Invalid { what } => Self::Row { what },
            StoredError::Unknown { item } => Self::Unknown(item),
        }
    }
}

impl VerbError {
    pub(crate) fn unknown(what: impl Into<String>) -> Self {
        Self::Unknown(what.into())
    }

    /// The error as the port knows it; `operation` says what failed, in the words of an operator.
    #[must_use]
    pub fn at_port(self, operation: &'static str) -> LedgerError {
        match self {
            Self::LeaseLost(conversation) => LedgerError::LeaseLost(conversation),
            Self::LaneHeld(conversation) => LedgerError::LaneHeld(conversation),
            Self::AlreadySettled(part) => LedgerError::AlreadySettled(part),
            Self::Unknown(what) => LedgerError::Unknown { item: what },
            Self::QuotaExceeded(exceeded) => LedgerError::QuotaExceeded(exceeded),
            other => LedgerError::Store { operation, source: Box::new(other) },
        }
    }
}
