//! Scripts in worker processes: stand-ins that obey, lie, flood, hang and die at every step, and the real worker.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails ends the test")]

mod attacks;
mod contract;
mod deaths;
mod files;
mod memory;
mod pending;
mod places;
mod real;
mod stage;
mod warm;
