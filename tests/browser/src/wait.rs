//! Waits for a condition, with a timeout.

use std::time::{Duration, Instant};

/// Longest wait for one condition.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Polls until there is a value.
///
/// # Panics
/// After the timeout; `what` describes the condition.
pub async fn wait_until<T>(condition: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let started_at = Instant::now();
    loop {
        if let Some(value) = poll().await {
            return value;
        }
        assert!(started_at.elapsed() < WAIT_TIMEOUT, "this did not happen in {WAIT_TIMEOUT:?}: {condition}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
