//! The ledger on SQLite: one file in the data directory, one writer with group commit, readers beside it.

mod arguments;
mod copy;
mod custom;
mod database;
mod erasure;
mod error;
mod exclusive;
mod gateways;
mod inspect;
mod lanes;
mod open;
mod owners;
mod ports;
mod process;
mod readers;
mod restored;
mod running;
mod schema;
mod search;
mod session;
mod timed_receive;
mod verbs;
mod writer;

use std::sync::Arc;

pub use satchel_ledger::quota::{IsOwner, QuotaRules};
pub use satchel_ledger_sql::{OwnTurns, VerbSettings, WorkScope};
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
    database::Database, gateways::GatewayLocks, owners::OwnerLock, readers::Readers, session::finish, writer::Writer,
};

/// The ledger of one process on a data directory.
///
/// Dropping it waits for the writes that it was given, and ends its leases: what it held, others may take at once, as
/// after a crash.
#[derive(Debug)]
pub struct SqliteLedger {
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

    /// Runs a verb in the writer's next transaction. `operation` says what it does, in the words of an operator.
    async fn write<T, V>(&self, operation: &'static str, verb: V) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        V: AsyncFnOnce(&Database) -> error::Result<T> + Send + 'static,
    {
        self.writer.run(operation, move |db| finish(verb(db))).await
    }

    /// Runs a query beside the writer. `operation` says what it does, in the words of an operator.
    async fn read<T, V>(&self, operation: &'static str, query: V) -> Result<T, LedgerError>
    where
        T: Send + 'static,
        V: AsyncFnOnce(&Database) -> error::Result<T> + Send + 'static,
    {
        self.readers.run(move |db| finish(query(db))).await.map_err(|error| error.at_port(operation))
    }
}
