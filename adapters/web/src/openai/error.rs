//! Errors in OpenAI's shape.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use satchel_ports::{BlobError, InboundError, LedgerError};
use serde_json::{Value, json};

use crate::problem::Problem;

/// The error response of a request.
#[derive(Debug)]
pub(super) struct OpenAiError {
    status: StatusCode,
    message: String,
    /// The parameter that is refused.
    param: Option<String>,
    code: String,
    retry_after_seconds: Option<u64>,
}

impl OpenAiError {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code: code.to_owned(), retry_after_seconds: None }
    }

    /// A request that no retry makes better.
    pub(super) fn invalid(param: &str, message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, "invalid_value", message);
        Self { param: Some(param.to_owned()), ..error }
    }

    /// A parameter that Satchel can't honour.
    pub(super) fn unsupported(param: &str, message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, "unsupported_parameter", message);
        Self { param: Some(param.to_owned()), ..error }
    }

    pub(super) fn unknown_model(name: &str) -> Self {
        let message = format!("There is no model `{name}`; `GET /v1/models` lists them.");
        let error = Self::new(StatusCode::NOT_FOUND, "model_not_found", message);
        Self { param: Some("model".to_owned()), ..error }
    }

    pub(super) fn unknown_url() -> Self {
        let message = "Satchel offers `POST /v1/chat/completions` and `GET /v1/models`.";
        Self::new(StatusCode::NOT_FOUND, "unknown_url", message)
    }

    pub(super) fn key_reused() -> Self {
        let message = "The `Idempotency-Key` belongs to another request; use a new key for a new request.";
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", message)
    }

    pub(super) fn still_running() -> Self {
        let message = "The turn is still running. Send the same request again to go on waiting for it.";
        Self { retry_after_seconds: Some(1), ..Self::new(StatusCode::GATEWAY_TIMEOUT, "turn_running", message) }
    }

    /// A turn that ended without an answer of the model.
    pub(super) fn failed_turn(ending: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, ending, message)
    }

    pub(super) fn to_json(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({ "error": { "message": self.message, "type": kind, "param": self.param, "code": self.code } })
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.to_json())).into_response();
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Problem> for OpenAiError {
    fn from(problem: Problem) -> Self {
        let retry_after_seconds = problem.retry_after().map(|wait| wait.as_secs().max(1));
        Self { retry_after_seconds, ..Self::new(problem.status(), problem.code(), problem.detail()) }
    }
}

impl From<LedgerError> for OpenAiError {
    fn from(error: LedgerError) -> Self {
        Problem::from(error).into()
    }
}

impl From<InboundError> for OpenAiError {
    fn from(error: InboundError) -> Self {
        Problem::from(error).into()
    }
}

impl From<BlobError> for OpenAiError {
    fn from(error: BlobError) -> Self {
        Problem::from(error).into()
    }
}
