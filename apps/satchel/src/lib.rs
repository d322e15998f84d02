//! The binary as a library, and the core for programs that embed it.
//!
//! Without its default features this crate is [`embed`]: the ports put together, without a command line, a
//! configuration or a platform. The feature `application` adds what the binary is made of; `discord`, `models`,
//! `scripts`, `speech`, `telegram`, `terminal` and `web` each add one adapter.

pub mod agents;
pub mod build;
pub mod embed;
pub mod metered_workspace;
pub mod ports;
pub mod runtime;

#[cfg(feature = "application")]
pub mod adapters;
#[cfg(feature = "application")]
mod application;
#[cfg(feature = "application")]
mod backups;
#[cfg(feature = "application")]
pub mod cli;
#[cfg(feature = "application")]
pub mod commands;
#[cfg(feature = "application")]
pub mod config;
#[cfg(feature = "application")]
mod event_bus;
#[cfg(feature = "application")]
pub mod logging;
#[cfg(feature = "application")]
mod media_measuring_blobs;
#[cfg(feature = "application")]
pub mod models;
#[cfg(feature = "application")]
pub mod options;
#[cfg(feature = "application")]
mod own_paths;
#[cfg(feature = "application")]
pub mod platforms;
#[cfg(feature = "application")]
mod running_server;
#[cfg(feature = "application")]
pub mod server_wait;
#[cfg(feature = "application")]
pub mod stores;

#[cfg(feature = "application")]
pub use application::start;
