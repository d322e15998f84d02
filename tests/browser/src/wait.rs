//! Waiting for what is to become true, and not for ever.

use std::time::{Duration, Instant};

/// After how long something is taken for never.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(25);

/// Asks again and again until there is an answer.
///
/// # Panics
/// When there is none in a minute; `what` says what was waited for.
pub async fn until<T>(what: &str, mut asked: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = asked().await {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "this did not happen in {PATIENCE:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}
