//! Discord: what people write comes in through the gateway, what Satchel answers goes out through the REST API.
//!
//! [`DiscordChannel`] is the way out and the way to people's files. Messages are composed with serenity's builders; the
//! wire is our own (`rest`), because whether a message may have arrived has to be told from how a call failed, and
//! serenity's client doesn't say (ADR 0012).

mod channel;
mod fetch;
mod inbound;

mod gateway;
mod rest;

mod address;
mod cache;
mod classify;
mod digest;
mod find_sent;
mod render;
mod send;
mod settings;
mod snowflake;

pub use channel::DiscordChannel;
pub use gateway::GatewayTimeouts;
pub use inbound::DiscordListener;
pub use rest::DiscordError;
pub use satchel_platform_http::HttpTimeouts;
pub use settings::{DiscordSettings, SlashCommand};
