//! The ledger in a PostgreSQL database, which processes on several machines share.

mod attachments;
mod audit;
mod calls;
mod checkpoints;
mod complete;
mod connect;
mod connections;
mod conversation_settings;
mod database;
mod drafts;
mod error;
mod forget;
mod forget_conversation;
mod gateways;
mod history;
mod inbox;
mod inspect;
mod journal;
mod lanes;
mod listings;
mod parts;
mod people;
mod ports;
mod process;
mod progress;
mod queries;
mod questions;
mod receive;
mod recorded_messages;
mod records;
mod reminders;
mod rename;
mod retry;
mod rows;
mod schema;
mod search;
mod settle;
mod tokens;
mod transactions;
mod turns;
mod undecodable;
mod usage;
mod workspace_usage;

use std::sync::Arc;

pub use crate::{connect::ConnectError, inspect::DatabaseInspection, process::Settings, schema::SchemaMismatch};
use crate::{connections::Connections, process::Process};

/// The ledger of one process on a database that others may share.
///
/// Dropping it ends no lease: others take what it held once the leases have expired.
#[derive(Debug)]
pub struct PostgresLedger {
    process: Arc<Process>,
    connections: Connections,
}
