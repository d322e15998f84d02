//! From a received message to a turn that the agent can run: access, fetching files, commands, steering.
//!
//! The way in is [`InboundService`], which channel adapters know as [`satchel_ports::Inbound`]; Satchel's own messages
//! come through its [`InternalInbound`]. The worker of a lane turns what is queued into a turn with
//! [`prepare::prepare_turn`], or answers it immediately with [`commands::handle_command`].

pub mod access;
pub mod commands;
mod conversation_service;
pub mod forget;
pub mod inbound_service;
mod internal_inbound;
pub mod joining;
pub mod notifications;
pub mod pairing;
pub mod prepare;
mod refusal_log;
pub mod reminders;
mod sanitize;
pub mod steering;
mod storage_service;
mod strangers;
pub mod system_tasks;

pub use conversation_service::ConversationService;
pub use inbound_service::{ChannelNotHostedError, InboundService};
pub use internal_inbound::InternalInbound;
pub use notifications::NotificationService;
pub use storage_service::StorageService;
