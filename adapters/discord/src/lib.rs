//! The Discord adapter: messages arrive through the gateway and are sent through the REST API.
//!
//! [`DiscordChannel`] sends messages and fetches people's files. Messages are composed with serenity's builders; the
//! HTTP client is our own (`rest`), because a failed call must show whether the message may have arrived, and
//! serenity's client doesn't report that (ADR 0012).

mod channel;
mod fetch;
mod inbound;

mod gateway;
mod rest;

mod address;
mod cache;
mod classify;
mod digest;
mod lookup;
mod render;
mod send;
mod settings;
mod snowflake;

pub use channel::DiscordChannel;
pub use inbound::DiscordListener;
pub use rest::DiscordError;
pub use satchel_platform_http::HttpTimeouts;
pub use settings::{DiscordSettings, GatewayTimeouts, SlashCommand};
