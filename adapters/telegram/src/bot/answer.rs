//! What came back from a call, or why nothing did.

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// Why a call has no result. Never holds the token or an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// There was no connection to write the request to.
    #[error("cannot reach Telegram: {reason}")]
    NotConnected { reason: String },
    /// The request may have been read, and no answer came.
    #[error("Telegram's response was lost: {reason}")]
    Lost { reason: String },
    /// What came back is no answer of the Bot API.
    #[error("the server that answered with status {status} is not Telegram: {reason}")]
    NotAnAnswer {
        /// The status of whatever answered.
        status: u16,
        /// What is wrong with it.
        reason: String,
    },
    /// The server said no.
    #[error("{0}")]
    Refused(Refused),
    /// A file's bytes could not be read, so that the request can't have been complete.
    #[error("failed to read a file to upload: {reason}")]
    Unreadable {
        /// Why not.
        reason: String,
    },
}

/// A readable no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{description}")]
pub(crate) struct Refused {
    /// The error code, which is the status of HTTP too.
    pub(crate) code: u16,
    /// The server's words, such as `Bad Request: chat not found`.
    pub(crate) description: String,
    /// For how many seconds nothing more is taken.
    pub(crate) retry_after: Option<u64>,
    /// The supergroup that the chat has become.
    pub(crate) migrated_to: Option<i64>,
}

#[derive(Deserialize)]
struct Answer<T> {
    ok: bool,
    #[serde(default = "Option::default")]
    result: Option<T>,
    #[serde(default)]
    error_code: Option<u16>,
    #[serde(default)]
    description: Option<String>,
    /// Read by hand, so that nothing new in it can make the answer unreadable.
    #[serde(default)]
    parameters: Value,
}

/// Reads an answer, whatever its status. What can't be read says nothing about what was done: a proxy that answers in
/// the server's place doesn't know it either.
pub(crate) fn decode<T: DeserializeOwned>(status: u16, body: &[u8], token: &SecretString) -> Result<T, CallError> {
    let unreadable = |reason: &str| CallError::NotAnAnswer { status, reason: reason.to_owned() };
    match serde_json::from_slice::<Answer<T>>(body) {
        Ok(Answer { ok: true, result: Some(result), .. }) => Ok(result),
        Ok(Answer { ok: false, error_code, description: Some(description), parameters, .. }) => {
            Err(CallError::Refused(Refused {
                code: error_code.unwrap_or(status),
                // A server of one's own may repeat the path that it was asked for.
                description: description.replace(token.expose_secret(), "<token>"),
                retry_after: parameters.get("retry_after").and_then(Value::as_u64),
                migrated_to: parameters.get("migrate_to_chat_id").and_then(Value::as_i64),
            }))
        }
        Ok(_) => Err(unreadable("it says neither yes nor no")),
        // The parser's words would repeat pieces of the body, which people have written.
        Err(error) if error.is_data() => Err(unreadable("the answer has another form than the Bot API's")),
        Err(_) => Err(unreadable("the answer is no JSON")),
    }
}

impl CallError {
    /// What a client's error says about the request. Only a failure to connect, which includes finding the address and
    /// agreeing on encryption, says that nothing was written.
    pub(crate) fn unanswered(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut deepest: &dyn std::error::Error = &error;
        while let Some(deeper) = deepest.source() {
            deepest = deeper;
        }
        let reason = deepest.to_string();
        if error.is_connect() || error.is_builder() { Self::NotConnected { reason } } else { Self::Lost { reason } }
    }
}
