//! The verbs that are one transaction: those of every SQL ledger, and those of SQLite.

use satchel_domain::ChannelName;
pub(crate) use satchel_ledger_sql::verbs::*;

pub(crate) use crate::lanes::longest_wait;
use crate::{database::Database, error::Result, search};

/// Counts the processes that have the data directory open.
pub(crate) async fn count_processes(db: &Database) -> Result<usize> {
    Ok(db.process.owners.living()?)
}

pub(crate) async fn index_turns(db: &Database, limit: u32) -> Result<u64> {
    search::index_turns(db, limit, None::<&ChannelName>).await
}
