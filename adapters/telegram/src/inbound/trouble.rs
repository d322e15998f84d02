//! How long to wait after a failure, and how to tell of it once instead of each time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::wire::WebhookInfo;
use crate::{
    TelegramError,
    bot::{BotClient, CallError, Refused},
};

/// The wait after a first failure; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(250);

const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The longest wait that a server can ask for, so that an absurd number doesn't end the bot.
const LONGEST_ASKED: u64 = 600;

/// What is wrong, as far as the log tells it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unreachable,
    Conflict,
    Busy,
    Refused,
}

/// Calls that fail and are made again: what is wrong at the moment, and for how long.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    kind: Option<Kind>,
    failures: u32,
}

/// What follows a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It is to be made again.
    Again,
    /// We are to stop.
    Stop,
}

impl Trouble {
    /// It works. Says so in the log if it did not.
    pub(super) fn is_over(&mut self) {
        self.failures = 0;
        if self.kind.take().is_some() {
            tracing::info!("Telegram answers again");
        }
    }

    /// A call failed: waits as long as is right before it is made again.
    pub(super) async fn wait(
        &mut self,
        client: &BotClient,
        error: &CallError,
        stop: &CancellationToken,
    ) -> Result<Next, TelegramError> {
        if let CallError::Refused(Refused { code: 401, .. }) = error {
            return Err(TelegramError::UnknownToken);
        }
        let (kind, asked) = match error {
            CallError::Refused(Refused { code: 409, .. }) => (Kind::Conflict, 0),
            CallError::Refused(Refused { retry_after: Some(seconds), .. }) => (Kind::Busy, *seconds),
            CallError::Refused(Refused { code: 429 | 500.., .. }) => (Kind::Busy, 0),
            CallError::Refused(_) => (Kind::Refused, 0),
            _ => (Kind::Unreachable, 0),
        };
        let wait = backoff(self.failures).max(Duration::from_secs(asked.min(LONGEST_ASKED)));
        self.failures = self.failures.saturating_add(1);
        let is_new = self.kind.replace(kind) != Some(kind);
        let waiting = async {
            if is_new {
                tell(kind, client, error).await;
            }
            tokio::time::sleep(wait).await;
        };
        let waited = stop.run_until_cancelled(waiting).await;
        Ok(if waited.is_some() { Next::Again } else { Next::Stop })
    }
}

async fn tell(kind: Kind, client: &BotClient, error: &CallError) {
    match kind {
        Kind::Unreachable => tracing::warn!(error = %error, "cannot reach Telegram; retrying with backoff"),
        Kind::Conflict => tracing::warn!("{}; retrying with backoff", explained(client).await),
        Kind::Busy => tracing::warn!(error = %error, "Telegram is overloaded; retrying with backoff"),
        Kind::Refused => tracing::warn!(error = %error, "Telegram refused the request; retrying with backoff"),
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
    client.ask_json("getWebhookInfo", b"{}".to_vec(), Duration::ZERO).await.ok()
}

/// The host of an address; what stands behind it may be a secret.
pub(super) fn host(url: &str) -> String {
    let uri: Option<axum::http::Uri> = url.parse().ok();
    uri.as_ref().and_then(axum::http::Uri::host).unwrap_or("an address").to_owned()
}

/// The wait after so many failures, with jitter, so that not all who lost Telegram at once come back at once.
pub(super) fn backoff(failures: u32) -> Duration {
    let whole = FIRST_WAIT.saturating_mul(1 << failures.min(10)).min(LONGEST_WAIT);
    let mut random = [0];
    // Without randomness there is no jitter, and nothing else is lost.
    let _ = getrandom::fill(&mut random);
    whole / 2 + whole * u32::from(random[0]) / 512
}

/// Waits, but no longer than until `stop`; tells whether it came.
pub(super) async fn stopped_within(wait: Duration, stop: &CancellationToken) -> bool {
    stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_half_a_minute() {
        for (failures, longest) in [(0, 250), (1, 500), (4, 4_000), (7, 30_000), (u32::MAX, 30_000)] {
            let waits: Vec<u128> = (0..20).map(|_| backoff(failures).as_millis()).collect();
            assert!(waits.iter().all(|wait| (longest / 2..=longest).contains(wait)), "{failures}: {waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]), "{failures}: {waits:?}");
        }
    }

    #[test]
    fn of_an_address_only_the_host_is_told() {
        assert_eq!(host("https://bot.example/secret-path?x=1"), "bot.example");
        assert_eq!(host("no address"), "an address");
    }
}
