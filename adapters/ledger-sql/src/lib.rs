//! The verbs of the ledger in SQL, each once for all engines. An engine brings a [`Session`]: a transaction, and what differs.

mod attachments;
mod columns;
mod error;
pub mod lanes;
mod parameters;
mod progress;
mod rows;
pub mod search;
mod session;
pub mod verbs;
mod work_scope;

pub use crate::{
    columns::{FromColumn, FromRow, Row},
    error::VerbError,
    parameters::{Json, Parameter, ParameterType, ToParameter},
    session::{Session, VerbResult, VerbSettings},
    verbs::{records::COUNT_QUEUED_NOTIFICATIONS, undecodable::COUNT_UNDECODABLE},
    work_scope::{OwnTurns, TurnSelection, WorkScope},
};
