//! What an open ledger works with: its owner id among the processes of the data directory, its settings, clock and ids.

use std::{sync::Arc, time::Duration};

use satchel_domain::{ConversationId, Timestamp};
use satchel_ports::{Clock, Ids, ledger::HolderId};
use uuid::Uuid;

use crate::{owners::Owners, usage::QuotaRules};

/// The numbers by which a ledger works.
#[derive(Debug, Clone)]
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
    /// The bytes that files may take up.
    pub quotas: QuotaRules,
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
            quotas: QuotaRules::default(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) owner: HolderId,
    pub(crate) owners: Owners,
    pub(crate) settings: Settings,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Process {
    pub(crate) fn new(
        owner: HolderId,
        owners: Owners,
        settings: Settings,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self { owner, owners, settings, clock, ids }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn new_id(&self) -> Uuid {
        self.ids.next()
    }
}
