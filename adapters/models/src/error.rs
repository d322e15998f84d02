//! What goes wrong with a provider, in words that a person understands, and whether asking again may help.
//!
//! Providers say the same thing in many ways. A table of what they say decides, so that a new way is a new row. Neither
//! the key nor an address ever gets into the words.

use std::{fmt, time::Duration};

use genai::webc::{self, StreamTimeout};
use reqwest::{StatusCode, header::HeaderMap};
use satchel_domain::filename::is_unsafe_char;
use satchel_ports::ModelError;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::settings::ModelTarget;

/// How much of a provider's own words is shown, in characters.
const MAX_REASON_CHARS: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProviderErrorKind {
    /// The key is wrong.
    InvalidKey,
    /// The key is right, but not for this.
    NotAllowed,
    /// There is no such model.
    UnknownModel,
    /// Nothing at the address speaks as it should.
    NotFound,
    /// The server points to another address.
    Redirected,
    /// There is no credit, or the quota is used up.
    QuotaExceeded,
    RateLimited,
    /// The conversation is too long.
    TooLong,
    /// The files are too large.
    TooLarge,
    /// The provider's rules on content.
    ContentFiltered,
    /// The model can't use tools.
    NoTools,
    /// Too many requests of all customers.
    Overloaded,
    /// A fault of the server.
    Server,
    Unreachable,
    Timeout,
    /// The answer stopped coming.
    Stalled,
    /// The answer was cut.
    Truncated,
    /// The answer can't be read.
    InvalidResponse,
    /// The answer did not end.
    ResponseTooLong,
    /// The request was refused for another reason.
    Refused,
}

impl ProviderErrorKind {
    /// Whether asking again may help.
    fn is_passing(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Overloaded
                | Self::Server
                | Self::Unreachable
                | Self::Timeout
                | Self::Stalled
                | Self::Truncated
                | Self::InvalidResponse
        )
    }

    /// Whether it is worth asking again at once. A server that was waited for in vain has had its time.
    fn is_short(self) -> bool {
        self.is_passing() && !matches!(self, Self::Timeout | Self::Stalled)
    }
}

/// A failure, and what it means for the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderError {
    /// What the caller is told.
    pub(crate) error: ModelError,
    /// Whether another attempt is worth its time.
    pub(crate) again: bool,
    /// How long the server asks to wait.
    pub(crate) wait: Option<Duration>,
}

/// What providers say, in lower case, and what it means. The first that fits counts.
const ERROR_PATTERNS: &[(&[&str], ProviderErrorKind)] = &[
    (
        &[
            "context_length_exceeded",
            "prompt is too long",
            "maximum context length",
            "exceeds the maximum number of tokens",
            "exceed_context_size",
            "exceeds the available context size",
            "exceeds the context length",
            "exceeded max context length",
            "input is too long",
        ],
        ProviderErrorKind::TooLong,
    ),
    (
        &["request_too_large", "payload size exceeds", "image exceeds", "too large for this model"],
        ProviderErrorKind::TooLarge,
    ),
    (&["does not support tools", "does not support function calling"], ProviderErrorKind::NoTools),
    (
        &["content_policy", "content_filter", "content filtering policy", "blockreason", "content management policy"],
        ProviderErrorKind::ContentFiltered,
    ),
    (
        &["insufficient_quota", "credit balance", "billing_", "perday", "payment required"],
        ProviderErrorKind::QuotaExceeded,
    ),
    (&["invalid_api_key", "api_key_invalid", "authentication_error", "unauthenticated"], ProviderErrorKind::InvalidKey),
    (&["model_not_found", "is not found for api version"], ProviderErrorKind::UnknownModel),
    (&["rate_limit", "resource_exhausted", "too many requests"], ProviderErrorKind::RateLimited),
    (&["overloaded", "unavailable", "server busy"], ProviderErrorKind::Overloaded),
    (&["permission_error", "permission_denied"], ProviderErrorKind::NotAllowed),
    (&["server_error", "api_error", "internal", "runner process"], ProviderErrorKind::Server),
];

/// Tells what went wrong, for one model.
#[derive(Clone)]
pub(crate) struct ErrorMapper {
    who: &'static str,
    name: String,
    model: String,
    is_elsewhere: bool,
    key: Option<SecretString>,
}

impl fmt::Debug for ErrorMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").field("name", &self.name).field("model", &self.model).finish_non_exhaustive()
    }
}

impl ErrorMapper {
    pub(crate) fn new(target: &ModelTarget) -> Self {
        Self {
            who: target.who(),
            name: target.name.clone(),
            model: target.model.clone(),
            is_elsewhere: target.is_elsewhere,
            key: target.key.clone(),
        }
    }

    /// A failure of a kind that says all.
    pub(crate) fn failure(&self, kind: ProviderErrorKind) -> ProviderError {
        self.build(kind, None, "", None)
    }

    /// What the vendor's client ran into. `frame` is the last one of the stream.
    pub(crate) fn map_client_error(&self, error: &genai::Error, frame: &str) -> ProviderError {
        match error {
            genai::Error::HttpError { status, body, headers, .. } => self.map_status(*status, body, headers),
            genai::Error::WebStream { error, .. } => {
                if let Some(inner) = error.downcast_ref::<genai::Error>() {
                    return self.map_client_error(inner, frame);
                }
                match (error.downcast_ref::<StreamTimeout>(), error.downcast_ref::<reqwest::Error>()) {
                    (Some(StreamTimeout::Headers), _) => self.failure(ProviderErrorKind::Timeout),
                    (Some(StreamTimeout::Read), _) => self.failure(ProviderErrorKind::Stalled),
                    (None, Some(error)) => self.map_connection_error(error),
                    (None, None) => self.failure(ProviderErrorKind::InvalidResponse),
                }
            }
            genai::Error::WebModelCall { webc_error: webc::Error::Reqwest(error), .. } => {
                self.map_connection_error(error)
            }
            // The frame holds more than what the client made of it.
            genai::Error::ChatResponse { body, .. } => {
                self.map_frame(frame).unwrap_or_else(|| self.map_body(None, body, None))
            }
            genai::Error::StreamParse { .. } => {
                self.map_frame(frame).unwrap_or_else(|| self.failure(ProviderErrorKind::InvalidResponse))
            }
            _ => self.failure(ProviderErrorKind::InvalidResponse),
        }
    }

    /// What a frame of the stream tells of a failure, if it does.
    pub(crate) fn map_frame(&self, frame: &str) -> Option<ProviderError> {
        let frame = serde_json::from_str::<Value>(frame).ok()?;
        is_failure(&frame).then(|| self.map_body(None, &frame, None))
    }

    /// What the server answered instead of an answer.
    pub(crate) fn map_status(&self, status: StatusCode, body: &str, headers: &HeaderMap) -> ProviderError {
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(String::new()));
        let mut failure = self.map_body(Some(status), &body, retry_after(headers));
        failure.again &= headers.get("x-should-retry").is_none_or(|wish| wish != "false");
        failure
    }

    /// Why there is no connection, or no more of one.
    pub(crate) fn map_connection_error(&self, error: &reqwest::Error) -> ProviderError {
        match error {
            error if error.is_connect() => self.failure(ProviderErrorKind::Unreachable),
            error if error.is_timeout() => self.failure(ProviderErrorKind::Timeout),
            error if error.is_builder() => self.failure(ProviderErrorKind::Refused),
            _ => self.failure(ProviderErrorKind::Truncated),
        }
    }

    fn map_body(&self, status: Option<StatusCode>, body: &Value, wait: Option<Duration>) -> ProviderError {
        let mut said = String::new();
        collect_texts(body, 0, &mut said);
        let kind = kind(status.map_or(0, |status| status.as_u16()), &said.to_lowercase());
        self.build(kind, status, message(body), wait.or_else(|| retry_delay(body)))
    }

    fn build(
        &self,
        kind: ProviderErrorKind,
        status: Option<StatusCode>,
        message: &str,
        wait: Option<Duration>,
    ) -> ProviderError {
        let Self { who, model, .. } = self;
        let reason = match kind {
            ProviderErrorKind::InvalidKey if self.key.is_none() => format!("{who} requires an API key"),
            ProviderErrorKind::InvalidKey => format!("{who} does not accept the key"),
            ProviderErrorKind::NotAllowed => format!("this key has no access to the model {model} at {who}"),
            ProviderErrorKind::UnknownModel => format!("{who} has no model {model}"),
            ProviderErrorKind::NotFound => "the server at that address does not offer this API".to_owned(),
            ProviderErrorKind::Redirected => format!("{who} redirects to another address"),
            ProviderErrorKind::QuotaExceeded => {
                format!("the account at {who} has no credit left, or its quota is used up")
            }
            ProviderErrorKind::RateLimited => match wait {
                Some(wait) => format!("{who} has rate-limited your requests; try again in {}", human(wait)),
                None => format!("{who} has rate-limited your requests; try again in a minute"),
            },
            ProviderErrorKind::TooLong => {
                format!("this conversation is too long for {model}; start a new one with /new")
            }
            ProviderErrorKind::TooLarge => {
                format!("this turn's text and files are too large for {who}; send less at once")
            }
            ProviderErrorKind::ContentFiltered => format!("{who} blocked the answer under its content policy"),
            ProviderErrorKind::NoTools => format!("the model {model} can't use tools"),
            ProviderErrorKind::Overloaded => format!("{who} is overloaded; try again in a few minutes"),
            ProviderErrorKind::Server => format!("{who} returned a server error; try again in a few minutes"),
            ProviderErrorKind::Unreachable => format!("{who} can't be reached"),
            ProviderErrorKind::Timeout => format!("{who} did not start to answer in time"),
            ProviderErrorKind::Stalled => format!("{who} stopped sending in the middle of its answer; try again"),
            ProviderErrorKind::Truncated => "its answer was cut off in the middle".to_owned(),
            ProviderErrorKind::InvalidResponse => format!("{who} sent an answer that could not be understood"),
            ProviderErrorKind::ResponseTooLong => "its answer did not end".to_owned(),
            ProviderErrorKind::Refused => {
                let status = status.map(|status| format!(" ({})", status.as_u16())).unwrap_or_default();
                match self.redact(message) {
                    message if message.is_empty() => format!("{who} refused the request{status}"),
                    message => format!("{who} refused the request{status}: {message}"),
                }
            }
        };
        ProviderError {
            error: ModelError { reason, remedy: self.remedy(kind), retryable: kind.is_passing() },
            again: kind.is_short(),
            wait,
        }
    }

    /// What the owner can do about it.
    fn remedy(&self, kind: ProviderErrorKind) -> Option<String> {
        let Self { who, name, .. } = self;
        match kind {
            ProviderErrorKind::InvalidKey if self.key.is_none() => Some(format!("set models.{name}.api_key")),
            ProviderErrorKind::InvalidKey => Some(format!("check models.{name}.api_key")),
            ProviderErrorKind::UnknownModel => Some(format!("check models.{name}.model")),
            ProviderErrorKind::NotFound => Some(format!("check models.{name}.base_url")),
            ProviderErrorKind::Redirected => Some(format!("set models.{name}.base_url to that address")),
            ProviderErrorKind::QuotaExceeded => Some("check the account's billing page".to_owned()),
            ProviderErrorKind::NoTools => Some(format!("choose another model in models.{name}.model")),
            ProviderErrorKind::Unreachable if self.is_elsewhere => {
                Some(format!("check that the server runs, and models.{name}.base_url"))
            }
            ProviderErrorKind::Unreachable if *who == "Ollama" => Some("check that Ollama is running".to_owned()),
            ProviderErrorKind::Unreachable => Some("check the network".to_owned()),
            _ => None,
        }
    }

    /// A provider's own words without secrets, addresses and what can't be shown.
    fn redact(&self, message: &str) -> String {
        let key = self.key.as_ref().map(|key| key.expose_secret()).filter(|key| !key.is_empty());
        let message = key.map_or_else(|| message.to_owned(), |key| message.replace(key, "…"));
        // A key is also shown in part, such as `sk-ab…yz`: no word that could be one is repeated.
        let is_secret =
            |word: &str| word.contains("://") || word.contains("sk-") || word.contains('*') || word.len() > 60;
        let words = message.split_whitespace().map(|word| if is_secret(word) { "…" } else { word });
        let shown = words.collect::<Vec<_>>().join(" ");
        let shown: String = shown.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_REASON_CHARS).collect();
        shown.trim_end_matches(['.', ' ']).to_owned()
    }
}

/// What a status and a provider's words, in lower case, mean.
fn kind(status: u16, said: &str) -> ProviderErrorKind {
    // Gemini says the same of a minute's limit, which passes, and of a day's, which doesn't; only a passing one comes
    // with a time.
    if said.contains("resource_exhausted") && !said.contains("perday") && said.contains("retryinfo") {
        return ProviderErrorKind::RateLimited;
    }
    if status == 401 {
        return ProviderErrorKind::InvalidKey;
    }
    if status == 402 || (status == 429 && said.contains("check your plan and billing")) {
        return ProviderErrorKind::QuotaExceeded;
    }
    if status == 404 && said.contains("model") {
        return ProviderErrorKind::UnknownModel;
    }
    // Of a request that was refused for good, such words mean something else: "unavailable in your region".
    let for_good = (400..429).contains(&status);
    let fits = |(sayings, kind): &&(&[&str], ProviderErrorKind)| {
        let passing = matches!(kind, ProviderErrorKind::Overloaded | ProviderErrorKind::Server);
        !(for_good && passing) && sayings.iter().any(|saying| said.contains(saying))
    };
    if let Some((_, kind)) = ERROR_PATTERNS.iter().find(fits) {
        return *kind;
    }
    match status {
        300..=399 => ProviderErrorKind::Redirected,
        403 => ProviderErrorKind::NotAllowed,
        404 | 405 => ProviderErrorKind::NotFound,
        413 => ProviderErrorKind::TooLarge,
        408 | 409 | 500..=502 | 504..=528 | 530..=599 => ProviderErrorKind::Server,
        429 => ProviderErrorKind::RateLimited,
        503 | 529 => ProviderErrorKind::Overloaded,
        _ => ProviderErrorKind::Refused,
    }
}

/// Whether a frame tells of a failure.
fn is_failure(frame: &Value) -> bool {
    let error = frame.get("error").or_else(|| frame.pointer("/response/error"));
    error.is_some_and(|error| !error.is_null())
        || frame.get("promptFeedback").is_some()
        || frame.get("type").is_some_and(|kind| kind == "error")
}

/// All keys and short texts of a body; what matters stands in another place with each provider.
fn collect_texts(body: &Value, depth: usize, into: &mut String) {
    if depth > 6 || into.len() > MAX_MESSAGE_BYTES {
        return;
    }
    match body {
        Value::String(text) => {
            into.push_str(&text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)]);
            into.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, depth + 1, into)),
        Value::Object(fields) => {
            for (key, value) in fields {
                into.push_str(key);
                into.push('\n');
                collect_texts(value, depth + 1, into);
            }
        }
        _ => {}
    }
}

/// How much of a body is looked at.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// The provider's own words.
fn message(body: &Value) -> &str {
    let places = ["/error/message", "/response/error/message", "/0/error/message", "/message", "/error"];
    places.iter().find_map(|place| body.pointer(place)?.as_str()).unwrap_or_default()
}

/// The wait that Gemini names in the body.
fn retry_delay(body: &Value) -> Option<Duration> {
    let body = body.get(0).unwrap_or(body);
    let details = body.pointer("/error/details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    seconds(delay.trim_end_matches('s'))
}

/// The wait that the server names in its headers.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let header = |name| headers.get(name)?.to_str().ok();
    let milliseconds = header("retry-after-ms").and_then(seconds).map(|wait| wait / 1000);
    milliseconds.or_else(|| header("retry-after").and_then(seconds))
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

/// A wait as a person says it.
fn human(wait: Duration) -> String {
    let seconds = wait.as_secs_f64().ceil() as u64;
    match seconds {
        0..=1 => "a second".to_owned(),
        2..=119 => format!("{seconds} seconds"),
        120..=7199 => format!("{} minutes", seconds.div_ceil(60)),
        _ => format!("{} hours", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests;
