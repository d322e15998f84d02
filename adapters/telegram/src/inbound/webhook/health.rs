//! Whether Telegram can reach the webhook, according to `getWebhookInfo`. Pure.

use crate::inbound::wire::WebhookInfo;

/// How many characters of Telegram's error text are logged.
const MAX_REASON_CHARS: usize = 200;

/// The webhook's health, as reported by Telegram so far.
#[derive(Debug, Default)]
pub(super) struct WebhookHealth {
    /// When a call failed last, by Telegram's clock.
    last_failure: i64,
    /// The error text that was logged last, until it has recovered.
    reported: Option<String>,
}

/// A change of the health, to be logged.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    None,
    /// Telegram can't reach the webhook.
    Failing {
        /// Telegram's error text, redacted for the log.
        reason: String,
        /// How many updates are pending.
        waiting: u64,
    },
    /// Telegram reaches the webhook again.
    Recovered,
}

impl WebhookHealth {
    /// Records the last error from before the webhook was set, which is not reported.
    pub(super) fn set_baseline(&mut self, info: &WebhookInfo) {
        self.last_failure = info.last_error_date.unwrap_or_default();
    }

    /// Evaluates the current state. While updates are pending, a call that has failed since the last check is a
    /// failure; the same error text is reported once. The reported text contains none of `secrets`.
    pub(super) fn update(&mut self, info: &WebhookInfo, secrets: &[&str]) -> HealthChange {
        let has_failed = info.last_error_date.is_some_and(|date| date > self.last_failure);
        self.last_failure = info.last_error_date.unwrap_or(self.last_failure);
        let waiting = info.pending_update_count;
        if waiting == 0 {
            return if self.reported.take().is_some() { HealthChange::Recovered } else { HealthChange::None };
        }
        let reason = info.last_error_message.as_deref().unwrap_or_default();
        if !has_failed || self.reported.as_deref() == Some(reason) {
            return HealthChange::None;
        }
        self.reported = Some(reason.to_owned());
        HealthChange::Failing { reason: redact(reason, secrets), waiting }
    }
}

/// Returns a text on one line and without secrets.
fn redact(text: &str, secrets: &[&str]) -> String {
    // The path of a URL without one is `/`; replacing that would hide every slash.
    let secrets = secrets.iter().filter(|secret| secret.len() > 1);
    let redacted = secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "<hidden>"));
    redacted.escape_debug().take(MAX_REASON_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(failed: Option<(i64, &str)>, waiting: u64) -> WebhookInfo {
        WebhookInfo {
            url: "https://bot.example/x".to_owned(),
            last_error_date: failed.map(|(date, _)| date),
            last_error_message: failed.map(|(_, words)| words.to_owned()),
            pending_update_count: waiting,
        }
    }

    fn failing(words: &str, waiting: u64) -> HealthChange {
        HealthChange::Failing { reason: words.to_owned(), waiting }
    }

    #[test]
    fn each_webhook_failure_and_recovery_is_reported_once() {
        let mut health = WebhookHealth::default();
        health.set_baseline(&info(Some((10, "of the past")), 3));
        for (failed, waiting, news) in [
            (Some((10, "of the past")), 3, HealthChange::None),
            (Some((11, "Connection refused")), 3, failing("Connection refused", 3)),
            (Some((12, "Connection refused")), 5, HealthChange::None),
            (Some((12, "Connection refused")), 5, HealthChange::None),
            (Some((13, "SSL error")), 6, failing("SSL error", 6)),
            (Some((14, "SSL error")), 0, HealthChange::Recovered),
            (Some((14, "SSL error")), 2, HealthChange::None),
            (Some((15, "SSL error")), 2, failing("SSL error", 2)),
            (None, 0, HealthChange::Recovered),
            (None, 0, HealthChange::None),
            (Some((16, "over before anybody looked")), 0, HealthChange::None),
            (Some((16, "over before anybody looked")), 1, HealthChange::None),
        ] {
            assert_eq!(health.update(&info(failed, waiting), &[]), news, "{failed:?} {waiting}");
        }
    }

    /// The attack: a server in place of the webhook, or a self-hosted Bot API server, injects log lines or secrets.
    #[test]
    fn reported_webhook_error_is_single_line_without_secrets() {
        let words = format!("a\nb\u{202E}c /hook?k=1 https://x.example/hook?k=1 s3cret {}", "x".repeat(1_000));
        let secrets = ["https://x.example/hook?k=1", "/hook?k=1", "s3cret", "/", ""];
        let HealthChange::Failing { reason: words, .. } =
            WebhookHealth::default().update(&info(Some((1, &words)), 1), &secrets)
        else {
            panic!("it is trouble");
        };
        assert!(words.starts_with("a\\nb\\u{202e}c <hidden> <hidden> <hidden> xxx"), "{words}");
        assert_eq!(words.chars().count(), MAX_REASON_CHARS);
    }
}
