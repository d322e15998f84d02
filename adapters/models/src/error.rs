//! Maps providers' errors to messages that a person understands, and decides whether a retry may help.
//!
//! Providers report the same error in many ways. A table of patterns decides, so that a new way is a new row. The
//! messages never contain a key or an address.

use std::{collections::BTreeSet, fmt, time::Duration};

use reqwest::{StatusCode, header::HeaderMap};
use satchel_domain::filename::is_unsafe_char;
use satchel_ports::ModelError;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::{media_kind::MediaKind, settings::ModelTarget};

/// How much of a provider's own message is shown, in characters.
const MAX_REASON_CHARS: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProviderErrorKind {
    /// The key is wrong.
    InvalidKey,
    /// The key is right, but not for this.
    NotAllowed,
    /// There is no such model.
    UnknownModel,
    /// The server at the address doesn't offer the API.
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
    /// A file of this kind, of which the request holds some, can't be processed, or the model accepts none: without it the
    /// request would be accepted.
    InvalidFile(MediaKind),
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
    /// The connection with the relay failed, all of which is within this machine.
    RelayFailed,
    /// The request was refused for another reason.
    Refused,
}

impl ProviderErrorKind {
    /// Whether a retry may help.
    fn is_transient(self) -> bool {
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
                | Self::RelayFailed
        )
    }

    /// Whether an immediate retry is worth it. After a timeout it isn't: the server has had its time.
    fn is_retryable_now(self) -> bool {
        self.is_transient() && !matches!(self, Self::Timeout | Self::Stalled)
    }
}

/// A failure, and what it means for the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderError {
    pub(crate) kind: ProviderErrorKind,
    /// The error for the caller.
    pub(crate) error: ModelError,
    /// Whether another attempt is worth its time.
    pub(crate) can_retry: bool,
    /// The delay that the server requests.
    pub(crate) retry_after: Option<Duration>,
}

/// Parts of providers' messages about images that they can't process, or that their model doesn't accept, in lower case.
/// They are from public reports. Anthropic, which names the field first: anthropics/claude-code issues 15941 and 13131;
/// OpenAI: openai/codex issue 4946, marketing-factory/ai-filemetadata issue 18, Kav-K/GPTDiscord issue 443; Gemini:
/// google-gemini/gemini-cli issues 5064 and 27244; Ollama and llama.cpp: ollama/ollama issue 11320,
/// odysseus-dev/odysseus issue 5499.
const IMAGE_PATTERNS: &[&str] = &[
    "could not process image",
    "image.source",
    "image does not match",
    "image exceeds",
    "represent a valid image",
    "unsupported image",
    "invalid_image",
    "invalid image",
    "unable to process input image",
    "provided image is not valid",
    "failed to download image",
    "image: unknown format",
    "failed to load image",
    "image input",
];

/// The same about PDF documents. Anthropic: anthropics/claude-code issue 5174 and anthropics/anthropic-sdk-python issue
/// 903; Gemini: google-gemini/gemini-cli issue 13808.
const PDF_PATTERNS: &[&str] = &[
    "could not process pdf",
    "pdf.source",
    "document.source",
    "pdf specified was not valid",
    "document has no pages",
    "invalid pdf",
];

/// The same about sound: TutoriaLLM/TutoriaLLM issue 370, and llama.cpp, which names images, too.
const AUDIO_PATTERNS: &[&str] = &["audio file could not be decoded", "failed to load image or audio file"];

/// What says of a field of the request that it is refused, in lower case. Models without vision:
/// roboflow/awesome-openai-vision-api-experiments issue 11, rikkahub/rikkahub issue 1433.
const REFUSAL_VERBS: &[&str] =
    &["unsupported", "invalid", "not support", "n't support", "only support", "unknown variant"];

/// What a message lists behind these words is accepted, or belongs to a tool: aallam/openai-kotlin issue 320.
const OTHER_SUBJECTS: &[&str] =
    &["expected", "either", "one of", "any of", "must be", "should be", "supported values", "schema", "function"];

/// Patterns in providers' messages, in lower case, and what they mean. The first match applies.
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
    (&["does not support tools", "does not support function calling"], ProviderErrorKind::NoTools),
    (
        &["content_policy", "content_filter", "content filtering policy", "blockreason", "content management policy"],
        ProviderErrorKind::ContentFiltered,
    ),
    (IMAGE_PATTERNS, ProviderErrorKind::InvalidFile(MediaKind::Image)),
    (PDF_PATTERNS, ProviderErrorKind::InvalidFile(MediaKind::Pdf)),
    (AUDIO_PATTERNS, ProviderErrorKind::InvalidFile(MediaKind::Audio)),
    (&["request_too_large", "payload size exceeds", "too large for this model"], ProviderErrorKind::TooLarge),
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

/// Maps the errors of one model's provider.
#[derive(Clone)]
pub(crate) struct ErrorMapper {
    provider_name: &'static str,
    name: String,
    model: String,
    is_custom_server: bool,
    key: Option<SecretString>,
    /// The kinds of files in the request. An error isn't about files that the request doesn't hold.
    file_kinds: BTreeSet<MediaKind>,
}

impl fmt::Debug for ErrorMapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorMapper").field("name", &self.name).field("model", &self.model).finish_non_exhaustive()
    }
}

impl ErrorMapper {
    pub(crate) fn new(target: &ModelTarget) -> Self {
        Self {
            provider_name: target.display_name(),
            name: target.name.clone(),
            model: target.model.clone(),
            is_custom_server: target.is_custom_server,
            key: target.key.clone(),
            file_kinds: BTreeSet::new(),
        }
    }

    /// Maps the errors of a request that holds files of these kinds.
    pub(crate) fn for_files(&self, kinds: impl IntoIterator<Item = MediaKind>) -> Self {
        Self { file_kinds: kinds.into_iter().collect(), ..self.clone() }
    }

    /// The error of a kind that needs no details.
    pub(crate) fn provider_error(&self, kind: ProviderErrorKind) -> ProviderError {
        self.build(kind, None, "", None)
    }

    /// Maps an error of the vendor's client. `frame` is the last one of the stream.
    pub(crate) fn map_client_error(&self, error: &genai::Error, frame: &str) -> ProviderError {
        let reported = match error {
            // The frame holds more than what the client made of it.
            genai::Error::ChatResponse { body, .. } => {
                Some(self.map_frame(frame).unwrap_or_else(|| self.map_body(None, body, None)))
            }
            genai::Error::StreamParse { .. } => self.map_frame(frame),
            // The client only ever connects to the relay. Bytes that are no text are the provider's.
            genai::Error::WebStream { error, .. } if error.is::<reqwest::Error>() => {
                Some(self.provider_error(ProviderErrorKind::RelayFailed))
            }
            _ => None,
        };
        reported.unwrap_or_else(|| self.provider_error(ProviderErrorKind::InvalidResponse))
    }

    /// Maps an error frame of the stream; `None` for any other frame.
    pub(crate) fn map_frame(&self, frame: &str) -> Option<ProviderError> {
        let frame = serde_json::from_str::<Value>(frame).ok()?;
        is_error_frame(&frame).then(|| self.map_body(None, &frame, None))
    }

    /// Maps a response with an error status.
    pub(crate) fn map_status(&self, status: StatusCode, body: &str, headers: &HeaderMap) -> ProviderError {
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(String::new()));
        let mut failure = self.map_body(Some(status), &body, header_retry_after(headers));
        failure.can_retry &= headers.get("x-should-retry").is_none_or(|value| value != "false");
        failure
    }

    /// Maps a failed or lost connection.
    pub(crate) fn map_connection_error(&self, error: &reqwest::Error) -> ProviderError {
        match error {
            error if error.is_connect() => self.provider_error(ProviderErrorKind::Unreachable),
            error if error.is_timeout() => self.provider_error(ProviderErrorKind::Timeout),
            error if error.is_builder() => self.provider_error(ProviderErrorKind::Refused),
            _ => self.provider_error(ProviderErrorKind::Truncated),
        }
    }

    fn map_body(&self, status: Option<StatusCode>, body: &Value, retry_after: Option<Duration>) -> ProviderError {
        let mut text = String::new();
        collect_texts(body, 0, &mut text);
        let message = error_message(body);
        let code = status.map_or(0, |status| status.as_u16());
        let kind = classify(code, &text.to_lowercase(), &message.to_lowercase(), &self.file_kinds);
        self.build(kind, status, message, retry_after.or_else(|| body_retry_after(body)))
    }

    fn build(
        &self,
        kind: ProviderErrorKind,
        status: Option<StatusCode>,
        message: &str,
        retry_after: Option<Duration>,
    ) -> ProviderError {
        let Self { provider_name, model, .. } = self;
        let with_message = |what: String| {
            let status = status.map(|status| format!(" ({})", status.as_u16())).unwrap_or_default();
            match self.redact(message) {
                message if message.is_empty() => format!("{what}{status}"),
                message => format!("{what}{status}: {message}"),
            }
        };
        let reason = match kind {
            ProviderErrorKind::InvalidKey if self.key.is_none() => format!("{provider_name} requires an API key"),
            ProviderErrorKind::InvalidKey => format!("{provider_name} does not accept the key"),
            ProviderErrorKind::NotAllowed => format!("this key has no access to the model {model} at {provider_name}"),
            ProviderErrorKind::UnknownModel => format!("{provider_name} has no model {model}"),
            ProviderErrorKind::NotFound => "the server at that address does not offer this API".to_owned(),
            ProviderErrorKind::Redirected => format!("{provider_name} redirects to another address"),
            ProviderErrorKind::QuotaExceeded => {
                format!("the account at {provider_name} has no credit left, or its quota is used up")
            }
            ProviderErrorKind::RateLimited => match retry_after {
                Some(wait) => {
                    format!("{provider_name} has rate-limited your requests; try again in {}", format_wait(wait))
                }
                None => format!("{provider_name} has rate-limited your requests; try again in a minute"),
            },
            ProviderErrorKind::TooLong => {
                format!("this conversation is too long for {model}; start a new one with /new")
            }
            ProviderErrorKind::TooLarge => {
                format!("this turn's text and files are too large for {provider_name}; send less at once")
            }
            ProviderErrorKind::ContentFiltered => {
                format!("{provider_name} blocked the answer under its content policy")
            }
            ProviderErrorKind::NoTools => format!("the model {model} can't use tools"),
            ProviderErrorKind::Overloaded => format!("{provider_name} is overloaded; try again in a few minutes"),
            ProviderErrorKind::Server => format!("{provider_name} returned a server error; try again in a few minutes"),
            ProviderErrorKind::Unreachable => format!("{provider_name} can't be reached"),
            ProviderErrorKind::Timeout => format!("{provider_name} did not start to answer in time"),
            ProviderErrorKind::Stalled => {
                format!("{provider_name} stopped sending in the middle of its answer; try again")
            }
            ProviderErrorKind::Truncated => "its answer was cut off in the middle".to_owned(),
            ProviderErrorKind::InvalidResponse => {
                format!("{provider_name} sent an answer that could not be understood")
            }
            ProviderErrorKind::ResponseTooLong => "its answer did not end".to_owned(),
            ProviderErrorKind::RelayFailed => {
                format!(
                    "this machine's loopback connection for {provider_name} failed; \
                     it may have no free port or file handle"
                )
            }
            ProviderErrorKind::InvalidFile(kind) => {
                with_message(format!("{provider_name} could not process the {} in this request", kind.plural_name()))
            }
            ProviderErrorKind::Refused => with_message(format!("{provider_name} refused the request")),
        };
        ProviderError {
            kind,
            error: ModelError { reason, remedy: self.remedy(kind), retryable: kind.is_transient() },
            can_retry: kind.is_retryable_now(),
            retry_after,
        }
    }

    /// What the owner can do about it.
    fn remedy(&self, kind: ProviderErrorKind) -> Option<String> {
        let Self { provider_name, name, .. } = self;
        match kind {
            ProviderErrorKind::InvalidKey if self.key.is_none() => Some(format!("set models.{name}.api_key")),
            ProviderErrorKind::InvalidKey => Some(format!("check models.{name}.api_key")),
            ProviderErrorKind::UnknownModel => Some(format!("check models.{name}.model")),
            ProviderErrorKind::NotFound => Some(format!("check models.{name}.base_url")),
            ProviderErrorKind::Redirected => Some(format!("set models.{name}.base_url to that address")),
            ProviderErrorKind::QuotaExceeded => Some("check the account's billing page".to_owned()),
            ProviderErrorKind::NoTools => Some(format!("choose another model in models.{name}.model")),
            ProviderErrorKind::Unreachable if self.is_custom_server => {
                Some(format!("check that the server runs, and models.{name}.base_url"))
            }
            ProviderErrorKind::Unreachable if *provider_name == "Ollama" => {
                Some("check that Ollama is running".to_owned())
            }
            ProviderErrorKind::Unreachable => Some("check the network".to_owned()),
            _ => None,
        }
    }

    /// A provider's own message without secrets, addresses and invisible characters.
    fn redact(&self, message: &str) -> String {
        let key = self.key.as_ref().map(|key| key.expose_secret()).filter(|key| !key.is_empty());
        let message = key.map_or_else(|| message.to_owned(), |key| message.replace(key, "…"));
        // A key is also shown in part, such as `sk-ab…yz`: no word that could be one is repeated.
        let is_secret =
            |word: &str| word.contains("://") || word.contains("sk-") || word.contains('*') || word.len() > 60;
        let visible_words = message.split_whitespace().map(|word| if is_secret(word) { "…" } else { word });
        let reason = visible_words.collect::<Vec<_>>().join(" ");
        let reason: String = reason.chars().filter(|c| !is_unsafe_char(*c)).take(MAX_REASON_CHARS).collect();
        reason.trim_end_matches(['.', ' ']).to_owned()
    }
}

/// Classifies an error by its status, all texts of its body and the provider's message, both in lower case. `file_kinds` are
/// those of the files in the request.
fn classify(status: u16, text: &str, message: &str, file_kinds: &BTreeSet<MediaKind>) -> ProviderErrorKind {
    // Gemini reports a limit per minute and one per day in the same way; only the first is transient, and only it comes
    // with a delay.
    if text.contains("resource_exhausted") && !text.contains("perday") && text.contains("retryinfo") {
        return ProviderErrorKind::RateLimited;
    }
    if status == 401 {
        return ProviderErrorKind::InvalidKey;
    }
    if status == 402 || (status == 429 && text.contains("check your plan and billing")) {
        return ProviderErrorKind::QuotaExceeded;
    }
    if status == 404 && text.contains("model") {
        return ProviderErrorKind::UnknownModel;
    }
    // In a permanent refusal such words mean something else: "unavailable in your region".
    let is_permanent = (400..429).contains(&status);
    // A proxy or an overloaded server says nothing about files.
    let may_be_about_files = status < 502 && status != 429;
    let is_match = |(patterns, kind): &&(&[&str], ProviderErrorKind)| {
        let applies = match kind {
            ProviderErrorKind::Overloaded | ProviderErrorKind::Server => !is_permanent,
            ProviderErrorKind::InvalidFile(kind) => may_be_about_files && file_kinds.contains(kind),
            _ => true,
        };
        let is_field_refused = match kind {
            ProviderErrorKind::InvalidFile(MediaKind::Image) => refuses_field(message, "image_url"),
            ProviderErrorKind::InvalidFile(MediaKind::Audio) => refuses_field(message, "input_audio"),
            _ => false,
        };
        applies && (is_field_refused || patterns.iter().any(|pattern| text.contains(pattern)))
    };
    if let Some((_, kind)) = ERROR_PATTERNS.iter().find(is_match) {
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

/// Whether a provider's message refuses a field of the request. That it names the field is not enough: a server lists all
/// fields that it knows when it refuses another one.
fn refuses_field(message: &str, field: &str) -> bool {
    let mut sentences = message.split(['\n', ';']).flat_map(|line| line.split(". "));
    sentences.any(|sentence| {
        let end = OTHER_SUBJECTS.iter().filter_map(|words| sentence.find(*words)).min().unwrap_or(sentence.len());
        let stated = &sentence[..end];
        stated.contains(field) && REFUSAL_VERBS.iter().any(|verb| stated.contains(verb))
    })
}

/// Whether a frame reports an error.
fn is_error_frame(frame: &Value) -> bool {
    let error = frame.get("error").or_else(|| frame.pointer("/response/error"));
    error.is_some_and(|error| !error.is_null())
        || frame.get("promptFeedback").is_some()
        || frame.get("type").is_some_and(|kind| kind == "error")
}

/// Collects all keys and short texts of a body, since each provider puts the message elsewhere. What a body has under `input`
/// is left out: validation errors repeat a part of the request there.
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
            for (key, value) in fields.iter().filter(|(key, _)| *key != "input") {
                into.push_str(key);
                into.push('\n');
                collect_texts(value, depth + 1, into);
            }
        }
        _ => {}
    }
}

/// How much of a body is searched, in bytes.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// The provider's own message.
fn error_message(body: &Value) -> &str {
    let pointers = ["/error/message", "/response/error/message", "/0/error/message", "/message", "/error"];
    pointers.iter().find_map(|pointer| body.pointer(pointer)?.as_str()).unwrap_or_default()
}

/// The delay that Gemini requests in the body.
fn body_retry_after(body: &Value) -> Option<Duration> {
    let body = body.get(0).unwrap_or(body);
    let details = body.pointer("/error/details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    parse_seconds(delay.trim_end_matches('s'))
}

/// The delay that the server requests in its headers.
fn header_retry_after(headers: &HeaderMap) -> Option<Duration> {
    let header = |name| headers.get(name)?.to_str().ok();
    let milliseconds = header("retry-after-ms").and_then(parse_seconds).map(|wait| wait / 1000);
    milliseconds.or_else(|| header("retry-after").and_then(parse_seconds))
}

fn parse_seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

/// Formats a delay for people.
fn format_wait(wait: Duration) -> String {
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
