//! Handles calls of the webhook: authenticates them, limits their size, and confirms an update once it is stored.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, StatusCode},
};
use satchel_http_server::{BodyError, read_body};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::sync::watch;

use crate::inbound::processor::InboundProcessor;

/// The header in which Telegram sends the webhook's secret.
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";

/// Largest accepted update: a thousand times the usual size.
const MAX_UPDATE_BYTES: usize = 4 << 20;

/// How long the body of a request may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// Whether the webhook still has our secret, according to the calls since it was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WebhookOwnership {
    Unknown,
    /// There were calls, but none with the secret.
    Suspect,
    /// Telegram has called with the secret.
    Confirmed,
}

/// Handler of webhook calls.
pub(super) struct WebhookHandler {
    /// Where the calls arrive.
    path: String,
    secret: SecretString,
    processor: Arc<InboundProcessor>,
    /// Whether a call without the secret was logged, which is done once.
    has_logged_refusal: AtomicBool,
    /// Whether Telegram's last call to another path was logged, which is done once.
    has_logged_wrong_path: AtomicBool,
    ownership: watch::Sender<WebhookOwnership>,
}

impl WebhookHandler {
    pub(super) fn new(
        path: String,
        secret: SecretString,
        processor: Arc<InboundProcessor>,
        ownership: watch::Sender<WebhookOwnership>,
    ) -> Self {
        let unset = || AtomicBool::new(false);
        Self { path, secret, processor, has_logged_refusal: unset(), has_logged_wrong_path: unset(), ownership }
    }
}

/// Routes every path to the handler, which checks the path itself.
pub(super) fn router(handler: Arc<WebhookHandler>) -> Router {
    Router::new().fallback(handle_request).with_state(handler)
}

/// Responds with 200 only once the update is stored. Any other status makes Telegram retry.
async fn handle_request(State(handler): State<Arc<WebhookHandler>>, request: Request) -> StatusCode {
    match handle_update(&handler, request).await {
        Ok(()) => StatusCode::OK,
        Err(status) => status,
    }
}

async fn handle_update(handler: &WebhookHandler, request: Request) -> Result<(), StatusCode> {
    let given_secret = request.headers().get(SECRET_HEADER).map(|value| value.as_bytes()).unwrap_or_default();
    let is_telegram = constant_time_eq(given_secret, handler.secret.expose_secret().as_bytes());
    if request.uri().path() != handler.path {
        // Scanners try random paths all the time. Neither path is logged, since the configured one may be a secret.
        if is_telegram && !handler.has_logged_wrong_path.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "Telegram's calls arrive here at another path than that of `telegram.webhook`, and are refused; whatever \
                 passes them on must leave the path as it is"
            );
        }
        return Err(StatusCode::NOT_FOUND);
    }
    if !is_telegram {
        if !handler.has_logged_refusal.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a call of the webhook without its secret was refused, and so will be others; if it was Telegram's, \
                 another process has set this webhook with a secret of its own"
            );
        }
        handler.ownership.send_if_modified(|ownership| {
            let is_new = *ownership == WebhookOwnership::Unknown;
            *ownership = if is_new { WebhookOwnership::Suspect } else { *ownership };
            is_new
        });
        return Err(StatusCode::FORBIDDEN);
    }
    handler.has_logged_wrong_path.store(false, Ordering::Relaxed);
    handler.ownership.send_replace(WebhookOwnership::Confirmed);
    if request.method() != Method::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let body = read_body(request.into_body(), MAX_UPDATE_BYTES, BODY_TIMEOUT).await.map_err(|error| match error {
        BodyError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::TimedOut => StatusCode::REQUEST_TIMEOUT,
        BodyError::Broken => StatusCode::BAD_REQUEST,
    })?;
    let raw: Value = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let update = handler.processor.read(raw);
    if handler.processor.try_store(&update).await { Ok(()) } else { Err(StatusCode::SERVICE_UNAVAILABLE) }
}

/// Compares in constant time.
fn constant_time_eq(given: &[u8], secret: &[u8]) -> bool {
    let differences = given.iter().zip(secret).fold(0, |difference, (one, other)| difference | (one ^ other));
    given.len() == secret.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_is_the_secret() {
        for (shown, same) in [("abc", true), ("abd", false), ("ab", false), ("abcd", false), ("", false)] {
            assert_eq!(constant_time_eq(shown.as_bytes(), b"abc"), same, "{shown}");
        }
        assert!(constant_time_eq(b"", b""), "an empty secret is never made");
    }
}
