//! Waits until a fake server's state is as a test wants it.

use std::time::Duration;

use tokio::{
    sync::Notify,
    time::{error::Elapsed, timeout},
};

/// Longer than anything takes on a busy machine.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a condition is met, which is checked after each change.
///
/// # Errors
/// When it isn't within a minute.
pub async fn wait_for_change(changed: &Notify, is_met: impl Fn() -> bool) -> Result<(), Elapsed> {
    let waiting = async {
        loop {
            let mut next = std::pin::pin!(changed.notified());
            // Before the check, so that no change between the two is missed.
            next.as_mut().enable();
            if is_met() {
                return;
            }
            next.await;
        }
    };
    timeout(CONDITION_TIMEOUT, waiting).await
}
