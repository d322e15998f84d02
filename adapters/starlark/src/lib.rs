//! Scripts: the [`satchel_ports::ScriptHost`] port by worker processes that evaluate Starlark.
//!
//! A script can end the process that evaluates it, so none is evaluated here (ADR 0006): each gets a worker of its own,
//! `satchel-script`, which knows nothing but the words of [`protocol`].

#[cfg(feature = "host")]
mod host;
pub mod names;
pub mod protocol;

#[cfg(feature = "host")]
pub use host::{ScriptHostError, ScriptPoolSettings, WorkerPool, probe};
