//! A request to the REST API, the route by which Discord limits its rate, and how its response or error is decoded.

use std::{fmt, time::Duration};

use reqwest::{
    Method,
    header::{DATE, HeaderMap, RETRY_AFTER},
};
use satchel_platform_http::{ApiResponse, PlatformError, redact_token};
use secrecy::SecretString;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use serenity::model::Timestamp;

/// The resources whose ids each have their own rate limit (Rate Limits, "top-level resources").
const MAJOR_PARAMETERS: [&str; 4] = ["channels", "guilds", "webhooks", "interactions"];

/// A request, ready to be sent.
#[derive(Clone)]
pub(crate) struct ApiRequest {
    method: Method,
    path: String,
    body: Option<Vec<u8>>,
    is_low_priority: bool,
}

/// The route by which Discord limits a request's rate, as far as the path shows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RateLimitRoute {
    /// The method and the path without ids.
    pub(crate) template: String,
    /// The major parameters, which have their own rate limits.
    pub(crate) major: String,
}

impl ApiRequest {
    /// Creates a `GET` of a path, which starts with a slash and may have a query.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path.into(), None)
    }

    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::POST, path.into(), Some(to_json(body)))
    }

    pub(crate) fn patch(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::PATCH, path.into(), Some(to_json(body)))
    }

    pub(crate) fn put(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self::new(Method::PUT, path.into(), Some(to_json(body)))
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path.into(), None)
    }

    /// Gives the request a low priority, so that others go first for a while.
    pub(crate) fn low_priority(self) -> Self {
        Self { is_low_priority: true, ..self }
    }

    fn new(method: Method, path: String, body: Option<Vec<u8>>) -> Self {
        Self { method, path, body, is_low_priority: false }
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn body(&self) -> Option<Vec<u8>> {
        self.body.clone()
    }

    pub(super) fn is_low_priority(&self) -> bool {
        self.is_low_priority
    }

    /// Whether the bot's global limit doesn't apply (Rate Limits, "interaction endpoints are not bound to the bot's
    /// Global Rate Limit").
    pub(super) fn is_interaction(&self) -> bool {
        self.path.starts_with("/interactions/") || self.path.starts_with("/webhooks/")
    }

    /// Returns the route by which Discord limits its rate.
    pub(crate) fn route(&self) -> RateLimitRoute {
        let path = self.path.split('?').next().unwrap_or_default();
        let (mut template, mut major, mut previous) = (self.method.to_string(), String::new(), "");
        template.push(' ');
        for (index, segment) in path.split('/').filter(|segment| !segment.is_empty()).enumerate() {
            // The token of a webhook or an interaction follows its id and belongs to it.
            let is_token =
                index == 2 && ["webhooks", "interactions"].iter().any(|prefix| path[1..].starts_with(prefix));
            let is_id = is_token || (!segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_digit()));
            if is_token || (is_id && index == 1 && MAJOR_PARAMETERS.contains(&previous)) {
                major.push('/');
                major.push_str(segment);
            }
            template.push('/');
            template.push_str(if is_id { "{}" } else { segment });
            previous = segment;
        }
        RateLimitRoute { template, major }
    }
}

/// Omits the path, which may contain an interaction's token, and the body, which people wrote.
impl fmt::Debug for ApiRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApiRequest").field(&self.route().template).finish()
    }
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("texts, numbers and lists are JSON")
}

/// Why Discord refuses a token, as text that follows its name.
pub(crate) const REVOKED_TEXT: &str = "no longer accepts the bot's token";

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

/// Returns the error of a call with the bot's token, which Discord refuses with this status (Opcodes and Status Codes, HTTP:
/// "The Authorization header was missing or invalid").
pub(crate) fn refuse_account(error: CallError) -> CallError {
    match error {
        CallError::Refused(ApiError { status: 401, .. }) => {
            CallError::AccountRefused { reason: REVOKED_TEXT.to_owned() }
        }
        error => error,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_template_and_major_parameter() {
        for (call, template, major) in [
            (ApiRequest::get("/users/@me"), "GET /users/@me", ""),
            (ApiRequest::get("/channels/1/messages?limit=100&after=7"), "GET /channels/{}/messages", "/1"),
            (ApiRequest::post("/channels/1/messages", &()), "POST /channels/{}/messages", "/1"),
            (ApiRequest::patch("/channels/1/messages/2", &()), "PATCH /channels/{}/messages/{}", "/1"),
            (ApiRequest::delete("/channels/2/messages/2"), "DELETE /channels/{}/messages/{}", "/2"),
            (ApiRequest::put("/applications/9/commands", &()), "PUT /applications/{}/commands", ""),
            (ApiRequest::post("/interactions/5/aB-c/callback", &()), "POST /interactions/{}/{}/callback", "/5/aB-c"),
        ] {
            let route = call.route();
            assert_eq!((route.template.as_str(), route.major.as_str()), (template, major));
        }
    }

    #[test]
    fn debug_hides_path_tokens_and_body() {
        let shown = format!("{:?}", ApiRequest::post("/interactions/5/secret-token/callback", &"what a person wrote"));
        assert_eq!(shown, "ApiRequest(\"POST /interactions/{}/{}/callback\")");
    }
}
