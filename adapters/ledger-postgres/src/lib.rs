//! The ledger in a PostgreSQL database, which processes on several machines share.

mod connect;
mod connections;
mod custom;
mod error;
mod exclusive;
mod gateways;
mod inspect;
mod lanes;
mod ports;
mod process;
mod schema;
mod search;
mod session;
mod tokens;
mod transactions;
mod verbs;

use std::sync::Arc;

pub use satchel_ledger_sql::{OwnTurns, VerbSettings, WorkScope};

pub use crate::{
    connect::ConnectError, exclusive::ExclusivePostgres, inspect::DatabaseInspection, process::Settings,
    schema::SchemaMismatch,
};
use crate::{connections::Connections, process::Process};

/// The ledger of one process on a database that others may share.
///
/// Dropping it ends no lease: others take what it held once the leases have expired.
#[derive(Debug)]
pub struct PostgresLedger {
    process: Arc<Process>,
    connections: Connections,
}
