//! Decodes responses of the Bot API.

use std::time::Duration;

use satchel_platform_http::{ApiResponse, PlatformError, redact_token};
use secrecy::SecretString;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// Why a Bot API request failed.
pub(crate) type CallError = satchel_platform_http::CallError<ApiError>;

/// Why Telegram refuses a token, as text that follows its name: one that was revoked, and one that was never issued.
const REVOKED_TEXT: &str = "no longer accepts the bot's token";
pub(super) const UNKNOWN_TEXT: &str = "doesn't accept the bot's token";

/// An error response of the Bot API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{description}")]
pub(crate) struct ApiError {
    /// The error code, which is also the HTTP status.
    pub(crate) code: u16,
    /// The server's description, such as `Bad Request: chat not found`.
    pub(crate) description: String,
    /// The supergroup that the chat was migrated to.
    pub(crate) migrated_to: Option<i64>,
    /// How long to wait before a retry, which a restarting server may request.
    pub(crate) retry_after: Option<Duration>,
}

impl PlatformError for ApiError {
    const PLATFORM: &'static str = "Telegram";
}

impl ApiError {
    /// Returns the error of the call.
    pub(crate) fn into_call_error(self) -> CallError {
        match self.code {
            // The code with which every request fails whose token was revoked.
            401 => CallError::AccountRefused { reason: REVOKED_TEXT.to_owned() },
            _ => CallError::Refused(self),
        }
    }

    /// Whether the server, which knows the token, doesn't have the method: it is of an older Bot API.
    pub(crate) fn is_unknown_method(&self) -> bool {
        self.code == 404
    }

    /// Whether the request's path is unknown: that of a token that was never issued, or of a method that the server doesn't
    /// have.
    pub(super) fn is_unknown_path(&self) -> bool {
        self.code == 404 && self.description.eq_ignore_ascii_case("not found")
    }
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
    /// Decoded by hand, so that nothing new in it can make the response undecodable.
    #[serde(default)]
    parameters: Value,
}

/// Decodes a response, whatever its status. An undecodable one says nothing about whether the request was performed: it
/// may come from a proxy in front of the server.
pub(super) fn decode<T: DeserializeOwned>(response: &ApiResponse, token: &SecretString) -> Result<T, CallError> {
    let ApiResponse { status, body, .. } = response;
    let invalid_response = |reason: &str| CallError::InvalidResponse { status: *status, reason: reason.to_owned() };
    match serde_json::from_slice::<ResponseBody<T>>(body) {
        Ok(ResponseBody { ok: true, result: Some(result), .. }) => Ok(result),
        Ok(ResponseBody { ok: false, error_code, description: Some(description), parameters, .. }) => {
            // A self-hosted server may repeat the request's path.
            let description = redact_token(&description, token);
            let migrated_to = parameters.get("migrate_to_chat_id").and_then(Value::as_i64);
            let retry_after = parameters.get("retry_after").and_then(Value::as_u64).map(Duration::from_secs);
            Err(match (error_code.unwrap_or(*status), migrated_to) {
                // Telegram doesn't say whether the limit applies to the bot or to the chat.
                (429, None) => CallError::RateLimited { retry_after, global: false, reason: description },
                (code, migrated_to) => ApiError { code, description, migrated_to, retry_after }.into_call_error(),
            })
        }
        Ok(_) => Err(invalid_response("the response has neither a result nor an error")),
        // The parser's error text would repeat parts of the body, which people have written.
        Err(error) if error.is_data() => Err(invalid_response("the response is not in the Bot API's format")),
        Err(_) => Err(invalid_response("the response is not JSON")),
    }
}
