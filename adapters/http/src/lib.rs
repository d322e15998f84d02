//! The one guarded way out: fetches what others have named, and is never led into the operator's own network.
//!
//! An address is checked where it is connected to, not where it is written: the resolver hands the connector nothing
//! but checked addresses, and the connector uses exactly those. A name that answers differently the next time it is
//! asked (DNS rebinding) is checked the next time too. Redirects are followed by hand, each checked like the first
//! address. No proxy is used, since it would do the connecting, and nothing is sent along that tells who asks.

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
