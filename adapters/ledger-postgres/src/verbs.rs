//! The verbs that are one transaction: those of every SQL ledger, and those of PostgreSQL.

pub(crate) use satchel_ledger_sql::verbs::*;
use satchel_ledger_sql::{Session, params};

pub(crate) use crate::lanes::longest_wait;
use crate::{error::Result, search, session::Database};

/// Counts the processes that are connected, by the names of their connections.
pub(crate) async fn count_processes(db: &Database) -> Result<usize> {
    let count: i64 = db
        .value(
            "SELECT COUNT(DISTINCT application_name) FROM pg_stat_activity \
             WHERE datname = current_database() AND split_part(application_name, '/', 1) = 'satchel' \
             AND split_part(application_name, '/', 3) = current_schema()",
            params![],
        )
        .await?;
    Ok(usize::try_from(count).unwrap_or(0))
}

pub(crate) async fn index_turns(db: &Database, limit: u32) -> Result<u64> {
    search::index_turns(db, limit, None).await
}
