//! Calls the HTTP API of a platform for bots, and tells from how a call failed whether it may have been performed.
//!
//! Each platform's adapter brings its own requests, its own reading of answers and its own pace. What comes before an
//! answer can be read is the same everywhere, and so is what follows when none comes. No error, log line or `Debug` of
//! this crate holds an address: a platform may want its token there.

mod activity;
mod client;
mod error;
mod exchange;
mod retry;
mod upload;

#[cfg(test)]
mod stub_server;

pub use activity::{ActivityIndicator, show_while};
pub use client::{ApiClient, ApiClientSettings, ClientError, HttpTimeouts, ServerUrl};
pub use error::{CallError, PlatformError, redact_token};
pub use exchange::{ApiResponse, exchange, read_response};
pub use retry::{Backoff, RetryTracker, random_fraction};
pub use upload::{UploadProgress, open_file_part, with_content_type};
