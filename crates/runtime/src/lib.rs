//! Runs the core: the lanes with their turns and deliveries, the schedules, and the upkeep of the stores.

mod build;
pub mod closure_notices;
pub mod gateway;
pub mod maintenance;
pub mod retention;
mod runner;
#[cfg(feature = "schedules")]
pub mod schedules;
#[cfg(test)]
mod stub_channel;

pub use build::{Runner, Satchel, build};
pub use runner::{HandoverTable, LaneRole, TurnSlots, WorkerContext};
