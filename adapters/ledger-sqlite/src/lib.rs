//! The ledger on SQLite: one file in the data directory, one writer with group commit, readers beside it.

mod attachments;
mod audit;
mod calls;
mod checkpoints;
mod complete;
mod conversation_settings;
mod copy;
mod database;
mod drafts;
mod error;
mod exclusive;
mod forget;
mod forget_conversation;
mod gateways;
mod history;
mod inbox;
mod inspect;
mod journal;
mod lanes;
mod listings;
mod open;
mod owners;
mod parts;
mod people;
mod ports;
mod process;
mod progress;
mod queries;
mod questions;
mod readers;
mod receive;
mod recorded_messages;
mod records;
mod reminders;
mod rename;
mod restored;
mod retry;
mod rows;
mod running;
mod schema;
mod search;
mod settle;
mod turns;
mod undecodable;
mod usage;
mod workspace_usage;
mod writer;

use std::sync::Arc;

pub use satchel_ledger::quota::{IsOwner, QuotaRules};
use satchel_ports::ledger::LedgerError;
use tokio::sync::Semaphore;

pub use crate::{
    copy::{DatabaseCopy, copy_database},
    exclusive::ExclusiveSqlite,
    inspect::{Inspection, inspect},
    open::{DATABASE, OpenError},
    process::Settings,
    restored::{HeldBack, HeldChoice, ReleaseRequest, RestoredCopy, find_restored_copy},
    running::{has_database, is_own_entry, open_data_dirs},
};
use crate::{
    database::Database, gateways::GatewayLocks, owners::OwnerLock, process::Process, readers::Readers, writer::Writer,
};

/// The ledger of one process on a data directory.
///
/// Dropping it waits for the writes that it was given, and ends its leases: what it held, others may take at once, as
/// after a crash.
#[derive(Debug)]
pub struct SqliteLedger {
    process: Arc<Process>,
    writer: Writer,
    readers: Readers,
    /// Held by the one search that runs.
    search_permit: Arc<Semaphore>,
    gateways: Arc<GatewayLocks>,
    // Behind the writer, whose last commits are still those of this holder.
    _lock: OwnerLock,
}

impl SqliteLedger {
    /// How many commits were made since it was opened: each is one fsync, shared by all verbs that waited for it.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.writer.commits()
    }

    /// Runs a query beside the writer. `operation` says what it does, in the words of an operator.
    async fn read<T, F>(&self, operation: &'static str, query: F) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        F: FnOnce(&Database) -> error::Result<T> + Send + 'static,
    {
        self.readers.run(query).await.map_err(|error| error.at_port(operation))
    }
}
