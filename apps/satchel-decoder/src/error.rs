//! Why a file could not be decoded, for the model.

use std::fmt::{self, Display};

use satchel_decoders::protocol::{Failure, FailureKind, MAX_MESSAGE_CHARS};

/// Why a file could not be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileDecodeError {
    /// It is no file that is decoded here.
    Unsupported(String),
    /// It needs a password.
    Protected,
    Damaged(String),
    /// A part of it is larger or deeper than allowed.
    TooLarge(String),
}

impl FileDecodeError {
    /// The error for what holds no text, such as "an archive".
    pub(crate) fn no_text(what: impl Display) -> Self {
        Self::Unsupported(format!("{what} can't be read as text"))
    }

    pub(crate) fn damaged(reason: impl Display) -> Self {
        Self::Damaged(reason.to_string())
    }

    /// The message to the host, without control characters and of bounded length.
    pub(crate) fn to_failure(&self) -> Failure {
        let kind = match self {
            Self::Unsupported(_) => FailureKind::Unsupported,
            Self::Protected | Self::Damaged(_) | Self::TooLarge(_) => FailureKind::Unreadable,
        };
        let message = self.to_string();
        let printable = message.chars().map(|c| if c.is_control() { ' ' } else { c });
        Failure { kind, message: printable.take(MAX_MESSAGE_CHARS).collect() }
    }
}

impl Display for FileDecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protected => f.write_str("it is protected with a password; ask for a copy without one"),
            Self::Damaged(reason) => write!(f, "it is damaged: {reason}"),
            Self::Unsupported(reason) | Self::TooLarge(reason) => f.write_str(reason),
        }
    }
}
