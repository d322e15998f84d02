//! Runs the core: the lanes with their turns and deliveries, the schedules, and the upkeep of the stores.

pub mod build;
pub mod maintenance;
pub mod retention;
pub mod runner;
#[cfg(feature = "schedules")]
pub mod schedules;

use std::{error::Error, iter::successors};

pub use build::{Runner, Satchel, build};
pub use runner::{TurnSlots, WorkerContext};

/// The error and its causes as text for the log.
fn error_chain(error: &(dyn Error + 'static)) -> String {
    let chain = successors(Some(error), |error| (*error).source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
