//! Waits of tests for a condition that nothing announces: what is in another process, on the disk, or in a counter.

#![expect(clippy::missing_panics_doc, reason = "a condition that is never met ends the test")]

use std::time::Duration;

/// Longer than any condition takes on a busy machine, and shorter than what the product falls back to where something goes
/// unnoticed: another look for work comes after 30 seconds, the end of a stalled upload after 60.
const TIMEOUT: Duration = Duration::from_secs(25);

/// Pause between two polls.
const INTERVAL: Duration = Duration::from_millis(2);

/// Polls until the condition is met.
pub async fn wait_until(condition: &str, mut is_met: impl FnMut() -> bool) {
    wait_until_async(condition, async || is_met()).await;
}

/// The same for a condition that has to be asked for.
pub async fn wait_until_async(condition: &str, is_met: impl AsyncFnMut() -> bool) {
    assert!(is_met_in_time(is_met).await, "not within {TIMEOUT:?}: {condition}");
}

/// Polls until the condition is met; returns `false` if that takes too long.
pub async fn is_met_in_time(mut is_met: impl AsyncFnMut() -> bool) -> bool {
    let waiting = async {
        while !is_met().await {
            // Nothing announces it.
            tokio::time::sleep(INTERVAL).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.is_ok()
}
