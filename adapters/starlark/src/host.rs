//! Satchel's side: slots, worker processes, and the loop that serves a script's requests.
//!
//! A worker is not trusted. Its messages are measured before they are kept, and it is killed at the deadline whatever
//! it does: its memory, its processor time and its silence affect the script, never Satchel.

mod error;
mod evaluate;
mod file;
mod measure;
mod pool;

pub use pool::{ScriptPoolSettings, WorkerPool, probe};
