//! From a message as it came to a turn that the agent can run: taking in, fetching files, commands, steering.
//!
//! The way in is [`Reception`], which channel adapters know as [`satchel_ports::Inbound`]; what nobody wrote comes through
//! its [`OwnDoor`]. What is queued, the worker of a lane turns into a turn with [`prepare::fetch_files`], or answers at
//! once with [`commands::answer`].

pub mod access;
pub mod commands;
pub mod errands;
pub mod forget;
mod own_door;
pub mod pairing;
pub mod prepare;
pub mod reception;
mod refusals;
pub mod steering;
mod strangers;

pub use own_door::OwnDoor;
pub use reception::Reception;
