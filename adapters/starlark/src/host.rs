//! Satchel's side: places, worker processes, and the loop that hears what a script asks.
//!
//! A worker is believed nothing. Whatever it says is measured before it is kept, and whatever it does, it is killed at
//! the deadline: its memory, its processor time and its silence cost the script, never Satchel.

mod error;
mod evaluate;
mod file;
mod framing;
mod measure;
mod pool;
mod slots;
mod worker;

pub use pool::{ScriptPoolSettings, WorkerPool};
pub use worker::{ScriptHostError, probe};
