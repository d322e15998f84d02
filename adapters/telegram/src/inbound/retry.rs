//! How long to wait before Telegram is called again, and how to log an outage once instead of each time.

use std::time::Duration;

use satchel_platform_http::{Backoff, PlatformError};
use tokio_util::sync::CancellationToken;

use super::wire::WebhookInfo;
use crate::{
    TelegramError,
    bot::{ApiError, BotClient, CallError},
};

/// How the waits grow between calls that fail.
pub(super) const BACKOFF: Backoff =
    Backoff { min_delay: Duration::from_millis(250), max_delay: Duration::from_secs(30) };

/// The longest wait that a server can ask for, so that an absurd number doesn't end the bot.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// What is wrong, as far as the log tells it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutageKind {
    Unreachable,
    Conflict,
    Busy,
    Refused,
}

/// Calls that fail and are made again.
pub(super) type RetryTracker = satchel_platform_http::RetryTracker<OutageKind>;

/// What follows a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryAction {
    Retry,
    Stop,
}

/// A tracker of calls that have not failed yet.
pub(super) fn new_retry_tracker() -> RetryTracker {
    RetryTracker::new(ApiError::PLATFORM, BACKOFF)
}

/// Waits as long as is right before a call is made again that has failed.
///
/// # Errors
/// When Telegram doesn't know the token: no further try can help.
pub(super) async fn wait_before_retry(
    retries: &mut RetryTracker,
    client: &BotClient,
    error: &CallError,
    stop: &CancellationToken,
) -> Result<RetryAction, TelegramError> {
    let (kind, retry_after) = match error {
        CallError::Refused(ApiError { code: 401, .. }) => return Err(TelegramError::UnknownToken),
        CallError::Refused(ApiError { code: 409, retry_after, .. }) => (OutageKind::Conflict, *retry_after),
        CallError::RateLimited { retry_after, .. } => (OutageKind::Busy, *retry_after),
        CallError::Refused(ApiError { code: 500.., retry_after, .. }) => (OutageKind::Busy, *retry_after),
        CallError::Refused(ApiError { retry_after, .. }) => (OutageKind::Refused, *retry_after),
        _ => (OutageKind::Unreachable, None),
    };
    let wait = retries.next_delay().max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
    let is_new = retries.start_outage(kind);
    let waiting = async {
        if is_new {
            log_outage(kind, client, error).await;
        }
        tokio::time::sleep(wait).await;
    };
    let waited = stop.run_until_cancelled(waiting).await;
    Ok(if waited.is_some() { RetryAction::Retry } else { RetryAction::Stop })
}

async fn log_outage(kind: OutageKind, client: &BotClient, error: &CallError) {
    match kind {
        OutageKind::Unreachable => {
            tracing::warn!(error = %error, "cannot reach Telegram; retrying with backoff");
        }
        OutageKind::Conflict => tracing::warn!("{}; retrying with backoff", explained(client).await),
        OutageKind::Busy => tracing::warn!(error = %error, "Telegram is overloaded; retrying with backoff"),
        OutageKind::Refused => tracing::warn!(error = %error, "Telegram refused the request; retrying with backoff"),
    }
}

/// Why Telegram gives the updates to somebody else.
async fn explained(client: &BotClient) -> String {
    match webhook(client).await.as_ref().map(|info| info.url.as_str()) {
        Some("") => "another process polls with this bot's token".to_owned(),
        Some(url) => format!("another process has set a webhook for this bot, at {}", host(url)),
        None => "another process uses this bot's token".to_owned(),
    }
}

/// The webhook that is set for the bot: no address in it if there is none, `None` if Telegram doesn't say.
pub(super) async fn webhook(client: &BotClient) -> Option<WebhookInfo> {
    client.request_json("getWebhookInfo", b"{}".to_vec(), Duration::ZERO).await.ok()
}

/// The host of an address; what stands behind it may be a secret.
pub(super) fn host(url: &str) -> String {
    let uri: Option<axum::http::Uri> = url.parse().ok();
    uri.as_ref().and_then(axum::http::Uri::host).unwrap_or("an address").to_owned()
}

/// Waits, but no longer than until `stop`; tells whether it came.
pub(super) async fn stopped_within(wait: Duration, stop: &CancellationToken) -> bool {
    stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none()
}

#[cfg(test)]
mod tests {
    use satchel_platform_http::HttpTimeouts;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requested_wait_is_kept_whatever_the_code() {
        let client = BotClient::new(&"1:TOKEN".into(), None, HttpTimeouts::default()).unwrap();
        for (code, retry_after, expected) in
            [(502, Some(90), 90), (420, Some(90), 90), (500, Some(9_000), 600), (500, None, 0)]
        {
            let retry_after = retry_after.map(Duration::from_secs);
            let error = ApiError { code, description: "later".to_owned(), migrated_to: None, retry_after };
            let (start, stop) = (tokio::time::Instant::now(), CancellationToken::new());
            let next = wait_before_retry(&mut new_retry_tracker(), &client, &CallError::Refused(error), &stop).await;
            assert_eq!((next.unwrap(), start.elapsed().as_secs()), (RetryAction::Retry, expected), "{code}");
        }
    }

    #[test]
    fn of_an_address_only_the_host_is_told() {
        assert_eq!(host("https://bot.example/secret-path?x=1"), "bot.example");
        assert_eq!(host("no address"), "an address");
    }
}
