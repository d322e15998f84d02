//! Serves HTTP to people and platforms: a bounded number of connections, bounded waiting, and a graceful stop.
//!
//! What is served is an [`axum::Router`]; every door that others can reach has the same limits by being served here.

mod body;
mod connections;
mod peer;
mod timeout_stream;
mod trusted_proxies;

pub use body::{BodyError, read_body};
pub use connections::{ConnectionTimeouts, ServerSettings, serve};
pub use peer::{Peer, is_forwarded, network};
pub use trusted_proxies::{InvalidProxyRange, ProxyRange, client_address};
