//! What a start does about a server that can't be reached: it fails, or it waits for it.

use std::{error::Error, time::Duration};

use tokio::time::{Instant, sleep};

use crate::config::leaf::amount::ConfigDuration;

/// The pause before a server is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// What is done about a server that can't be reached.
#[derive(Debug, Clone, Copy)]
pub enum ServerWait {
    /// It is an error.
    Never,
    /// It is an error that names `--wait`.
    Offered,
    /// It is tried again, up to this time if there is one.
    Until(Option<Instant>),
}

impl ServerWait {
    /// What `--wait` asks for.
    #[must_use]
    pub fn from_option(wait: Option<Option<ConfigDuration>>) -> Self {
        match wait {
            None => Self::Offered,
            Some(limit) => Self::Until(limit.map(|limit| Instant::now() + limit.0)),
        }
    }

    /// Connects to a server. While it is waited for, the log has one line when that begins and one when it ends.
    ///
    /// # Errors
    /// When the server refuses, and when it can't be reached and isn't waited for any longer.
    pub(crate) async fn connect<T, E, F>(
        self,
        server: &'static str,
        is_retryable: impl Fn(&E) -> bool,
        connect: impl Fn() -> F,
    ) -> anyhow::Result<T>
    where
        E: Error + Send + Sync + 'static,
        F: Future<Output = Result<T, E>>,
    {
        let mut is_waiting = false;
        loop {
            let error = match connect().await {
                Ok(connected) => {
                    if is_waiting {
                        tracing::info!(server, "{server} can be reached; the start goes on");
                    }
                    return Ok(connected);
                }
                Err(error) if is_retryable(&error) => anyhow::Error::new(error),
                Err(error) => return Err(error.into()),
            };
            match self {
                Self::Never => return Err(error),
                Self::Offered => {
                    let advice =
                        format!("{server} is not there; start it first, or wait for it with `satchel run --wait`");
                    return Err(error.context(advice));
                }
                Self::Until(Some(end)) if Instant::now() + RETRY_DELAY >= end => {
                    return Err(error.context(format!("{server} was not there within the time of `--wait`")));
                }
                Self::Until(_) if !is_waiting => {
                    is_waiting = true;
                    tracing::warn!(server, error = format!("{error:#}"), "waiting for {server}");
                }
                Self::Until(_) => {}
            }
            sleep(RETRY_DELAY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::atomic::{AtomicU32, Ordering},
    };

    use super::*;

    /// Connects to a server that is there for the third attempt.
    async fn connect(wait: ServerWait, kind: io::ErrorKind) -> (anyhow::Result<u32>, u32) {
        let attempts = AtomicU32::new(0);
        let is_away = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        let connected = wait.connect("NATS", is_away, || async {
            match attempts.fetch_add(1, Ordering::Relaxed) {
                2.. => Ok(7),
                _ => Err(io::Error::from(kind)),
            }
        });
        (connected.await, attempts.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_server_that_is_away_is_waited_for() {
        let until = |delay: u64| ServerWait::Until(Some(Instant::now() + Duration::from_millis(delay)));
        let away = io::ErrorKind::ConnectionRefused;
        assert_eq!(connect(ServerWait::Until(None), away).await.0.unwrap(), 7);
        assert_eq!(connect(until(60_000), away).await.0.unwrap(), 7);
        for (wait, kind, attempts, text) in [
            (ServerWait::Never, away, 1, "connection refused"),
            (
                ServerWait::Offered,
                away,
                1,
                "NATS is not there; start it first, or wait for it with `satchel run --wait`",
            ),
            (until(800), away, 2, "NATS was not there within the time of `--wait`"),
            (ServerWait::Until(None), io::ErrorKind::PermissionDenied, 1, "permission denied"),
        ] {
            let (connected, tried) = connect(wait, kind).await;
            let error = connected.unwrap_err().to_string();
            assert_eq!((error.as_str(), tried), (text, attempts));
        }
    }
}
