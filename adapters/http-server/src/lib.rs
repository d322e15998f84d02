//! Serves an [`axum::Router`] over HTTP with bounded connections, timeouts and a graceful stop.
//!
//! The web page, the webhook and the metrics use it, so that everything reachable from outside has the same limits.

mod body;
mod connections;
mod peer;
mod timeout_stream;
mod trusted_proxies;

pub use body::{BodyError, read_body};
pub use connections::{ConnectionTimeouts, ServerSettings, serve};
pub use peer::{Peer, is_forwarded, network};
pub use trusted_proxies::{ParseProxyRangeError, ProxyRange, client_address};
