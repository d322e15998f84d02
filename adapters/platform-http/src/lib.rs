//! Client for the HTTP APIs of bot platforms: tells from how a request failed whether it may have been performed.
//!
//! Each platform's adapter brings its own requests, response parsing and rate limits. Transport, timeouts and what a
//! missing response means are the same for all. No error, log line or `Debug` of this crate holds a URL: a platform may
//! expect its token there.

mod account;
mod activity;
mod client;
mod error;
mod exchange;
mod retry;
mod token;
mod upload;

#[cfg(test)]
mod stub_server;

pub use account::{AccountSettings, BotAccount, CheckTokenFn};
pub use activity::{ActivityIndicator, show_while};
pub use client::{ApiClient, ApiClientSettings, ClientError, HttpTimeouts, ServerUrl};
pub use error::{CallError, PlatformError, redact_token};
pub use exchange::{ApiResponse, exchange, read_response};
pub use retry::{Backoff, RetryTracker, random_fraction};
pub use token::{BotToken, ReadSecretFn};
pub use upload::{UploadProgress, open_file_part, with_content_type};
