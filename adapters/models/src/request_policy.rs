//! Timeouts and retries of requests to a server.

use std::time::Duration;

use backon::ExponentialBuilder;

/// Timeouts of requests to a server, and retries before the first delta of an answer.
///
/// The defaults stay below the time after which a silent model's turn is ended (`turn.model_silence`), so that a
/// [`FallbackModel`](crate::FallbackModel) still gets its chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPolicy {
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the server may take to start its response; a local one loads the model first.
    pub response_timeout: Duration,
    /// How long the server may send nothing during its response.
    pub idle_timeout: Duration,
    pub max_retries: usize,
    /// The delay before the first retry. Each following one is twice as long, up to `max_delay`.
    pub min_delay: Duration,
    /// The longest delay before a retry. A request whose server demands more is not retried.
    pub max_delay: Duration,
}

impl RequestPolicy {
    /// For the user's own server, which may have to load the model first.
    #[must_use]
    pub fn with_own_server() -> Self {
        Self { response_timeout: Duration::from_secs(100), ..Self::default() }
    }

    /// The delays before the retries. Jitter keeps many lanes from retrying at the same moment.
    pub(crate) fn backoff(&self) -> ExponentialBuilder {
        ExponentialBuilder::new()
            .with_min_delay(self.min_delay)
            .with_max_delay(self.max_delay)
            .with_max_times(self.max_retries)
            .with_jitter()
    }
}

impl Default for RequestPolicy {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(100),
            max_retries: 3,
            min_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(15),
        }
    }
}
