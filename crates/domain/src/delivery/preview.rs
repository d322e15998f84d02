//! The decisions about a preview: how a growing reply is shown by a text that is no message and vanishes by itself.
//!
//! Nothing of it is stored. It leaves nothing behind that could be sent twice or lost, so that a process that dies has nothing to
//! resolve: the reply is sent once it is complete, as if there had been no preview.

use std::time::Duration;

use super::SendError;
use crate::Timestamp;

/// What is to be done with a preview now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewStep {
    /// Show the text, and answer with [`Preview::on_answer`].
    Show,
    /// Do nothing before this moment.
    Wait(Timestamp),
    /// Do nothing before this moment, unless there is news.
    Rest(Timestamp),
    /// Let the reply grow in a message from now on: a preview would vanish before there is more of it, or was refused.
    Abandon,
}

/// How a channel shows previews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreviewRule {
    /// The least time between two of them.
    pub interval: Duration,
    /// How long one is seen.
    pub ttl: Duration,
}

impl PreviewRule {
    /// How long after it was shown a preview is shown again, a little before it vanishes.
    fn repeat_after(&self) -> Duration {
        self.ttl * 5 / 6
    }
}

/// The preview of a turn under way.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The text of the model that was met last.
    latest: String,
    /// When it was met first.
    news_at: Timestamp,
    /// The text that it shows, and since when, as far as it is known.
    shown: Option<(String, Timestamp)>,
    /// When it may be shown again.
    next_at: Timestamp,
    /// Whether a call may have brought a text to the person.
    may_be_visible: bool,
    is_abandoned: bool,
}

impl Default for Preview {
    fn default() -> Self {
        Self {
            latest: String::new(),
            news_at: Timestamp(0),
            shown: None,
            next_at: Timestamp(0),
            may_be_visible: false,
            is_abandoned: false,
        }
    }
}

impl Preview {
    /// Returns whether the person may have seen something of the reply.
    #[must_use]
    pub fn may_be_visible(&self) -> bool {
        self.may_be_visible
    }

    /// Returns whether the reply grows in a message instead.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    /// Lets the reply grow in a message from now on.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// Says what is to be done to show a text that isn't blank: `text` is all that the model has written, `excerpt` as much of it as
    /// a message holds.
    #[must_use]
    pub fn next_step(&mut self, text: &str, excerpt: &str, now: Timestamp, rule: PreviewRule) -> PreviewStep {
        if self.is_abandoned {
            return PreviewStep::Abandon;
        }
        if text != self.latest {
            text.clone_into(&mut self.latest);
            self.news_at = now;
        }
        let gives_up_at = self.news_at.saturating_add(rule.ttl);
        if now >= gives_up_at {
            return PreviewStep::Abandon;
        }
        match &self.shown {
            Some((shown, since)) if shown == excerpt => {
                let repeat_at = since.saturating_add(rule.repeat_after()).max(self.next_at);
                match now < repeat_at {
                    true => PreviewStep::Rest(repeat_at.min(gives_up_at)),
                    false => PreviewStep::Show,
                }
            }
            _ if now < self.next_at => PreviewStep::Wait(self.next_at.min(gives_up_at)),
            _ => PreviewStep::Show,
        }
    }

    /// Applies the channel's answer to a call that brought this text.
    pub fn on_answer(&mut self, excerpt: &str, answer: Result<(), SendError>, now: Timestamp, rule: PreviewRule) {
        self.next_at = now.saturating_add(rule.interval);
        match answer {
            // What got lost comes with the next one, or with the reply.
            Ok(()) | Err(SendError::InDoubt { .. }) => {
                self.shown = Some((excerpt.to_owned(), now));
                self.may_be_visible = true;
            }
            // The call of a closed channel costs nothing.
            Err(error @ (SendError::NotSent { .. } | SendError::AccountRefused { .. })) => {
                let floor = Duration::from_millis(error.retry_after_ms().unwrap_or(0));
                self.next_at = now.saturating_add(rule.interval.max(floor));
            }
            Err(SendError::Refused { .. } | SendError::Forbidden { .. } | SendError::Unreadable { .. }) => {
                self.abandon()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::Refusal;

    const RULE: PreviewRule = PreviewRule { interval: Duration::from_secs(1), ttl: Duration::from_secs(30) };

    fn at(seconds: u64) -> Timestamp {
        Timestamp(1_000_000).saturating_add(Duration::from_secs(seconds))
    }

    fn step(preview: &mut Preview, text: &str, seconds: u64) -> PreviewStep {
        preview.next_step(text, text, at(seconds), RULE)
    }

    /// A preview that shows "Hello" since the beginning.
    fn showing() -> Preview {
        let mut preview = Preview::default();
        assert_eq!(step(&mut preview, "Hello", 0), PreviewStep::Show);
        preview.on_answer("Hello", Ok(()), at(0), RULE);
        preview
    }

    #[test]
    fn news_is_shown_at_the_interval() {
        let mut preview = showing();
        assert_eq!(step(&mut preview, "Hello.", 0), PreviewStep::Wait(at(1)));
        assert_eq!(step(&mut preview, "Hello. You", 1), PreviewStep::Show);
        assert!(preview.may_be_visible());
    }

    #[test]
    fn preview_is_repeated_before_it_vanishes() {
        let mut preview = showing();
        assert_eq!(step(&mut preview, "Hello", 1), PreviewStep::Rest(at(25)));
        assert_eq!(step(&mut preview, "Hello", 25), PreviewStep::Show);
        // The model writes on beyond what a message holds.
        assert_eq!(preview.next_step("Hello there", "Hello", at(24), RULE), PreviewStep::Rest(at(25)));
        preview.on_answer("Hello", Ok(()), at(25), RULE);
        assert_eq!(preview.next_step("Hello there", "Hello", at(50), RULE), PreviewStep::Show);
    }

    #[test]
    fn silence_ends_the_preview() {
        let mut preview = showing();
        preview.on_answer("Hello", Ok(()), at(25), RULE);
        assert_eq!(step(&mut preview, "Hello", 26), PreviewStep::Rest(at(30)), "it would be seen until 55");
        assert_eq!(step(&mut preview, "Hello", 30), PreviewStep::Abandon);
        preview.abandon();
        assert_eq!(step(&mut preview, "Hello again", 31), PreviewStep::Abandon, "it stays with the message");
    }

    #[test]
    fn wait_of_the_platform_is_a_floor() {
        let mut preview = showing();
        let limited = SendError::NotSent { retry_after_ms: Some(7_000), reason: "429".to_owned() };
        preview.on_answer("Hello there", Err(limited), at(1), RULE);
        assert_eq!(step(&mut preview, "Hello there", 2), PreviewStep::Wait(at(8)));
        assert_eq!(step(&mut preview, "Hello there", 8), PreviewStep::Show);
    }

    #[test]
    fn refusal_ends_the_preview_and_doubt_does_not() {
        let refused = SendError::Refused { refusal: Refusal::BadMarkup, reason: "no".to_owned() };
        for (answer, is_abandoned, may_be_visible) in [
            (Err(refused), true, false),
            (Err(SendError::Forbidden { reason: "no".to_owned() }), true, false),
            (Err(SendError::AccountRefused { reason: "no".to_owned() }), false, false),
            (Err(SendError::InDoubt { reason: "reset".to_owned() }), false, true),
            (Ok(()), false, true),
        ] {
            let mut preview = Preview::default();
            preview.on_answer("Hello", answer.clone(), at(0), RULE);
            assert_eq!(
                (preview.is_abandoned(), preview.may_be_visible()),
                (is_abandoned, may_be_visible),
                "{answer:?}"
            );
        }
    }
}
