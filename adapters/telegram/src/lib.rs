//! The Telegram adapter: receives updates by long polling or a webhook, and sends through the Bot API.
//!
//! [`TelegramChannel`] sends parts and fetches files, [`TelegramListener`] receives updates. Requests are composed with
//! teloxide's payloads, but sent by our own client (`bot`): how a request failed decides whether a message may have
//! arrived, and teloxide's client doesn't tell (ADR 0027).

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
mod rich_refusals;
mod send;
mod settings;

pub use bot::TelegramError;
pub use channel::TelegramChannel;
pub use inbound::TelegramListener;
pub use satchel_platform_http::{BotToken, HttpTimeouts};
pub use settings::{BotCommand, LookupSettings, TelegramSettings, WebhookSettings};
