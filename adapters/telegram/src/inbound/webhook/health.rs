//! Whether Telegram gets through to us, as far as it says so itself. Pure.

use crate::inbound::wire::WebhookInfo;

/// How much of Telegram's words is told.
const LONGEST: usize = 200;

/// What Telegram has said of the webhook so far.
#[derive(Debug, Default)]
pub(super) struct WebhookHealth {
    /// When a call failed last, by Telegram's clock.
    failed_at: i64,
    /// The trouble that was told last and isn't over, in Telegram's words.
    reported: Option<String>,
}

/// What there is to tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HealthChange {
    None,
    /// Telegram doesn't get through.
    Failing {
        /// How Telegram puts it, in a form that can be logged.
        words: String,
        /// How many updates wait.
        waiting: u64,
    },
    /// It gets through again.
    Recovered,
}

impl WebhookHealth {
    /// Remembers what happened before the webhook was set: it is of the past.
    pub(super) fn set_baseline(&mut self, info: &WebhookInfo) {
        self.failed_at = info.last_error_date.unwrap_or_default();
    }

    /// Takes in what Telegram says now. While anything waits, a call that has failed since the last look is trouble; the
    /// same words are told once. None of `secrets` is in what is told.
    pub(super) fn update(&mut self, info: &WebhookInfo, secrets: &[&str]) -> HealthChange {
        let has_failed = info.last_error_date.is_some_and(|date| date > self.failed_at);
        self.failed_at = info.last_error_date.unwrap_or(self.failed_at);
        let waiting = info.pending_update_count;
        if waiting == 0 {
            return if self.reported.take().is_some() { HealthChange::Recovered } else { HealthChange::None };
        }
        let words = info.last_error_message.as_deref().unwrap_or_default();
        if !has_failed || self.reported.as_deref() == Some(words) {
            return HealthChange::None;
        }
        self.reported = Some(words.to_owned());
        HealthChange::Failing { words: redact(words, secrets), waiting }
    }
}

/// Words in a form in which they end no line, and without anything that is secret.
fn redact(words: &str, secrets: &[&str]) -> String {
    // What is hidden in an address of nothing but a slash would be every slash.
    let secrets = secrets.iter().filter(|secret| secret.len() > 1);
    let shown = secrets.fold(words.to_owned(), |words, secret| words.replace(secret, "<hidden>"));
    shown.escape_debug().take(LONGEST).collect()
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

    fn trouble(words: &str, waiting: u64) -> HealthChange {
        HealthChange::Failing { words: words.to_owned(), waiting }
    }

    #[test]
    fn each_webhook_failure_and_recovery_is_reported_once() {
        let mut reached = WebhookHealth::default();
        reached.set_baseline(&info(Some((10, "of the past")), 3));
        for (failed, waiting, news) in [
            (Some((10, "of the past")), 3, HealthChange::None),
            (Some((11, "Connection refused")), 3, trouble("Connection refused", 3)),
            (Some((12, "Connection refused")), 5, HealthChange::None),
            (Some((12, "Connection refused")), 5, HealthChange::None),
            (Some((13, "SSL error")), 6, trouble("SSL error", 6)),
            (Some((14, "SSL error")), 0, HealthChange::Recovered),
            (Some((14, "SSL error")), 2, HealthChange::None),
            (Some((15, "SSL error")), 2, trouble("SSL error", 2)),
            (None, 0, HealthChange::Recovered),
            (None, 0, HealthChange::None),
            (Some((16, "over before anybody looked")), 0, HealthChange::None),
            (Some((16, "over before anybody looked")), 1, HealthChange::None),
        ] {
            assert_eq!(reached.update(&info(failed, waiting), &[]), news, "{failed:?} {waiting}");
        }
    }

    /// The attack: whoever answers in our place, or a server of one's own, writes lines into the log, or what is secret.
    #[test]
    fn reported_webhook_error_is_single_line_without_secrets() {
        let words = format!("a\nb\u{202E}c /hook?k=1 https://x.example/hook?k=1 s3cret {}", "x".repeat(1_000));
        let secrets = ["https://x.example/hook?k=1", "/hook?k=1", "s3cret", "/", ""];
        let HealthChange::Failing { words, .. } =
            WebhookHealth::default().update(&info(Some((1, &words)), 1), &secrets)
        else {
            panic!("it is trouble");
        };
        assert!(words.starts_with("a\\nb\\u{202e}c <hidden> <hidden> <hidden> xxx"), "{words}");
        assert_eq!(words.chars().count(), LONGEST);
    }
}
