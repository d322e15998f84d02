//! What goes wrong at the gateway because a test wants it to.

use std::time::Duration;

use crate::gateway::FakeGateway;

/// What goes wrong until it is set right again.
#[derive(Debug, Default)]
pub(super) struct GatewayFaults {
    pub(super) withholds_acks: bool,
    pub(super) delays_acks: Duration,
    pub(super) drops_after: Option<u64>,
    pub(super) refused_identifies: u32,
    pub(super) closes_resumes: Option<u16>,
    pub(super) ignored_resumes: u32,
    pub(super) bad_upgrades: u32,
    pub(super) silent_connections: u32,
    pub(super) is_deaf: bool,
}

impl FakeGateway {
    /// Drops all connections after so many more events have gone out.
    pub fn drop_after(&self, events: u64) {
        self.shared.state().faults.drops_after = Some(events);
    }

    /// Acknowledges no heartbeats until this is set right again.
    pub fn withhold_heartbeat_acks(&self, withhold: bool) {
        self.shared.state().faults.withholds_acks = withhold;
    }

    /// Acknowledges heartbeats so much later.
    pub fn delay_heartbeat_acks(&self, delay: Duration) {
        self.shared.state().faults.delays_acks = delay;
    }

    /// Answers the next so many tries to open a socket with 502 and an HTML page.
    pub fn refuse_upgrades(&self, tries: u32) {
        self.shared.state().faults.bad_upgrades = tries;
    }

    /// Answers the next so many IDENTIFYs with an Invalid Session (opcode 9).
    pub fn refuse_identifies(&self, tries: u32) {
        self.shared.state().faults.refused_identifies = tries;
    }

    /// Says nothing at all on the next so many connections.
    pub fn say_nothing(&self, connections: u32) {
        self.shared.state().faults.silent_connections = connections;
    }

    /// Reads nothing on the connections that are opened from now on, until this is set right again: what a client
    /// writes piles up.
    pub fn read_nothing(&self, is_deaf: bool) {
        self.shared.state().faults.is_deaf = is_deaf;
    }

    /// Closes the connection of whoever sends a RESUME with this code, until this is set right again.
    pub fn close_resumes_with(&self, code: Option<u16>) {
        self.shared.state().faults.closes_resumes = code;
    }

    /// Answers the next so many RESUMEs nothing; the connection stays, and heartbeats are acknowledged.
    pub fn ignore_resumes(&self, tries: u32) {
        self.shared.state().faults.ignored_resumes = tries;
    }
}
