//! Fetches files from URLs that others supply, with protection against server-side request forgery (SSRF).
//!
//! An address is checked where it is connected to, not where it is written: the resolver returns only checked addresses
//! to the connector, which uses exactly those. A name that resolves differently the next time (DNS rebinding) is
//! checked again. Redirects are followed by hand, each checked like the first URL. No proxy is used, since it would
//! make the connection itself, and no header identifies the requester.

mod addresses;
mod body;
mod error;
mod fetcher;
mod guard;
mod resolver;
mod settings;

#[cfg(test)]
mod tests;

pub use fetcher::HttpFetcher;
pub use settings::{AllowedTarget, FetchSettings, ParseAllowedTargetError};
