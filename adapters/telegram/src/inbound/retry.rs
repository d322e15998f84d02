//! Delays before retries of calls to Telegram, and logging of an outage once instead of on each attempt.

use std::time::Duration;

use satchel_platform_http::{Backoff, PlatformError};
use tokio_util::sync::CancellationToken;

use super::wire::WebhookInfo;
use crate::bot::{ApiError, BotClient, CallError};

pub(super) const BACKOFF: Backoff =
    Backoff { min_delay: Duration::from_millis(250), max_delay: Duration::from_secs(30) };

/// Longest retry-after that is honoured, so that an absurd value doesn't stop the bot.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The kinds of outages that are logged separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutageKind {
    Unreachable,
    Conflict,
    Busy,
    Refused,
}

/// Tracks the retries of a call.
pub(super) type RetryTracker = satchel_platform_http::RetryTracker<OutageKind>;

/// What to do after a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryAction {
    Retry,
    Stop,
}

/// Creates a tracker without failures.
pub(super) fn new_retry_tracker() -> RetryTracker {
    RetryTracker::new(ApiError::PLATFORM, BACKOFF)
}

/// Waits before the retry of a failed call, or until `stop`: after a refused account until Telegram accepts it again.
pub(super) async fn wait_before_retry(
    retries: &mut RetryTracker,
    client: &BotClient,
    error: &CallError,
    stop: &CancellationToken,
) -> RetryAction {
    let (kind, retry_after) = match error {
        CallError::AccountRefused { .. } => {
            let opened = stop.run_until_cancelled(client.account().wait_until_open()).await;
            return opened.map_or(RetryAction::Stop, |()| RetryAction::Retry);
        }
        CallError::Refused(ApiError { code: 409, retry_after, .. }) => (OutageKind::Conflict, *retry_after),
        CallError::RateLimited { retry_after, .. } => (OutageKind::Busy, *retry_after),
        CallError::Refused(ApiError { code: 500.., retry_after, .. }) => (OutageKind::Busy, *retry_after),
        CallError::Refused(ApiError { retry_after, .. }) => (OutageKind::Refused, *retry_after),
        _ => (OutageKind::Unreachable, None),
    };
    let delay = retries.next_delay().max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
    let is_new = retries.start_outage(kind);
    let pause = async {
        if is_new {
            log_outage(kind, client, error).await;
        }
        tokio::time::sleep(delay).await;
    };
    let completed = stop.run_until_cancelled(pause).await;
    if completed.is_some() { RetryAction::Retry } else { RetryAction::Stop }
}

async fn log_outage(kind: OutageKind, client: &BotClient, error: &CallError) {
    match kind {
        OutageKind::Unreachable => {
            tracing::warn!(error = %error, "cannot reach Telegram; retrying with backoff");
        }
        OutageKind::Conflict => tracing::warn!("{}; retrying with backoff", explain_conflict(client).await),
        OutageKind::Busy => tracing::warn!(error = %error, "Telegram is overloaded; retrying with backoff"),
        OutageKind::Refused => tracing::warn!(error = %error, "Telegram refused the request; retrying with backoff"),
    }
}

/// Explains why another process gets the updates.
async fn explain_conflict(client: &BotClient) -> String {
    match get_webhook_info(client).await.as_ref().map(|info| info.url.as_str()) {
        Some("") => "another process polls with this bot's token".to_owned(),
        Some(url) => format!("another process has set a webhook for this bot, at {}", url_host(url)),
        None => "another process uses this bot's token".to_owned(),
    }
}

/// Requests the bot's webhook: its URL is empty if none is set; `None` if the request fails.
pub(super) async fn get_webhook_info(client: &BotClient) -> Option<WebhookInfo> {
    client.request_json("getWebhookInfo", b"{}".to_vec(), Duration::ZERO).await.ok()
}

/// The host of a URL; its path may be a secret.
pub(super) fn url_host(url: &str) -> String {
    let uri: Option<axum::http::Uri> = url.parse().ok();
    uri.as_ref().and_then(axum::http::Uri::host).unwrap_or("an address").to_owned()
}

/// Waits for `stop` for at most the timeout. Returns whether it was requested.
pub(super) async fn wait_for_stop(timeout: Duration, stop: &CancellationToken) -> bool {
    stop.run_until_cancelled(tokio::time::sleep(timeout)).await.is_none()
}

#[cfg(test)]
mod tests {
    use satchel_platform_http::HttpTimeouts;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requested_wait_holds_for_every_code() {
        let client = BotClient::new(&"1:TOKEN".into(), None, HttpTimeouts::default()).unwrap();
        for (code, retry_after, expected) in
            [(502, Some(90), 90), (420, Some(90), 90), (500, Some(9_000), 600), (500, None, 0)]
        {
            let retry_after = retry_after.map(Duration::from_secs);
            let error = ApiError { code, description: "later".to_owned(), migrated_to: None, retry_after };
            let (start, stop) = (tokio::time::Instant::now(), CancellationToken::new());
            let next = wait_before_retry(&mut new_retry_tracker(), &client, &CallError::Refused(error), &stop).await;
            assert_eq!((next, start.elapsed().as_secs()), (RetryAction::Retry, expected), "{code}");
        }
    }

    #[test]
    fn only_the_host_of_a_url_is_logged() {
        assert_eq!(url_host("https://bot.example/secret-path?x=1"), "bot.example");
        assert_eq!(url_host("no address"), "an address");
    }
}
