//! What one open ledger is to the others on the same data directory: its owner id, its clock and its settings.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use satchel_domain::{ConversationId, Timestamp};
use satchel_ports::ledger::OwnerId;

use crate::owners::Owners;

/// The numbers by which a ledger works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long a lease lives unless it is renewed, while its owner's process lives.
    pub lease: Duration,
    /// How long an album must be quiet before its turn may begin.
    pub album_quiet: Duration,
    /// How long a writer waits for another process's transaction.
    pub busy_timeout: Duration,
    /// How many queries are read at once.
    pub readers: u32,
    /// The size that the database may reach, in bytes; beyond it the ledger is full. `None` leaves it to the disk.
    pub max_bytes: Option<u64>,
    /// The only conversation whose lane this process takes; `None` for all of the channels that it hosts. A terminal
    /// shows one conversation, so replies of another must wait for theirs.
    pub only: Option<ConversationId>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            album_quiet: Duration::from_millis(500),
            busy_timeout: Duration::from_secs(10),
            readers: 4,
            max_bytes: None,
            only: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) owner: OwnerId,
    pub(crate) owners: Owners,
    pub(crate) settings: Settings,
    latest: AtomicI64,
}

impl Process {
    pub(crate) fn new(owner: OwnerId, owners: Owners, settings: Settings) -> Self {
        Self { owner, owners, settings, latest: AtomicI64::new(0) }
    }

    /// The wall clock's time, held where it stands while the wall clock is set back, so that nothing seems to happen
    /// before what caused it.
    pub(crate) fn now(&self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        Timestamp(wall.max(self.latest.fetch_max(wall, Ordering::Relaxed)))
    }
}
