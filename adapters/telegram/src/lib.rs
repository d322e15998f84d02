//! Telegram: what people write comes in by polling or a webhook, what Satchel answers goes out through the Bot API.
//!
//! [`TelegramChannel`] is the way out and the way to people's files, [`TelegramListener`] the way in. Calls are composed
//! with teloxide's payloads; the wire is our own (`bot`), because whether a message may have arrived has to be told
//! from how a call failed, and teloxide's client doesn't say (ADR 0010).

mod channel;
mod fetch;
mod inbound;

mod address;
mod bot;
mod cache;
mod classify;
mod lookup;
mod message_ids;
mod rate_limiter;
mod render;
mod send;
mod settings;

pub use bot::TelegramError;
pub use channel::TelegramChannel;
pub use inbound::TelegramListener;
pub use satchel_platform_http::HttpTimeouts;
pub use settings::{BotCommand, LookupSettings, TelegramSettings, WebhookSettings};
