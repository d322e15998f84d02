//! Decodes the responses of the REST API and its errors.

use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use satchel_platform_http::{ApiResponse, PlatformError, redact_token};
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serenity::model::Timestamp;

/// The error of a call of the REST API.
pub(crate) type CallError = satchel_platform_http::CallError<ApiError>;

/// A decoded error response of Discord.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    /// Discord's own code, 0 for none (Opcodes and Status Codes, JSON).
    pub(crate) code: u64,
    pub(crate) message: String,
    /// The errors of the form's fields, as a tree that ends in `_errors`.
    pub(crate) errors: Value,
}

impl PlatformError for ApiError {
    const PLATFORM: &'static str = "Discord";
}

/// Decodes a response. An undecodable one says nothing about what was done: it may come from a proxy.
pub(super) fn decode<T: DeserializeOwned>(response: &ApiResponse, token: &SecretString) -> Result<T, CallError> {
    let ApiResponse { status, headers, body } = response;
    let status = *status;
    let invalid_response = |reason: &str| CallError::InvalidResponse { status, reason: reason.to_owned() };
    if (200..300).contains(&status) {
        let body: &[u8] = if body.is_empty() { b"null" } else { body };
        // The parser's error would repeat parts of the body, which people wrote.
        return serde_json::from_slice(body).map_err(|error| {
            invalid_response(if error.is_data() {
                "the response is not in Discord's format"
            } else {
                "the response is not JSON"
            })
        });
    }
    let error_body = serde_json::from_slice::<Value>(body).ok();
    let message = error_body.as_ref().and_then(|body| body.get("message")).and_then(Value::as_str);
    if status == 429 {
        let seconds = error_body.as_ref().and_then(|body| body.get("retry_after")).and_then(Value::as_f64);
        let seconds = seconds.and_then(parse_retry_after);
        let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()).and_then(|text| text.parse().ok());
        return Err(CallError::RateLimited {
            retry_after: seconds.or_else(|| header.and_then(parse_retry_after)),
            // Without Discord's body it comes from a proxy, which limits all calls.
            global: seconds.is_none()
                || error_body.as_ref().and_then(|body| body.get("global")) == Some(&Value::Bool(true)),
            reason: message.map_or_else(|| "too many requests".to_owned(), |message| redact_token(message, token)),
        });
    }
    let (Some(error_body), Some(message)) = (&error_body, message) else {
        return Err(invalid_response("an error response without a message"));
    };
    Err(CallError::Refused(ApiError {
        status,
        code: error_body.get("code").and_then(Value::as_u64).unwrap_or(0),
        message: redact_token(message, token),
        errors: error_body.get("errors").cloned().unwrap_or(Value::Null),
    }))
}

/// Parses the `Date` header, in milliseconds since 1970 (RFC 9110).
pub(super) fn parse_date(headers: &HeaderMap) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let fields: Vec<&str> = headers.get(DATE)?.to_str().ok()?.split(' ').collect();
    let [_, day, month, year, time, "GMT"] = fields[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let time = Timestamp::parse(&format!("{year}-{month:02}-{day}T{time}Z")).ok()?;
    u64::try_from(time.unix_timestamp()).ok().map(|seconds| seconds * 1_000)
}

/// Converts Discord's seconds to milliseconds, rounded up.
pub(super) fn parse_retry_after(seconds: f64) -> Option<Duration> {
    /// Longer than any delay of Discord's; larger numbers would overflow.
    const MAX_RETRY_AFTER_SECS: f64 = 86_400.0 * 30.0;
    let is_valid = seconds.is_finite() && seconds >= 0.0;
    let microseconds = is_valid.then(|| Duration::from_secs_f64(seconds.min(MAX_RETRY_AFTER_SECS)).as_micros())?;
    u64::try_from(microseconds.div_ceil(1_000)).ok().map(Duration::from_millis)
}
