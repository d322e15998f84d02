//! Scripts: implements the [`satchel_ports::ScriptHost`] port with worker processes that evaluate Starlark.
//!
//! A script can crash the process that evaluates it, so none is evaluated here (ADR 0006): each gets its own worker,
//! `satchel-script`, which knows nothing but the [`protocol`].

#[cfg(feature = "host")]
mod host;
pub mod names;
pub mod protocol;

#[cfg(feature = "host")]
pub use host::{ScriptPoolSettings, WorkerPool, probe};
