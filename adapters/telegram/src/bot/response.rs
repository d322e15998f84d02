//! What the Bot API answers to a call, and its refusals.

use std::time::Duration;

use satchel_platform_http::{ApiResponse, PlatformError, redact_token};
use secrecy::SecretString;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// Why a call of the Bot API has no result.
pub(crate) type CallError = satchel_platform_http::CallError<ApiError>;

/// A readable no of the Bot API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{description}")]
pub(crate) struct ApiError {
    /// The error code, which is the status of HTTP too.
    pub(crate) code: u16,
    /// The server's words, such as `Bad Request: chat not found`.
    pub(crate) description: String,
    /// The supergroup that the chat has become.
    pub(crate) migrated_to: Option<i64>,
    /// How long the server wants to be left alone, as one that restarts may.
    pub(crate) retry_after: Option<Duration>,
}

impl PlatformError for ApiError {
    const PLATFORM: &'static str = "Telegram";
}

#[derive(Deserialize)]
struct ResponseBody<T> {
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
pub(super) fn decode<T: DeserializeOwned>(response: &ApiResponse, token: &SecretString) -> Result<T, CallError> {
    let ApiResponse { status, body, .. } = response;
    let unreadable = |reason: &str| CallError::NotAnAnswer { status: *status, reason: reason.to_owned() };
    match serde_json::from_slice::<ResponseBody<T>>(body) {
        Ok(ResponseBody { ok: true, result: Some(result), .. }) => Ok(result),
        Ok(ResponseBody { ok: false, error_code, description: Some(description), parameters, .. }) => {
            // A server of one's own may repeat the path that it was asked for.
            let description = redact_token(&description, token);
            let migrated_to = parameters.get("migrate_to_chat_id").and_then(Value::as_i64);
            let retry_after = parameters.get("retry_after").and_then(Value::as_u64).map(Duration::from_secs);
            Err(match (error_code.unwrap_or(*status), migrated_to) {
                // Whom the limit means, the bot or the chat, it doesn't say.
                (429, None) => CallError::RateLimited { retry_after, global: false, reason: description },
                (code, migrated_to) => CallError::Refused(ApiError { code, description, migrated_to, retry_after }),
            })
        }
        Ok(_) => Err(unreadable("it says neither yes nor no")),
        // The parser's words would repeat pieces of the body, which people have written.
        Err(error) if error.is_data() => Err(unreadable("the answer has another form than the Bot API's")),
        Err(_) => Err(unreadable("the answer is no JSON")),
    }
}
