//! What an open ledger works with: its holder id among the processes of the data directory, its settings, clock and ids.

use std::{sync::Arc, time::Duration};

use satchel_domain::{ConversationId, Timestamp};
use satchel_ledger::quota::QuotaRules;
use satchel_ports::{Clock, Ids, ledger::HolderId};

use crate::owners::Owners;

/// The numbers by which a ledger works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a lease lives unless it is renewed, while its owner's process lives.
    pub lease: Duration,
    /// How long an album must be quiet before its turn may begin.
    pub album_quiet: Duration,
    /// How long a writer waits for another process's transaction.
    pub busy_timeout: Duration,
    /// How many messages of its conversation's history a turn brings.
    pub max_history_messages: u32,
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
            max_history_messages: 200,
            readers: 4,
            max_bytes: None,
            only: None,
            quotas: QuotaRules::default(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) holder: HolderId,
    pub(crate) owners: Owners,
    pub(crate) settings: Settings,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    /// In a restored copy: messages that people sent before this moment are held back.
    pub(crate) held_before: Option<Timestamp>,
}
