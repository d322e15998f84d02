//! What a failed request to a bucket means, in words without credentials.

use std::{error::Error, io};

use object_store::client::{HttpError, HttpErrorKind};

use crate::connector::original_status;

/// Codes of servers that have no room left.
const FULL_CODES: [&str; 4] =
    ["QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull", "InsufficientStorage"];

/// Why a bucket can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}{}", match self.kind { BucketErrorKind::Passing => "; trying again may help", _ => "" })]
pub struct BucketError {
    pub(crate) kind: BucketErrorKind,
    reason: String,
}

/// What callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketErrorKind {
    /// The bucket has no room.
    Full,
    /// The server is away or overloaded.
    Passing,
    /// The credentials are right and don't permit it.
    Denied,
    /// Something has to be changed first.
    Lasting,
}

impl BucketError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.kind == BucketErrorKind::Passing
    }

    /// The meaning of an error; `address` is the bucket and its server.
    pub(crate) fn new(error: &object_store::Error, address: &str) -> Self {
        if let Some(tls) = find_tls_error(error) {
            let reason = format!(
                "no encrypted connection to {address} ({tls}); check the host of its endpoint, and name the certificates of \
                 its authority with `storage.blobs_ca_file` or AWS_CA_BUNDLE"
            );
            return Self { kind: BucketErrorKind::Lasting, reason };
        }
        if let Some(kind) = transport_error_kind(error) {
            let why = match kind {
                HttpErrorKind::Timeout => "doesn't answer in time",
                HttpErrorKind::Decode => "sent an answer that is too long or can't be read",
                _ => "can't be reached",
            };
            return Self { kind: BucketErrorKind::Passing, reason: format!("{address} {why}") };
        }
        let text = error.to_string();
        let status = between(&text, "status code: ", " ").and_then(|status| status.parse().ok()).map(original_status);
        Self::from_answer(status, &text, address)
    }

    /// The meaning of an answer, which `text` holds.
    pub(crate) fn from_answer(status: Option<u16>, text: &str, address: &str) -> Self {
        // The text may repeat the request with the id of a key, so only its code is used.
        let code = between(text, "<Code>", "</Code>").filter(|code| is_code(code));
        let answer = match (status, code) {
            (Some(status), Some(code)) => format!("{status} {code}"),
            (Some(status), None) => status.to_string(),
            (None, Some(code)) => code.to_owned(),
            (None, None) => String::new(),
        };
        let (kind, reason) = match (code, status) {
            (Some("NoSuchBucket"), _) => (BucketErrorKind::Lasting, format!("{address} doesn't exist")),
            (Some(code), _) if FULL_CODES.contains(&code) => {
                (BucketErrorKind::Full, format!("{address} is full ({answer})"))
            }
            (_, Some(507)) => (BucketErrorKind::Full, format!("{address} is full ({answer})")),
            (Some("InvalidAccessKeyId"), _) => {
                (BucketErrorKind::Lasting, format!("{address} doesn't know the access key"))
            }
            (Some("SignatureDoesNotMatch"), _) => (
                BucketErrorKind::Lasting,
                format!("{address} refused the secret key, which is not that of the access key"),
            ),
            (Some("ExpiredToken" | "InvalidToken"), _) => {
                (BucketErrorKind::Lasting, format!("{address} refused the session token, which may have expired"))
            }
            (Some("RequestTimeTooSkewed"), _) => {
                (BucketErrorKind::Lasting, format!("{address} refused the time: set this machine's clock"))
            }
            (Some("PermanentRedirect" | "AuthorizationHeaderMalformed"), _) | (_, Some(301 | 307 | 308)) => {
                (BucketErrorKind::Lasting, format!("{address} is in another region ({answer})"))
            }
            (Some("SlowDown" | "InternalError" | "ServiceUnavailable" | "RequestTimeout"), _)
            | (_, Some(408 | 429 | 500..)) => {
                (BucketErrorKind::Passing, format!("{address} failed or is overloaded ({answer})"))
            }
            (_, Some(401 | 403)) => (BucketErrorKind::Denied, format!("{address} denied access ({answer})")),
            _ if answer.is_empty() => {
                (BucketErrorKind::Lasting, format!("{address} answered what can't be understood"))
            }
            _ => (BucketErrorKind::Lasting, format!("{address} answered {answer}")),
        };
        Self { kind, reason }
    }

    /// A failed call beside those of the library.
    pub(crate) fn passing(address: &str, what: &str) -> Self {
        Self { kind: BucketErrorKind::Passing, reason: format!("{address} {what}") }
    }

    /// Something that has to be changed before the first request.
    pub(crate) fn lasting(reason: String) -> Self {
        Self { kind: BucketErrorKind::Lasting, reason }
    }

    /// The same error with the permission that is missing, if that is what it means.
    pub(crate) fn with_need(mut self, need: &str) -> Self {
        if self.kind == BucketErrorKind::Denied {
            self.reason = format!("{}: {need}", self.reason);
        }
        self
    }
}

/// Why a connection could not be encrypted, or the server's certificate is not trusted.
fn find_tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Some(error);
        }
        // An `io::Error` leads to what caused its own cause, not to that.
        cause = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// The kind of an error that came before any answer.
fn transport_error_kind(error: &object_store::Error) -> Option<HttpErrorKind> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<HttpError>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

/// What stands between two marks.
pub(crate) fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(found, _)| found)
}

fn is_code(code: &str) -> bool {
    code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
