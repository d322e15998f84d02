//! How long to wait before a failed call or connection is retried, and how its outage is logged.

use std::{fmt::Display, time::Duration};

use super::{ApiError, CallError, DiscordError};

/// The longest wait that Discord can request, so that an absurd number doesn't end the bot. Its limit of session starts
/// resets daily.
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// Counts failures in a row. All outages are one kind in the log.
pub(crate) type RetryTracker = satchel_platform_http::RetryTracker<()>;

/// Logs an outage, once until it is over. Returns the delay before the next attempt.
pub(crate) fn next_delay_logged(retries: &mut RetryTracker, error: &dyn Display) -> Duration {
    if retries.start_outage(()) {
        tracing::warn!(error = %error, "cannot reach Discord; retrying with backoff");
    }
    retries.next_delay()
}

/// Returns the delay before a failed call is retried.
///
/// # Errors
/// If Discord rejects the token: no further attempt can help.
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
    use crate::GatewayTimeouts;

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
