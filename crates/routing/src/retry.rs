//! Writes that must not be given up: what they record has happened already.

use std::{future::Future, time::Duration};

use satchel_ports::LedgerError;
use tokio_util::sync::CancellationToken;

/// The longest delay between two attempts: after an outage the result is stored within seconds.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Writes to the ledger, and again until it takes it: a message that arrived, or a tool that ran, is known nowhere
/// else, so a full disk is waited out. Ends early when `stop` is cancelled, and with every error that trying again
/// can't mend.
///
/// # Errors
/// When the lane is lost, when the ledger refuses the write itself, or with its last failure when the process stops.
pub async fn retry_until_stored<T, W>(stop: &CancellationToken, mut write: impl FnMut() -> W) -> Result<T, LedgerError>
where
    W: Future<Output = Result<T, LedgerError>>,
{
    let mut delay = Duration::from_millis(250);
    loop {
        let error = match write().await {
            Err(error @ (LedgerError::Full | LedgerError::Store { .. })) => error,
            result => return result,
        };
        tracing::error!(
            error = &error as &dyn std::error::Error,
            wait_ms = delay.as_millis(),
            "recording the result failed; retrying"
        );
        if stop.run_until_cancelled(tokio::time::sleep(delay)).await.is_none() {
            return Err(error);
        }
        delay = (delay * 2).min(MAX_DELAY);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_disk_is_waited_out() {
        let tries = Cell::new(0);
        let never = CancellationToken::new();
        let written = retry_until_stored(&never, || {
            tries.set(tries.get() + 1);
            let tried = tries.get();
            async move { if tried < 9 { Err(LedgerError::Full) } else { Ok(tried) } }
        });
        assert_eq!(written.await.unwrap(), 9);
    }

    /// Catches: a wait that has grown so long that the end of an outage goes unnoticed.
    #[tokio::test(start_paused = true)]
    async fn result_is_stored_seconds_after_an_outage() {
        let (never, start, outage) = (CancellationToken::new(), Instant::now(), Duration::from_secs(35));
        let write = || async move { if start.elapsed() < outage { Err(LedgerError::Full) } else { Ok(()) } };
        retry_until_stored(&never, write).await.unwrap();
        let late = start.elapsed() - outage;
        assert!(late <= Duration::from_secs(5), "{late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn retry_stops_on_permanent_error_or_shutdown() {
        let lane = || "console:main".parse().unwrap();
        let stop = CancellationToken::new();
        let lost = retry_until_stored(&stop, || async { Err::<(), _>(LedgerError::LeaseLost(lane())) });
        assert!(matches!(lost.await, Err(LedgerError::LeaseLost(_))));
        stop.cancel();
        assert!(matches!(
            retry_until_stored(&stop, || async { Err::<(), _>(LedgerError::Full) }).await,
            Err(LedgerError::Full)
        ));
    }
}
