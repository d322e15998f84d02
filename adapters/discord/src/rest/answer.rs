//! What came back from a call, or why nothing did.

use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serenity::model::Timestamp;

/// An answer as it came.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Why a call has no result. Never holds the token or an address.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum CallError {
    /// There was no connection to write the request to.
    #[error("cannot reach Discord: {reason}")]
    NotSent { reason: String },
    /// Discord takes no more of these calls for now, or it is known that it wouldn't.
    #[error("{reason}")]
    RateLimited {
        /// How long not; unknown where whoever stands before Discord says it.
        retry_after: Option<Duration>,
        /// Whether all calls are meant, and not only those of this kind. Whoever doesn't say how long in Discord's
        /// words stands before it, and knows no kinds.
        global: bool,
        /// The words for it.
        reason: String,
    },
    /// The request may have been read, and no answer came.
    #[error("Discord's response was lost: {reason}")]
    Lost { reason: String },
    /// What came back is no answer of the REST API.
    #[error("the server that answered with status {status} is not Discord: {reason}")]
    NotAnAnswer {
        /// The status of whatever answered.
        status: u16,
        /// What is wrong with it.
        reason: String,
    },
    /// Discord said no.
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
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message} ({code})")]
pub(crate) struct Refused {
    /// The status of HTTP.
    pub(crate) status: u16,
    /// Discord's own code, 0 for none (Opcodes and Status Codes, JSON).
    pub(crate) code: u64,
    pub(crate) message: String,
    /// What is wrong with which field, as a tree that ends in `_errors`.
    pub(crate) errors: Value,
}

/// Reads an answer. What can't be read says nothing about what was done: a proxy that answers in Discord's place
/// doesn't know it either.
pub(super) fn decode<T: DeserializeOwned>(answered: &Answered, token: &SecretString) -> Result<T, CallError> {
    let Answered { status, headers, body } = answered;
    let status = *status;
    let not_an_answer = |reason: &str| CallError::NotAnAnswer { status, reason: reason.to_owned() };
    if (200..300).contains(&status) {
        let body: &[u8] = if body.is_empty() { b"null" } else { body };
        // The parser's words would repeat pieces of the body, which people have written.
        return serde_json::from_slice(body).map_err(|error| {
            not_an_answer(if error.is_data() { "the answer has another form than Discord's" } else { "it is no JSON" })
        });
    }
    let said = serde_json::from_slice::<Value>(body).ok();
    let message = said.as_ref().and_then(|said| said.get("message")).and_then(Value::as_str);
    if status == 429 {
        let seconds = said.as_ref().and_then(|said| said.get("retry_after")).and_then(Value::as_f64);
        let seconds = seconds.and_then(wait);
        let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
        return Err(CallError::RateLimited {
            retry_after: seconds.or_else(|| header.and_then(wait)),
            global: seconds.is_none() || said.as_ref().and_then(|said| said.get("global")) == Some(&Value::Bool(true)),
            reason: message.map_or_else(|| "too many requests".to_owned(), |words| plain(words, token)),
        });
    }
    let (Some(said), Some(message)) = (&said, message) else {
        return Err(not_an_answer("an error without Discord's words"));
    };
    Err(CallError::Refused(Refused {
        status,
        code: said.get("code").and_then(Value::as_u64).unwrap_or(0),
        message: plain(message, token),
        errors: said.get("errors").cloned().unwrap_or(Value::Null),
    }))
}

/// The second in which an answer was made, in milliseconds since 1970, by the clock of whoever made it (RFC 9110, Date).
pub(super) fn dated(headers: &HeaderMap) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = headers.get(DATE)?.to_str().ok()?.split(' ').collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let time = Timestamp::parse(&format!("{year}-{month:02}-{day}T{time}Z")).ok()?;
    u64::try_from(time.unix_timestamp()).ok().map(|seconds| seconds * 1_000)
}

/// Seconds as Discord writes them, in whole milliseconds, never less than meant.
pub(super) fn wait(seconds: f64) -> Option<Duration> {
    /// No wait that Discord means is as long; a larger number would be no time at all.
    const LONGEST: f64 = 86_400.0 * 30.0;
    let sane = seconds.is_finite() && seconds >= 0.0;
    let microseconds = sane.then(|| Duration::from_secs_f64(seconds.min(LONGEST)).as_micros())?;
    u64::try_from(microseconds.div_ceil(1_000)).ok().map(Duration::from_millis)
}

/// The words without the token, which a server of one's own may repeat.
fn plain(words: &str, token: &SecretString) -> String {
    words.replace(token.expose_secret(), "<token>")
}

impl CallError {
    /// What a client's error says about the request. Only a failure to connect, which includes finding the address and
    /// agreeing on encryption, says that nothing was written.
    pub(super) fn unanswered(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut deepest: &dyn std::error::Error = &error;
        while let Some(deeper) = deepest.source() {
            deepest = deeper;
        }
        let reason = deepest.to_string();
        if error.is_connect() || error.is_builder() { Self::NotSent { reason } } else { Self::Lost { reason } }
    }
}
