//! Why a fetch failed, in words for the person, without credentials and queries.

use std::error::Error;

use reqwest::{StatusCode, Url};
use satchel_domain::size;
use satchel_ports::FetcherError;

use crate::resolver::Forbidden;

/// How much of an address is told.
const TOLD: usize = 200;

/// An address as it may be told: without credentials, query and fragment.
pub(crate) fn told(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // They fail where there is no host, and then there are no credentials either.
    let _no_host = url.set_password(None);
    let _no_host = url.set_username("");
    url.into()
}

/// The same, short enough for a sentence.
pub(crate) fn shortly(url: &Url) -> String {
    let told = told(url);
    match told.char_indices().nth(TOLD) {
        Some((end, _)) => format!("{}…", &told[..end]),
        None => told,
    }
}

pub(crate) fn refused(reason: impl Into<String>) -> FetcherError {
    FetcherError::Rejected { reason: reason.into() }
}

pub(crate) fn try_again(reason: impl Into<String>) -> FetcherError {
    FetcherError::Retryable { reason: reason.into() }
}

pub(crate) fn too_large(url: &Url, claimed: u64, limit: u64) -> FetcherError {
    let (claimed, limit) = (size::format_bytes(claimed), size::format_bytes(limit));
    refused(format!("{} has {claimed}, the limit is {limit}", shortly(url)))
}

/// What it means that no answer came.
pub(crate) fn of_request(url: &Url, error: &reqwest::Error) -> FetcherError {
    if let Some(forbidden) = source::<Forbidden>(error) {
        return refused(format!("{} is not requested: {forbidden}", shortly(url)));
    }
    let what = if error.is_connect() { "can't be reached" } else { "gave an invalid answer" };
    // The last of the chain says what happened; reqwest's own words hold the address with its query.
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match error.source() {
        Some(_) => try_again(format!("{} {what} ({cause})", shortly(url))),
        None => try_again(format!("{} {what}", shortly(url))),
    }
}

/// What an answer means that brings no file.
pub(crate) fn of_status(url: &Url, status: StatusCode) -> FetcherError {
    let answers = format!("{} answers {}", shortly(url), status.as_u16());
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
