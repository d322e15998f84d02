//! The ledger on SQLite: one file in the data directory, one writer with group commit, readers beside it.

mod attachments;
mod audit;
mod batch;
mod checkpoints;
mod complete;
mod drafts;
mod ends;
mod error;
mod forget;
mod held;
mod inbox;
mod inspect;
mod journal;
mod lanes;
mod open;
mod owners;
mod parts;
mod people;
mod ports;
mod process;
mod queries;
mod questions;
mod readers;
mod receive;
mod recorded_messages;
mod records;
mod rename;
mod rows;
mod running;
mod schema;
mod session;
mod settle;
mod turns;
mod undecodable;
mod usage;
mod voice;
mod workspace_usage;
mod writer;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Instant};

use satchel_ports::ledger::{HolderId, LedgerError};

use crate::{
    held::Held,
    owners::OwnerLock,
    process::Process,
    readers::{Reader, Readers},
    writer::Writer,
};
pub use crate::{
    inspect::{Inspection, inspect},
    open::OpenError,
    process::Settings,
    running::{has_database, is_own_entry, open_data_dirs},
    usage::{IsOwner, QuotaRules},
};

/// The ledger of one process on a data directory.
///
/// Dropping it ends its leases: what it held, others may take at once, as after a crash.
#[derive(Debug)]
pub struct SqliteLedger {
    process: Arc<Process>,
    writer: Writer,
    readers: Readers,
    held: Held,
    _lock: OwnerLock,
}

impl SqliteLedger {
    /// Who this process is in leases.
    #[must_use]
    pub fn owner(&self) -> HolderId {
        self.process.owner
    }

    /// How many commits were made since it was opened: each is one fsync, shared by all verbs that waited for it.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Until when a lease that is claimed or renewed now keeps all others from its lane.
    fn lease_end(&self) -> Instant {
        Instant::now() + self.process.settings.lease
    }

    async fn reader(&self, doing: &'static str) -> Result<Reader<'_>, LedgerError> {
        self.readers.lend().await.map_err(|error| error.at_port(doing))
    }
}
