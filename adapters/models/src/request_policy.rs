//! How long a server is waited for, and how often it is asked again.

use std::time::Duration;

use backon::ExponentialBuilder;

/// How long a server is waited for, and how often it is asked again before the first piece of an answer.
///
/// The defaults stay below the time after which a silent model's turn is ended (`turn.model_silence`), so that a
/// [`FallbackModel`](crate::FallbackModel) still gets its chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPolicy {
    /// Until a connection is there.
    pub connect: Duration,
    /// Until the server begins to answer; a local one loads the model first.
    pub begin: Duration,
    /// Between two signs of life while it answers.
    pub silence: Duration,
    /// How often it is asked again.
    pub repeats: usize,
    /// The wait before the first repeat. Each following one is twice as long, up to `longest_wait`.
    pub first_wait: Duration,
    /// The longest wait before a repeat. A server that asks for more is not asked again.
    pub longest_wait: Duration,
}

impl RequestPolicy {
    /// For a server of one's own, which may have to load the model first.
    #[must_use]
    pub fn with_own_server() -> Self {
        Self { begin: Duration::from_secs(100), ..Self::default() }
    }

    /// The waits before the repeats. Jitter keeps many lanes from coming back at the same moment.
    pub(crate) fn backoff(&self) -> ExponentialBuilder {
        ExponentialBuilder::new()
            .with_min_delay(self.first_wait)
            .with_max_delay(self.longest_wait)
            .with_max_times(self.repeats)
            .with_jitter()
    }
}

impl Default for RequestPolicy {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            begin: Duration::from_secs(60),
            silence: Duration::from_secs(100),
            repeats: 3,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(15),
        }
    }
}
