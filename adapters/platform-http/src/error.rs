//! Why a request failed, and what that means for the part that it carried.

use std::{error::Error, time::Duration};

use satchel_domain::delivery::{Refusal, SendError};
use secrecy::{ExposeSecret, SecretString};

/// A refusal in a platform's own format.
pub trait PlatformError: Error {
    /// The platform's name, as people know it.
    const PLATFORM: &'static str;
}

/// Why a request failed. Never holds the token or a URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError<E: PlatformError> {
    /// No connection could be opened, so nothing was sent.
    #[error("cannot reach {}: {reason}", E::PLATFORM)]
    NotConnected { reason: String },
    /// The request may have been read, but no complete response arrived.
    #[error("{}'s response was lost: {reason}", E::PLATFORM)]
    Lost { reason: String },
    /// The response does not come from the platform's API.
    #[error("the server that answered with status {status} is not {}: {reason}", E::PLATFORM)]
    InvalidResponse { status: u16, reason: String },
    /// A file's bytes could not be read, so that the request can't have been complete.
    #[error("failed to read a file to upload: {reason}")]
    Unreadable { reason: String },
    /// The platform has rate-limited the request, or the local rate limiter refused to send it.
    #[error("{reason}")]
    RateLimited {
        /// How long to wait; `None` where the response doesn't say.
        retry_after: Option<Duration>,
        /// Whether the limit applies to all requests, and not only to those of this kind.
        global: bool,
        reason: String,
    },
    /// The platform refuses the bot's credentials, and nothing else of the request was looked at.
    #[error("{} {reason}", E::PLATFORM)]
    AccountRefused {
        /// Text that follows the platform's name.
        reason: String,
    },
    #[error("{0}")]
    Refused(E),
}

impl<E: PlatformError> CallError<E> {
    /// Maps an error of the HTTP client. Only a failure to connect, which includes DNS and the TLS handshake, proves
    /// that nothing was written.
    #[must_use]
    pub fn from_transport_error(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut deepest: &dyn Error = &error;
        while let Some(deeper) = deepest.source() {
            deepest = deeper;
        }
        let reason = deepest.to_string();
        if error.is_connect() || error.is_builder() { Self::NotConnected { reason } } else { Self::Lost { reason } }
    }

    /// Returns the outcome for the part that the request carried.
    ///
    /// # Errors
    /// A refusal, which only the platform's adapter can interpret.
    pub fn into_send_error(self) -> Result<SendError, E> {
        let reason = self.to_string();
        Ok(match self {
            Self::NotConnected { .. } => SendError::NotSent { retry_after_ms: None, reason },
            Self::RateLimited { retry_after, .. } => {
                let retry_after_ms = retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
                SendError::NotSent { retry_after_ms, reason }
            }
            Self::AccountRefused { .. } => SendError::AccountRefused { reason },
            Self::Unreadable { reason } => SendError::Unreadable { reason },
            // A 413 with any body means that the request was not read to its end: many servers are behind a proxy that
            // has a limit of its own.
            Self::InvalidResponse { status: 413, .. } => SendError::Refused {
                refusal: Refusal::TooLarge { limit: None },
                reason: "the request is too large for the server".to_owned(),
            },
            // A proxy that responds in the platform's place doesn't know what the platform did, whatever its status.
            Self::Lost { .. } | Self::InvalidResponse { .. } => SendError::InDoubt { reason },
            Self::Refused(refusal) => return Err(refusal),
        })
    }
}

/// Returns the text without the token, which a server that is not the platform's own may repeat.
#[must_use]
pub fn redact_token(text: &str, token: &SecretString) -> String {
    text.replace(token.expose_secret(), "<token>")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A refusal of a platform that exists in tests alone.
    #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
    #[error("no")]
    pub(crate) struct StubRefusal;

    impl PlatformError for StubRefusal {
        const PLATFORM: &'static str = "Stub";
    }

    #[test]
    fn failed_calls_map_to_send_errors() {
        let reason = || "why".to_owned();
        let limited = |retry_after| CallError::RateLimited { retry_after, global: false, reason: reason() };
        let not_sent = |retry_after_ms, reason: &str| SendError::NotSent { retry_after_ms, reason: reason.to_owned() };
        let in_doubt = |reason: &str| SendError::InDoubt { reason: reason.to_owned() };
        let too_large = SendError::Refused {
            refusal: Refusal::TooLarge { limit: None },
            reason: "the request is too large for the server".to_owned(),
        };
        for (error, expected) in [
            (CallError::NotConnected { reason: reason() }, Ok(not_sent(None, "cannot reach Stub: why"))),
            (CallError::Lost { reason: reason() }, Ok(in_doubt("Stub's response was lost: why"))),
            (
                CallError::InvalidResponse { status: 200, reason: reason() },
                Ok(in_doubt("the server that answered with status 200 is not Stub: why")),
            ),
            (
                CallError::InvalidResponse { status: 502, reason: reason() },
                Ok(in_doubt("the server that answered with status 502 is not Stub: why")),
            ),
            (CallError::InvalidResponse { status: 413, reason: reason() }, Ok(too_large)),
            (CallError::Unreadable { reason: reason() }, Ok(SendError::Unreadable { reason: reason() })),
            (
                CallError::AccountRefused { reason: reason() },
                Ok(SendError::AccountRefused { reason: "Stub why".to_owned() }),
            ),
            (limited(Some(Duration::from_millis(7_250))), Ok(not_sent(Some(7_250), "why"))),
            (limited(Some(Duration::MAX)), Ok(not_sent(Some(u64::MAX), "why"))),
            (limited(None), Ok(not_sent(None, "why"))),
            (CallError::Refused(StubRefusal), Err(StubRefusal)),
        ] {
            assert_eq!(error.clone().into_send_error(), expected, "{error:?}");
        }
    }

    #[test]
    fn token_is_redacted_from_texts() {
        assert_eq!(redact_token("/botSECRET/x SECRET", &"SECRET".into()), "/bot<token>/x <token>");
    }
}
