//! Why a fetch failed, in words for the person, without credentials and queries.

use std::error::Error;

use reqwest::{StatusCode, Url};
use satchel_domain::size;
use satchel_ports::FetcherError;

use crate::resolver::ResolveError;

/// How much of an address is told.
const MAX_REASON_CHARS: usize = 200;

/// An address as it may be told: without credentials, query and fragment.
pub(crate) fn redact_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // They fail where there is no host, and then there are no credentials either.
    let _no_host = url.set_password(None);
    let _no_host = url.set_username("");
    url.into()
}

/// The same, short enough for a sentence.
pub(crate) fn redact_url_short(url: &Url) -> String {
    let told = redact_url(url);
    match told.char_indices().nth(MAX_REASON_CHARS) {
        Some((end, _)) => format!("{}…", &told[..end]),
        None => told,
    }
}

pub(crate) fn rejected(reason: impl Into<String>) -> FetcherError {
    FetcherError::Rejected { reason: reason.into() }
}

pub(crate) fn retryable(reason: impl Into<String>) -> FetcherError {
    FetcherError::Retryable { reason: reason.into() }
}

pub(crate) fn too_large(url: &Url, claimed: u64, limit: u64) -> FetcherError {
    let (claimed, limit) = (size::format_bytes(claimed), size::format_bytes(limit));
    rejected(format!("{} has {claimed}, the limit is {limit}", redact_url_short(url)))
}

/// What it means that no answer came.
pub(crate) fn from_request_error(url: &Url, error: &reqwest::Error) -> FetcherError {
    if let Some(forbidden) = source::<ResolveError>(error) {
        return rejected(format!("{} is not requested: {forbidden}", redact_url_short(url)));
    }
    let what = if error.is_connect() { "can't be reached" } else { "gave an invalid answer" };
    // The last of the chain says what happened; reqwest's own words hold the address with its query.
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match error.source() {
        Some(_) => retryable(format!("{} {what} ({cause})", redact_url_short(url))),
        None => retryable(format!("{} {what}", redact_url_short(url))),
    }
}

/// What an answer means that brings no file.
pub(crate) fn from_status(url: &Url, status: StatusCode) -> FetcherError {
    let answers = format!("{} answers {}", redact_url_short(url), status.as_u16());
    let reason = match status.canonical_reason() {
        Some(words) => format!("{answers} ({words})"),
        None => answers,
    };
    match status.as_u16() {
        401 | 403 | 404 | 410 => FetcherError::NotFound { reason },
        408 | 421 | 425 | 429 | 500.. => FetcherError::Retryable { reason },
        _ => FetcherError::Rejected { reason },
    }
}

fn source<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
