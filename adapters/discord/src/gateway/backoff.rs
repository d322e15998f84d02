//! How long to wait before Discord is tried again, and how to log an outage once instead of each time.

use std::{fmt::Display, time::Duration};

use satchel_platform_http::{Backoff, PlatformError, random_fraction};

use crate::rest::{ApiError, CallError, DiscordError};

/// The longest wait that Discord can ask for, so that an absurd number doesn't end the bot. Its limit of sessions is
/// one of a day.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// How long the way in waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayTimeouts {
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

impl Default for GatewayTimeouts {
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

impl GatewayTimeouts {
    /// The wait after so many failures.
    pub(crate) fn backoff(&self, failures: u32) -> Duration {
        Backoff { min_delay: self.first_retry, max_delay: self.longest_retry }.delay(failures)
    }

    /// The wait before what is done without for now is asked for again, after so many failures of that.
    pub(crate) fn again(&self, failures: u32) -> Duration {
        Backoff { min_delay: self.first_retry, max_delay: self.unreadable }.delay(failures)
    }

    /// The wait before a session follows one that Discord has ended.
    pub(super) fn before_new_session(&self) -> Duration {
        self.after_invalid.mul_f64(1.0 + 4.0 * random_fraction())
    }

    /// A tracker of calls and connections that have not failed yet.
    pub(crate) fn new_retry_tracker(&self) -> RetryTracker {
        let backoff = Backoff { min_delay: self.first_retry, max_delay: self.longest_retry };
        RetryTracker::new(ApiError::PLATFORM, backoff)
    }
}

/// Something that fails and is tried again. The log tells no outages apart.
pub(crate) type RetryTracker = satchel_platform_http::RetryTracker<()>;

/// Something failed for a reason that the operator wants to know. Returns how long to wait before the next try.
pub(crate) fn next_delay_logged(retries: &mut RetryTracker, error: &dyn Display) -> Duration {
    if retries.start_outage(()) {
        tracing::warn!(error = %error, "cannot reach Discord; retrying with backoff");
    }
    retries.next_delay()
}

/// A call failed. Returns how long to wait before the next try.
///
/// # Errors
/// When Discord doesn't know the token: no further try can help.
pub(crate) fn delay_after_error(retries: &mut RetryTracker, error: &CallError) -> Result<Duration, DiscordError> {
    match error {
        CallError::Refused(ApiError { status: 401, .. }) => Err(DiscordError::UnknownToken),
        CallError::RateLimited { retry_after, .. } => {
            let delay = next_delay_logged(retries, error);
            Ok(delay.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER)))
        }
        _ => Ok(next_delay_logged(retries, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delay_is_capped_at_three_minutes() {
        let waits = GatewayTimeouts::default();
        for (failures, longest) in [(0, 250), (9, 128_000), (10, 180_000), (u32::MAX, 180_000)] {
            assert!((longest / 2..=longest).contains(&waits.again(failures).as_millis()), "{failures}");
        }
    }

    #[test]
    fn a_new_session_waits_one_to_five_seconds() {
        let waits = GatewayTimeouts::default();
        let drawn: Vec<u128> = (0..50).map(|_| waits.before_new_session().as_millis()).collect();
        assert!(drawn.iter().all(|wait| (1_000..=5_000).contains(wait)), "{drawn:?}");
        assert!(drawn.iter().any(|wait| *wait > 2_000) && drawn.iter().any(|wait| *wait < 4_000), "{drawn:?}");
    }

    #[test]
    fn rate_limit_is_awaited_and_invalid_token_fails() {
        let mut retries = GatewayTimeouts::default().new_retry_tracker();
        let limited = |seconds| CallError::RateLimited {
            retry_after: Some(Duration::from_secs(seconds)),
            global: false,
            reason: String::new(),
        };
        assert_eq!(delay_after_error(&mut retries, &limited(90)).unwrap(), Duration::from_secs(90));
        assert_eq!(delay_after_error(&mut retries, &limited(u64::MAX)).unwrap(), MAX_RETRY_AFTER);
        let refused = |status| {
            CallError::Refused(ApiError { status, code: 0, message: String::new(), errors: serde_json::Value::Null })
        };
        assert!(delay_after_error(&mut retries, &refused(500)).is_ok());
        let error = delay_after_error(&mut retries, &refused(401)).unwrap_err().to_string();
        assert!(error.contains("developer portal") && error.contains("Reset Token"), "{error}");
    }
}
