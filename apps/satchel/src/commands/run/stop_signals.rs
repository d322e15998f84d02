//! The signals that stop a process which serves.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// What SIGTERM and SIGINT cancel.
#[derive(Debug)]
pub struct StopSignals {
    /// The first one ends the process once the calls that run and the messages in flight are finished.
    pub stop: CancellationToken,
    /// The second one ends it at once.
    pub stop_now: CancellationToken,
}

impl StopSignals {
    /// Listens for signals from now on; call it in a Tokio runtime.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> anyhow::Result<Self> {
        let mut terminate = signal(SignalKind::terminate()).context("failed to listen for signals")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for signals")?;
        let signals = Self { stop: CancellationToken::new(), stop_now: CancellationToken::new() };
        let (stop, stop_now) = (signals.stop.clone(), signals.stop_now.clone());
        tokio::spawn(async move {
            let mut next_signal = async || {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            next_signal().await;
            tracing::info!("stopping: what runs and is being sent may finish; a second signal stops immediately");
            stop.cancel();
            next_signal().await;
            stop_now.cancel();
        });
        Ok(signals)
    }
}
