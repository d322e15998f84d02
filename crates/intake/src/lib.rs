//! From a message as it came to a turn that the agent can run: taking in, fetching files, commands, steering.
//!
//! The way in is [`Reception`], which channel adapters know as [`satchel_ports::Inbound`]; what nobody wrote comes through
//! its [`OwnDoor`]. What is queued, the worker of a lane turns into a turn with [`prepare::fetch_files`], or answers at
//! once with [`commands::answer`].

pub mod access;
pub mod commands;
pub mod forget;
pub mod inbound_service;
mod internal_inbound;
pub mod pairing;
pub mod prepare;
mod refusal_log;
pub mod steering;
mod strangers;
pub mod system_tasks;

pub use inbound_service::InboundService;
pub use internal_inbound::InternalInbound;
