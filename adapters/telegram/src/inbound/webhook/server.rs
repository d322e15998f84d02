//! The webhook's door: who may knock, what may be brought, and when it is answered.

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

/// The header in which Telegram repeats the secret that the webhook was set with.
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";

/// The largest update: a thousand times the usual one.
const LARGEST: usize = 4 << 20;

/// How long it may take to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// Whether the webhook seems to be ours, as its calls tell since it was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WebhookOwnership {
    Unknown,
    /// Somebody has called, and only without the secret.
    Suspect,
    /// Telegram has called with the secret.
    Confirmed,
}

/// What the server needs to know.
pub(super) struct WebhookHandler {
    /// Where the calls arrive.
    path: String,
    /// What only Telegram and we know.
    secret: SecretString,
    /// Where updates are handed in.
    desk: Arc<InboundProcessor>,
    /// Whether somebody without the secret was refused, so that it is told once.
    has_refused: AtomicBool,
    /// Whether Telegram's last call came to another path, so that it is told once.
    has_missed: AtomicBool,
    /// Whether the webhook seems to be ours.
    standing: watch::Sender<WebhookOwnership>,
}

impl WebhookHandler {
    /// A door at which nobody has been yet.
    pub(super) fn new(
        path: String,
        secret: SecretString,
        desk: Arc<InboundProcessor>,
        standing: watch::Sender<WebhookOwnership>,
    ) -> Self {
        let never = || AtomicBool::new(false);
        Self { path, secret, desk, has_refused: never(), has_missed: never(), standing }
    }
}

/// Every path, since strangers are turned away by more than that.
pub(super) fn router(door: Arc<WebhookHandler>) -> Router {
    Router::new().fallback(handle_request).with_state(door)
}

/// Answers a call: with 200 only once its update is stored. Anything else makes Telegram call again.
async fn handle_request(State(door): State<Arc<WebhookHandler>>, request: Request) -> StatusCode {
    match handle_update(&door, request).await {
        Ok(()) => StatusCode::OK,
        Err(status) => status,
    }
}

async fn handle_update(door: &WebhookHandler, request: Request) -> Result<(), StatusCode> {
    let shown = request.headers().get(SECRET_HEADER).map(|value| value.as_bytes()).unwrap_or_default();
    let is_telegram = constant_time_eq(shown, door.secret.expose_secret().as_bytes());
    if request.uri().path() != door.path {
        // Strangers try paths all day long. Neither path is told, for it may be meant to be secret.
        if is_telegram && !door.has_missed.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "Telegram's calls arrive here at another path than that of `telegram.webhook`, and are refused; whatever \
                 passes them on must leave the path as it is"
            );
        }
        return Err(StatusCode::NOT_FOUND);
    }
    if !is_telegram {
        if !door.has_refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a call of the webhook without its secret was refused, and so will be others; if it was Telegram's, \
                 another process has set this webhook with a secret of its own"
            );
        }
        door.standing.send_if_modified(|standing| {
            let is_new = *standing == WebhookOwnership::Unknown;
            *standing = if is_new { WebhookOwnership::Suspect } else { *standing };
            is_new
        });
        return Err(StatusCode::FORBIDDEN);
    }
    door.has_missed.store(false, Ordering::Relaxed);
    door.standing.send_replace(WebhookOwnership::Confirmed);
    if request.method() != Method::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let body = read_body(request.into_body(), LARGEST, BODY_TIMEOUT).await.map_err(|error| match error {
        BodyError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::TimedOut => StatusCode::REQUEST_TIMEOUT,
        BodyError::Broken => StatusCode::BAD_REQUEST,
    })?;
    let raw: Value = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let update = door.desk.read(raw);
    if door.desk.try_store(&update).await { Ok(()) } else { Err(StatusCode::SERVICE_UNAVAILABLE) }
}

/// Compares in a time that tells nothing of how much is right.
fn constant_time_eq(shown: &[u8], secret: &[u8]) -> bool {
    let differences = shown.iter().zip(secret).fold(0, |all, (one, other)| all | (one ^ other));
    shown.len() == secret.len() && std::hint::black_box(differences) == 0
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
