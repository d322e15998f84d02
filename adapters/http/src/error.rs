//! Maps failures of a fetch to the port's error, in text for people, without credentials and queries.

use std::error::Error;

use reqwest::{StatusCode, Url};
use satchel_domain::size;
use satchel_ports::FetcherError;

use crate::resolver::ResolveError;

/// How many characters of a URL are shown.
const MAX_REASON_CHARS: usize = 200;

/// Returns a URL without credentials, query and fragment.
pub(crate) fn redact_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // They fail for a URL without a host, which has no credentials either.
    let _no_host = url.set_password(None);
    let _no_host = url.set_username("");
    url.into()
}

/// The same, short enough for a sentence.
pub(crate) fn redact_url_short(url: &Url) -> String {
    let redacted = redact_url(url);
    match redacted.char_indices().nth(MAX_REASON_CHARS) {
        Some((end, _)) => format!("{}…", &redacted[..end]),
        None => redacted,
    }
}

pub(crate) fn rejected(reason: impl Into<String>) -> FetcherError {
    FetcherError::Rejected { reason: reason.into() }
}

pub(crate) fn retryable(reason: impl Into<String>) -> FetcherError {
    FetcherError::Retryable { reason: reason.into() }
}

pub(crate) fn too_large(url: &Url, declared: u64, limit: u64) -> FetcherError {
    let (declared, limit) = (size::format_bytes(declared), size::format_bytes(limit));
    rejected(format!("{} has {declared}, the limit is {limit}", redact_url_short(url)))
}

/// Maps a request without a response.
pub(crate) fn from_request_error(url: &Url, error: &reqwest::Error) -> FetcherError {
    if let Some(resolve_error) = find_source::<ResolveError>(error) {
        return rejected(format!("{} is not requested: {resolve_error}", redact_url_short(url)));
    }
    let problem = if error.is_connect() { "can't be reached" } else { "gave an invalid answer" };
    // The last error of the chain says what happened; reqwest's own text holds the URL with its query.
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match error.source() {
        Some(_) => retryable(format!("{} {problem} ({cause})", redact_url_short(url))),
        None => retryable(format!("{} {problem}", redact_url_short(url))),
    }
}

/// Maps a response status without a file.
pub(crate) fn from_status(url: &Url, status: StatusCode) -> FetcherError {
    let status_text = format!("{} answers {}", redact_url_short(url), status.as_u16());
    let reason = match status.canonical_reason() {
        Some(phrase) => format!("{status_text} ({phrase})"),
        None => status_text,
    };
    match status.as_u16() {
        401 | 403 | 404 | 410 => FetcherError::NotFound { reason },
        408 | 421 | 425 | 429 | 500.. => FetcherError::Retryable { reason },
        _ => FetcherError::Rejected { reason },
    }
}

fn find_source<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
