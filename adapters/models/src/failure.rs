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

use crate::settings::Target;

/// How much of a provider's own words is shown, in characters.
const SHOWN: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The key is wrong.
    Key,
    /// The key is right, but not for this.
    NotAllowed,
    /// There is no such model.
    UnknownModel,
    /// Nothing at the address speaks as it should.
    NoSuchPlace,
    /// The server points to another address.
    Moved,
    /// There is no credit, or the quota is used up.
    Quota,
    Rate,
    /// The conversation is too long.
    TooLong,
    /// The files are too large.
    TooLarge,
    /// The provider's rules on content.
    Withheld,
    /// The model can't use tools.
    NoTools,
    /// Too many requests of all customers.
    Overloaded,
    /// A fault of the server.
    Server,
    Unreachable,
    Slow,
    /// The answer stopped coming.
    Silent,
    /// The answer was cut.
    BrokenOff,
    /// The answer can't be read.
    Garbage,
    /// The answer did not end.
    Endless,
    /// The request was refused for another reason.
    Refused,
}

impl Kind {
    /// Whether asking again may help.
    fn is_passing(self) -> bool {
        matches!(
            self,
            Self::Rate
                | Self::Overloaded
                | Self::Server
                | Self::Unreachable
                | Self::Slow
                | Self::Silent
                | Self::BrokenOff
                | Self::Garbage
        )
    }

    /// Whether it is worth asking again at once. A server that was waited for in vain has had its time.
    fn is_short(self) -> bool {
        self.is_passing() && !matches!(self, Self::Slow | Self::Silent)
    }
}

/// A failure, and what it means for the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What the caller is told.
    pub(crate) error: ModelError,
    /// Whether another attempt is worth its time.
    pub(crate) again: bool,
    /// How long the server asks to wait.
    pub(crate) wait: Option<Duration>,
}

/// What providers say, in lower case, and what it means. The first that fits counts.
const SAYINGS: &[(&[&str], Kind)] = &[
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
        Kind::TooLong,
    ),
    (&["request_too_large", "payload size exceeds", "image exceeds", "too large for this model"], Kind::TooLarge),
    (&["does not support tools", "does not support function calling"], Kind::NoTools),
    (
        &["content_policy", "content_filter", "content filtering policy", "blockreason", "content management policy"],
        Kind::Withheld,
    ),
    (&["insufficient_quota", "credit balance", "billing_", "perday", "payment required"], Kind::Quota),
    (&["invalid_api_key", "api_key_invalid", "authentication_error", "unauthenticated"], Kind::Key),
    (&["model_not_found", "is not found for api version"], Kind::UnknownModel),
    (&["rate_limit", "resource_exhausted", "too many requests"], Kind::Rate),
    (&["overloaded", "unavailable", "server busy"], Kind::Overloaded),
    (&["permission_error", "permission_denied"], Kind::NotAllowed),
    (&["server_error", "api_error", "internal", "runner process"], Kind::Server),
];

/// Tells what went wrong, for one model.
#[derive(Clone)]
pub(crate) struct Teller {
    who: &'static str,
    name: String,
    model: String,
    is_elsewhere: bool,
    key: Option<SecretString>,
}

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").field("name", &self.name).field("model", &self.model).finish_non_exhaustive()
    }
}

impl Teller {
    pub(crate) fn new(target: &Target) -> Self {
        Self {
            who: target.who(),
            name: target.name.clone(),
            model: target.model.clone(),
            is_elsewhere: target.is_elsewhere,
            key: target.key.clone(),
        }
    }

    /// A failure of a kind that says all.
    pub(crate) fn failure(&self, kind: Kind) -> Failure {
        self.told(kind, None, "", None)
    }

    /// What the vendor's client ran into. `frame` is the last one of the stream.
    pub(crate) fn of(&self, error: &genai::Error, frame: &str) -> Failure {
        match error {
            genai::Error::HttpError { status, body, headers, .. } => self.of_status(*status, body, headers),
            genai::Error::WebStream { error, .. } => {
                if let Some(inner) = error.downcast_ref::<genai::Error>() {
                    return self.of(inner, frame);
                }
                match (error.downcast_ref::<StreamTimeout>(), error.downcast_ref::<reqwest::Error>()) {
                    (Some(StreamTimeout::Headers), _) => self.failure(Kind::Slow),
                    (Some(StreamTimeout::Read), _) => self.failure(Kind::Silent),
                    (None, Some(error)) => self.of_connection(error),
                    (None, None) => self.failure(Kind::Garbage),
                }
            }
            genai::Error::WebModelCall { webc_error: webc::Error::Reqwest(error), .. } => self.of_connection(error),
            // The frame holds more than what the client made of it.
            genai::Error::ChatResponse { body, .. } => {
                self.of_frame(frame).unwrap_or_else(|| self.of_body(None, body, None))
            }
            genai::Error::StreamParse { .. } => self.of_frame(frame).unwrap_or_else(|| self.failure(Kind::Garbage)),
            _ => self.failure(Kind::Garbage),
        }
    }

    /// What a frame of the stream tells of a failure, if it does.
    pub(crate) fn of_frame(&self, frame: &str) -> Option<Failure> {
        let frame = serde_json::from_str::<Value>(frame).ok()?;
        is_failure(&frame).then(|| self.of_body(None, &frame, None))
    }

    /// What the server answered instead of an answer.
    pub(crate) fn of_status(&self, status: StatusCode, body: &str, headers: &HeaderMap) -> Failure {
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(String::new()));
        let mut failure = self.of_body(Some(status), &body, retry_after(headers));
        failure.again &= headers.get("x-should-retry").is_none_or(|wish| wish != "false");
        failure
    }

    /// Why there is no connection, or no more of one.
    pub(crate) fn of_connection(&self, error: &reqwest::Error) -> Failure {
        match error {
            error if error.is_connect() => self.failure(Kind::Unreachable),
            error if error.is_timeout() => self.failure(Kind::Slow),
            error if error.is_builder() => self.failure(Kind::Refused),
            _ => self.failure(Kind::BrokenOff),
        }
    }

    fn of_body(&self, status: Option<StatusCode>, body: &Value, wait: Option<Duration>) -> Failure {
        let mut said = String::new();
        gather(body, 0, &mut said);
        let kind = kind(status.map_or(0, |status| status.as_u16()), &said.to_lowercase());
        self.told(kind, status, message(body), wait.or_else(|| retry_delay(body)))
    }

    fn told(&self, kind: Kind, status: Option<StatusCode>, message: &str, wait: Option<Duration>) -> Failure {
        let Self { who, model, .. } = self;
        let reason = match kind {
            Kind::Key if self.key.is_none() => format!("{who} requires an API key"),
            Kind::Key => format!("{who} does not accept the key"),
            Kind::NotAllowed => format!("this key has no access to the model {model} at {who}"),
            Kind::UnknownModel => format!("{who} has no model {model}"),
            Kind::NoSuchPlace => "the server at that address does not offer this API".to_owned(),
            Kind::Moved => format!("{who} redirects to another address"),
            Kind::Quota => {
                format!("the account at {who} has no credit left, or its quota is used up")
            }
            Kind::Rate => match wait {
                Some(wait) => format!("{who} has rate-limited your requests; try again in {}", human(wait)),
                None => format!("{who} has rate-limited your requests; try again in a minute"),
            },
            Kind::TooLong => {
                format!("this conversation is too long for {model}; start a new one with /new")
            }
            Kind::TooLarge => format!("this turn's text and files are too large for {who}; send less at once"),
            Kind::Withheld => format!("{who} blocked the answer under its content policy"),
            Kind::NoTools => format!("the model {model} can't use tools"),
            Kind::Overloaded => format!("{who} is overloaded; try again in a few minutes"),
            Kind::Server => format!("{who} returned a server error; try again in a few minutes"),
            Kind::Unreachable => format!("{who} can't be reached"),
            Kind::Slow => format!("{who} did not start to answer in time"),
            Kind::Silent => format!("{who} stopped sending in the middle of its answer; try again"),
            Kind::BrokenOff => "its answer was cut off in the middle".to_owned(),
            Kind::Garbage => format!("{who} sent an answer that could not be understood"),
            Kind::Endless => "its answer did not end".to_owned(),
            Kind::Refused => {
                let status = status.map(|status| format!(" ({})", status.as_u16())).unwrap_or_default();
                match self.tidy(message) {
                    message if message.is_empty() => format!("{who} refused the request{status}"),
                    message => format!("{who} refused the request{status}: {message}"),
                }
            }
        };
        Failure {
            error: ModelError { reason, remedy: self.remedy(kind), retryable: kind.is_passing() },
            again: kind.is_short(),
            wait,
        }
    }

    /// What the owner can do about it.
    fn remedy(&self, kind: Kind) -> Option<String> {
        let Self { who, name, .. } = self;
        match kind {
            Kind::Key if self.key.is_none() => Some(format!("set models.{name}.api_key")),
            Kind::Key => Some(format!("check models.{name}.api_key")),
            Kind::UnknownModel => Some(format!("check models.{name}.model")),
            Kind::NoSuchPlace => Some(format!("check models.{name}.base_url")),
            Kind::Moved => Some(format!("set models.{name}.base_url to that address")),
            Kind::Quota => Some("check the account's billing page".to_owned()),
            Kind::NoTools => Some(format!("choose another model in models.{name}.model")),
            Kind::Unreachable if self.is_elsewhere => {
                Some(format!("check that the server runs, and models.{name}.base_url"))
            }
            Kind::Unreachable if *who == "Ollama" => Some("check that Ollama is running".to_owned()),
            Kind::Unreachable => Some("check the network".to_owned()),
            _ => None,
        }
    }

    /// A provider's own words without secrets, addresses and what can't be shown.
    fn tidy(&self, message: &str) -> String {
        let key = self.key.as_ref().map(|key| key.expose_secret()).filter(|key| !key.is_empty());
        let message = key.map_or_else(|| message.to_owned(), |key| message.replace(key, "…"));
        // A key is also shown in part, such as `sk-ab…yz`: no word that could be one is repeated.
        let is_secret =
            |word: &str| word.contains("://") || word.contains("sk-") || word.contains('*') || word.len() > 60;
        let words = message.split_whitespace().map(|word| if is_secret(word) { "…" } else { word });
        let shown = words.collect::<Vec<_>>().join(" ");
        let shown: String = shown.chars().filter(|c| !is_unsafe_char(*c)).take(SHOWN).collect();
        shown.trim_end_matches(['.', ' ']).to_owned()
    }
}

/// What a status and a provider's words, in lower case, mean.
fn kind(status: u16, said: &str) -> Kind {
    // Gemini says the same of a minute's limit, which passes, and of a day's, which doesn't; only a passing one comes
    // with a time.
    if said.contains("resource_exhausted") && !said.contains("perday") && said.contains("retryinfo") {
        return Kind::Rate;
    }
    if status == 401 {
        return Kind::Key;
    }
    if status == 402 || (status == 429 && said.contains("check your plan and billing")) {
        return Kind::Quota;
    }
    if status == 404 && said.contains("model") {
        return Kind::UnknownModel;
    }
    // Of a request that was refused for good, such words mean something else: "unavailable in your region".
    let for_good = (400..429).contains(&status);
    let fits = |(sayings, kind): &&(&[&str], Kind)| {
        let passing = matches!(kind, Kind::Overloaded | Kind::Server);
        !(for_good && passing) && sayings.iter().any(|saying| said.contains(saying))
    };
    if let Some((_, kind)) = SAYINGS.iter().find(fits) {
        return *kind;
    }
    match status {
        300..=399 => Kind::Moved,
        403 => Kind::NotAllowed,
        404 | 405 => Kind::NoSuchPlace,
        413 => Kind::TooLarge,
        408 | 409 | 500..=502 | 504..=528 | 530..=599 => Kind::Server,
        429 => Kind::Rate,
        503 | 529 => Kind::Overloaded,
        _ => Kind::Refused,
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
fn gather(body: &Value, depth: usize, into: &mut String) {
    if depth > 6 || into.len() > LONGEST_SAID {
        return;
    }
    match body {
        Value::String(text) => {
            into.push_str(&text[..text.floor_char_boundary(LONGEST_SAID)]);
            into.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, depth + 1, into)),
        Value::Object(fields) => {
            for (key, value) in fields {
                into.push_str(key);
                into.push('\n');
                gather(value, depth + 1, into);
            }
        }
        _ => {}
    }
}

/// How much of a body is looked at.
const LONGEST_SAID: usize = 8 << 10;

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
