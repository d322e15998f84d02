//! Why a file could not be decoded, whatever was to be made of it.

use satchel_ports::{DocumentError, ImageError};

use crate::protocol::{Failure, FailureKind, MAX_MESSAGE_CHARS};

/// What both ports report in the same way.
#[derive(Debug)]
pub(super) enum DecoderError {
    Unsupported { reason: String },
    Unreadable { reason: String },
    Unavailable { reason: String },
    Cancelled,
}

impl DecoderError {
    pub(super) fn unreadable(reason: impl Into<String>) -> Self {
        Self::Unreadable { reason: reason.into() }
    }

    /// The failure that a worker reported, with a reason that can be shown whatever it sent.
    pub(super) fn from_failure(Failure { kind, message }: Failure) -> Self {
        let printable = message.chars().map(|c| if c.is_control() { ' ' } else { c });
        let reason = printable.take(MAX_MESSAGE_CHARS).collect();
        match kind {
            FailureKind::Unsupported => Self::Unsupported { reason },
            FailureKind::Unreadable => Self::Unreadable { reason },
        }
    }
}

impl From<DecoderError> for DocumentError {
    fn from(error: DecoderError) -> Self {
        match error {
            DecoderError::Unsupported { reason } => Self::Unsupported { reason },
            DecoderError::Unreadable { reason } => Self::Unreadable { reason },
            DecoderError::Unavailable { reason } => Self::Unavailable { reason },
            DecoderError::Cancelled => Self::Cancelled,
        }
    }
}

impl From<DecoderError> for ImageError {
    fn from(error: DecoderError) -> Self {
        match error {
            DecoderError::Unsupported { reason } => Self::Unsupported { reason },
            DecoderError::Unreadable { reason } => Self::Unreadable { reason },
            DecoderError::Unavailable { reason } => Self::Unavailable { reason },
            DecoderError::Cancelled => Self::Cancelled,
        }
    }
}
