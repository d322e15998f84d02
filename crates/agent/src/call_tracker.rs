//! Lets the calls that run end when their process stops.

use std::{future::Future, time::Duration};

use satchel_ports::LedgerError;
use satchel_routing::retry::retry_until_stored;
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;

/// Counts the calls of a turn that run or are about to start.
#[derive(Debug, Clone, Default)]
pub struct CallTracker(watch::Sender<usize>);

/// A call that runs, until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveCall(watch::Sender<usize>);

/// A call that waits for a person or for the calls before it, until this is dropped: it hasn't started.
#[derive(Debug)]
pub(crate) struct CallPause(watch::Sender<usize>);

impl CallTracker {
    pub(crate) fn track(&self) -> ActiveCall {
        self.0.send_modify(|count| *count += 1);
        ActiveCall(self.0.clone())
    }

    /// Takes one of the running calls out of the count while it waits to start.
    pub(crate) fn pause(&self) -> CallPause {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
        CallPause(self.0.clone())
    }

    /// Waits until the process stops and no call runs any more, but at most `grace` longer than the stop. The caller cuts off
    /// the calls that run then, and their outcomes are unknown.
    pub(crate) async fn wait_until_drained(&self, stop: &CancellationToken, grace: Duration) {
        stop.cancelled().await;
        let mut count = self.0.subscribe();
        // `self` holds the sender, so only the time can run out.
        let drained = timeout(grace, count.wait_for(|count| *count == 0)).await;
        if drained.is_err() && !grace.is_zero() {
            tracing::warn!(grace_s = grace.as_secs(), "calls still run while the process stops; cutting them off");
        }
    }
}

/// Asks the ledger until it answers, also while the process stops: a failure would end the calls that run beside. The stop
/// doesn't wait for it longer than for them.
///
/// # Errors
/// When the lane is lost, or the ledger refuses the request itself.
pub(crate) async fn retry_until_drained<T, W>(request: impl FnMut() -> W) -> Result<T, LedgerError>
where
    W: Future<Output = Result<T, LedgerError>>,
{
    retry_until_stored(&CancellationToken::new(), request).await
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Drop for CallPause {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::Instant;

    use super::*;

    const GRACE: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn stop_waits_for_running_calls_until_they_end_or_time_is_up() {
        let (calls, stop) = (CallTracker::default(), CancellationToken::new());
        let (first, second) = (calls.track(), calls.track());
        let mut drained = Box::pin(calls.wait_until_drained(&stop, GRACE));
        assert!(drained.as_mut().now_or_never().is_none(), "nothing is drained before the stop");
        stop.cancel();
        drop(first);
        assert!(drained.as_mut().now_or_never().is_none(), "one call still runs");
        drop(second);
        assert!(drained.as_mut().now_or_never().is_some());

        let _endless = calls.track();
        let stopped_at = Instant::now();
        calls.wait_until_drained(&stop, GRACE).await;
        let elapsed = stopped_at.elapsed();
        assert!((GRACE..GRACE + Duration::from_secs(1)).contains(&elapsed), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn stop_waits_for_no_person() {
        let (calls, stop) = (CallTracker::default(), CancellationToken::new());
        stop.cancel();
        let _asking = calls.track();
        let pause = calls.pause();
        assert!(calls.wait_until_drained(&stop, GRACE).now_or_never().is_some());
        drop(pause);
        assert!(calls.wait_until_drained(&stop, GRACE).now_or_never().is_none(), "it was allowed and runs");
    }
}
