//! What an open ledger works with: its holder id among the processes of the data directory, its settings, clock and ids.

use std::{sync::Arc, time::Duration};

use satchel_domain::Timestamp;
use satchel_ledger_sql::VerbSettings;
use satchel_ports::{Clock, Ids, ledger::HolderId};

use crate::owners::Owners;

/// The numbers by which a ledger works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Those of every SQL ledger.
    pub verbs: VerbSettings,
    /// How long a writer waits for another process's transaction.
    pub busy_timeout: Duration,
    /// How many queries are read at once.
    pub readers: u32,
    /// The size that the database may reach, in bytes; beyond it the ledger is full. `None` leaves it to the disk.
    pub max_bytes: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { verbs: VerbSettings::default(), busy_timeout: Duration::from_secs(10), readers: 4, max_bytes: None }
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
