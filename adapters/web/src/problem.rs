//! Error responses: a message for the person, a code for programs (RFC 9457).

use std::time::Duration;

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use satchel_domain::{DiskFull, size};
use satchel_ports::{BlobError, InboundError, LedgerError};
use serde::Serialize;
use utoipa::ToSchema;

/// The error response of a request.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    retry_after: Option<Duration>,
}

/// The body of an error, `application/problem+json`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// Always `about:blank`.
    r#type: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status.
    status: u16,
    /// The error in words for the person.
    detail: String,
    /// The error code for programs; it never changes.
    code: &'static str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), retry_after: None }
    }

    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", detail)
    }

    pub(crate) fn not_found(resource: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("There is no such {resource}."))
    }

    pub(crate) fn no_preview() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_preview", "This file has no preview.")
    }

    pub(crate) fn unauthorized() -> Self {
        let detail = "Log in first. `satchel web link` prints a login link for a browser. Programs send the token from \
                      `web.token`, or from the file `web-token` in the data directory.";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    pub(crate) fn invalid_token() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "wrong_token", "That token is wrong.")
    }

    pub(crate) fn invalid_link() -> Self {
        let detail = "This login link was already used or has expired. Get a new one with `satchel web link`.";
        Self::new(StatusCode::UNAUTHORIZED, "invalid_link", detail)
    }

    pub(crate) fn too_many_attempts(wait: Duration) -> Self {
        let seconds = wait.as_secs().max(1);
        let detail = format!("That token is wrong, and there were too many wrong logins. Try again in {seconds} s.");
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", detail);
        Self { retry_after: Some(wait), ..problem }
    }

    pub(crate) fn file_too_large(limit: u64) -> Self {
        let detail = format!("The file is too large; the limit is {}.", size::format_bytes(limit));
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    }

    pub(crate) fn storage_full() -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "storage_full", "The disk has no room left.")
    }

    /// Includes the remedy, because the page's user is the owner.
    pub(crate) fn disk_full(full: DiskFull) -> Self {
        let detail = format!("The file was not stored: {full}. To make room, {}.", full.remedy());
        Self { detail, ..Self::storage_full() }
    }

    pub(crate) fn unavailable(detail: &str) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail);
        Self { retry_after: Some(Duration::from_secs(2)), ..problem }
    }

    pub(crate) fn stopping() -> Self {
        let detail = "Satchel is stopping: what runs may finish, and nothing else starts.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail)
    }

    pub(crate) fn timed_out() -> Self {
        Self::unavailable("That took too long; please try again.")
    }

    pub(crate) fn stalled() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "stalled", "The connection stalled; please send it again.")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = ProblemBody {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or_default(),
            status: self.status.as_u16(),
            detail: self.detail,
            code: self.code,
        };
        let body = serde_json::to_vec(&body).expect("words and numbers are JSON");
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Full => Self::storage_full(),
            LedgerError::Unknown { item: resource } => Self::not_found(&resource),
            other => {
                tracing::error!(error = &other as &dyn std::error::Error, "reading the ledger for the page failed");
                Self::unavailable("The database failed; please try again.")
            }
        }
    }
}

impl From<InboundError> for Problem {
    fn from(error: InboundError) -> Self {
        if let Some(LedgerError::Full) = error.0.downcast_ref() {
            return Self::storage_full();
        }
        tracing::error!(error = &error as &dyn std::error::Error, "storing a message from the page failed");
        Self::unavailable("The message could not be stored; please send it again.")
    }
}

impl From<BlobError> for Problem {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::TooLarge { limit } => Self::file_too_large(limit),
            BlobError::Full(full) => Self::disk_full(full),
            BlobError::Missing(_) => Self::not_found("file any more"),
            BlobError::Source(source) if source.kind() == std::io::ErrorKind::TimedOut => Self::stalled(),
            BlobError::Source(_) => {
                Self::new(StatusCode::BAD_REQUEST, "broken_off", "The upload was interrupted; please send it again.")
            }
            other => {
                tracing::error!(
                    error = &other as &dyn std::error::Error,
                    "the file store failed for a request of the page"
                );
                Self::unavailable("The file store failed; please try again.")
            }
        }
    }
}
