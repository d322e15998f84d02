//! Why a file could not be decoded, whatever was to be made of it.

use std::time::Duration;

use satchel_ports::{AudioError, DocumentError, ImageError, MediaError};

use crate::protocol::{Failure, FailureKind, MAX_MESSAGE_CHARS};

/// What the ports report in the same way.
#[derive(Debug)]
pub(super) enum DecoderError {
    Unsupported {
        reason: String,
    },
    Unreadable {
        reason: String,
    },
    Unavailable {
        reason: String,
    },
    /// No worker is free in time, or there is none yet.
    Busy {
        reason: String,
    },
    /// The file's own bytes can't be had.
    Lost {
        reason: String,
    },
    Cancelled,
}

impl DecoderError {
    pub(super) fn unreadable(reason: impl Into<String>) -> Self {
        Self::Unreadable { reason: reason.into() }
    }

    /// The error for a file that took longer than it may, while the worker was doing this.
    pub(super) fn too_slow(activity: &str, time_limit: Duration) -> Self {
        Self::unreadable(format!("{activity} it took longer than {} s", time_limit.as_secs_f32()))
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
            DecoderError::Unreadable { reason } | DecoderError::Lost { reason } => Self::Unreadable { reason },
            DecoderError::Unavailable { reason } | DecoderError::Busy { reason } => Self::Unavailable { reason },
            DecoderError::Cancelled => Self::Cancelled,
        }
    }
}

impl From<DecoderError> for ImageError {
    fn from(error: DecoderError) -> Self {
        match error {
            DecoderError::Unsupported { reason } => Self::Unsupported { reason },
            DecoderError::Unreadable { reason } | DecoderError::Lost { reason } => Self::Unreadable { reason },
            DecoderError::Unavailable { reason } | DecoderError::Busy { reason } => Self::Unavailable { reason },
            DecoderError::Cancelled => Self::Cancelled,
        }
    }
}

impl From<DecoderError> for AudioError {
    fn from(error: DecoderError) -> Self {
        match error {
            DecoderError::Unsupported { reason } => Self::Unsupported { reason },
            DecoderError::Unreadable { reason } => Self::Unreadable { reason },
            DecoderError::Unavailable { reason } => Self::Unavailable { reason },
            DecoderError::Busy { reason } | DecoderError::Lost { reason } => Self::Interrupted { reason },
            // Never made for sound, which is stopped by dropping it.
            DecoderError::Cancelled => Self::Interrupted { reason: "decoding was cancelled".to_owned() },
        }
    }
}

impl From<DecoderError> for MediaError {
    fn from(error: DecoderError) -> Self {
        match error {
            DecoderError::Unsupported { reason }
            | DecoderError::Unreadable { reason }
            | DecoderError::Unavailable { reason }
            | DecoderError::Busy { reason }
            | DecoderError::Lost { reason } => Self { reason },
            DecoderError::Cancelled => Self { reason: "measuring was cancelled".to_owned() },
        }
    }
}
