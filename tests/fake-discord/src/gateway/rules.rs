//! The numbers that the gateway enforces, each with the section of Discord's documentation that states it.

use std::time::Duration;

use crate::gateway::intents::MESSAGE_CONTENT;

/// What is allowed; every number may be changed before the fake is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayRules {
    /// How often a client has to send a heartbeat.
    pub heartbeat_interval: Duration,
    /// How much later than that one may come before the connection is closed.
    pub heartbeat_grace: Duration,
    /// The largest payload that a client may send.
    pub payload_bytes: usize,
    /// How many payloads a client may send on one connection within [`sends_within`](Self::sends_within).
    pub sends: usize,
    /// The time in which payloads are counted.
    pub sends_within: Duration,
    /// How many sessions may be begun within [`session_starts_within`](Self::session_starts_within).
    pub session_starts: usize,
    /// The time in which the beginnings of sessions are counted.
    pub session_starts_within: Duration,
    /// How long the next session has to wait after one has begun; `None` is not at all.
    pub identify_every: Option<Duration>,
    /// How long a session outlives its connection.
    pub resumable_for: Duration,
    /// How many events of a session are buffered for those who resume it.
    pub buffered_events: usize,
    /// How long a connection stays after its client was asked to reconnect.
    pub reconnect_within: Duration,
    /// The privileged intents that the application has.
    pub granted_intents: u64,
}

impl Default for GatewayRules {
    /// Discord's numbers, and no pause between sessions.
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_millis(41_250), // what Discord says; the documentation's example has 45000
            heartbeat_grace: Duration::from_secs(10), // Heartbeat Interval: "There is already tolerance"; not how much
            payload_bytes: 4096,                      // Sending Events: "Must not exceed 4096 bytes"
            sends: 120,                               // Rate Limiting: "120 gateway events per connection"
            sends_within: Duration::from_secs(60),    // Rate Limiting: "every 60 seconds"
            session_starts: 1000,                     // Identifying: "1000 IDENTIFY calls"
            session_starts_within: Duration::from_secs(24 * 60 * 60), // Identifying: "in a 24-hour period"
            identify_every: None,
            resumable_for: Duration::from_secs(180), // Initiating a Disconnect: "timeout after a few minutes"
            buffered_events: 10_000,                 // not documented
            reconnect_within: Duration::from_secs(2), // not documented
            granted_intents: MESSAGE_CONTENT,
        }
    }
}

impl GatewayRules {
    /// The same with Discord's pause between sessions (Session Start Limit: `max_concurrency`, "Number of identify
    /// requests allowed per 5 seconds").
    #[must_use]
    pub fn paced(self) -> Self {
        Self { identify_every: Some(Duration::from_secs(5)), ..self }
    }

    /// The same with heartbeats so fast that a test can wait for some.
    #[must_use]
    pub fn beating(self, interval: Duration) -> Self {
        Self { heartbeat_interval: interval, heartbeat_grace: interval, ..self }
    }
}
