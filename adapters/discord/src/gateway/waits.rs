//! How long to wait before Discord is tried again, and how to tell of trouble once instead of each time.

use std::{fmt::Display, time::Duration};

use crate::rest::{CallError, DiscordError, Refused};

/// The longest wait that Discord can ask for, so that an absurd number doesn't end the bot. Its limit of sessions is
/// one of a day.
pub(super) const LONGEST_ASKED: Duration = Duration::from_secs(24 * 3_600);

/// How long the way in waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayWaits {
    /// Between the begin of one session and that of the next: Discord takes one in five seconds.
    pub between_sessions: Duration,
    /// Before a session follows one that Discord has ended: Discord wants once to five times as much.
    pub after_invalid: Duration,
    /// After a first failure; it doubles with each further one.
    pub first_retry: Duration,
    pub longest_retry: Duration,
    /// Between two times that the place in the stream is kept.
    pub bookmark: Duration,
    /// For something that can't be read while all else can, such as a channel's history, before it is done without for
    /// now. It is the longest time, too, for which what was done without is left alone before it is asked for again.
    pub unreadable: Duration,
    /// For a guild that is out of order, before the others go on without it.
    pub guilds: Duration,
}

impl Default for GatewayWaits {
    fn default() -> Self {
        Self {
            between_sessions: Duration::from_secs(5),
            after_invalid: Duration::from_secs(1),
            first_retry: Duration::from_millis(250),
            longest_retry: Duration::from_secs(60),
            bookmark: Duration::from_secs(1),
            unreadable: Duration::from_secs(180),
            guilds: Duration::from_secs(60),
        }
    }
}

impl GatewayWaits {
    /// The wait after so many failures, with jitter, so that not all who lost Discord at once come back at once.
    pub(crate) fn backoff(&self, failures: u32) -> Duration {
        let whole = self.first_retry.saturating_mul(1 << failures.min(20)).min(self.longest_retry);
        whole / 2 + whole.mul_f64(random() / 2.0)
    }

    /// The wait before what is done without for now is asked for again, after so many failures of that.
    pub(crate) fn again(&self, failures: u32) -> Duration {
        Self { longest_retry: self.unreadable, ..*self }.backoff(failures)
    }

    /// The wait before a session follows one that Discord has ended.
    pub(super) fn before_new_session(&self) -> Duration {
        self.after_invalid.mul_f64(1.0 + 4.0 * random())
    }
}

/// A number from 0 to 1. Without randomness there is no jitter, and nothing else is lost.
pub(super) fn random() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

/// Something that fails and is tried again.
#[derive(Debug)]
pub(crate) struct Trouble {
    waits: GatewayWaits,
    failures: u32,
    told: bool,
}

impl Trouble {
    /// None so far.
    pub(crate) fn new(waits: GatewayWaits) -> Self {
        Self { waits, failures: 0, told: false }
    }

    /// It works, and is expected to go on working.
    pub(crate) fn is_over(&mut self) {
        self.answers();
        self.failures = 0;
    }

    /// It works for the moment. Says so in the log if it was said that it didn't.
    pub(crate) fn answers(&mut self) {
        if std::mem::take(&mut self.told) {
            tracing::info!("Discord answers again");
        }
    }

    /// It failed as things fail now and then. Returns how long to wait before the next try.
    pub(crate) fn again(&mut self) -> Duration {
        let wait = self.waits.backoff(self.failures);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// It failed for a reason that the operator wants to know. Returns how long to wait before the next try.
    pub(crate) fn again_because(&mut self, error: &dyn Display) -> Duration {
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(error = %error, "cannot reach Discord; retrying with backoff");
        }
        self.again()
    }

    /// A call failed. Returns how long to wait before the next try.
    ///
    /// # Errors
    /// When Discord doesn't know the token: no further try can help.
    pub(crate) fn after_call(&mut self, error: &CallError) -> Result<Duration, DiscordError> {
        match error {
            CallError::Refused(Refused { status: 401, .. }) => Err(DiscordError::UnknownToken),
            CallError::RateLimited { retry_after, .. } => {
                Ok(self.again_because(error).max(retry_after.unwrap_or_default().min(LONGEST_ASKED)))
            }
            _ => Ok(self.again_because(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute() {
        let waits = GatewayWaits::default();
        for (failures, longest) in [(0, 250), (1, 500), (4, 4_000), (8, 60_000), (u32::MAX, 60_000)] {
            let drawn: Vec<u128> = (0..20).map(|_| waits.backoff(failures).as_millis()).collect();
            assert!(drawn.iter().all(|wait| (longest / 2..=longest).contains(wait)), "{failures}: {drawn:?}");
            assert!(drawn.iter().any(|wait| *wait != drawn[0]), "{failures}: {drawn:?}");
        }
    }

    #[test]
    fn what_is_done_without_is_asked_for_at_least_every_three_minutes() {
        let waits = GatewayWaits::default();
        for (failures, longest) in [(0, 250), (9, 128_000), (10, 180_000), (u32::MAX, 180_000)] {
            assert!((longest / 2..=longest).contains(&waits.again(failures).as_millis()), "{failures}");
        }
    }

    #[test]
    fn a_new_session_waits_one_to_five_seconds() {
        let waits = GatewayWaits::default();
        let drawn: Vec<u128> = (0..50).map(|_| waits.before_new_session().as_millis()).collect();
        assert!(drawn.iter().all(|wait| (1_000..=5_000).contains(wait)), "{drawn:?}");
        assert!(drawn.iter().any(|wait| *wait > 2_000) && drawn.iter().any(|wait| *wait < 4_000), "{drawn:?}");
    }

    #[test]
    fn a_rate_limit_is_waited_for_and_a_wrong_token_is_not() {
        let mut trouble = Trouble::new(GatewayWaits::default());
        let limited = |seconds| CallError::RateLimited {
            retry_after: Some(Duration::from_secs(seconds)),
            global: false,
            reason: String::new(),
        };
        assert_eq!(trouble.after_call(&limited(90)).unwrap(), Duration::from_secs(90));
        assert_eq!(trouble.after_call(&limited(u64::MAX)).unwrap(), LONGEST_ASKED);
        let refused = |status| {
            CallError::Refused(Refused { status, code: 0, message: String::new(), errors: serde_json::Value::Null })
        };
        assert!(trouble.after_call(&refused(500)).is_ok());
        let error = trouble.after_call(&refused(401)).unwrap_err().to_string();
        assert!(error.contains("developer portal") && error.contains("Reset Token"), "{error}");
    }
}
