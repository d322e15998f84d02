//! Resolves host names to addresses that may be connected to.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::guard::UrlGuard;

/// Resolves a host name to its addresses.
pub(crate) type DnsLookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Why a host name is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("its name resolves to {0}")]
    Address(&'static str),
}

/// Resolver of the HTTP client: returns only addresses that pass the guard.
pub(crate) struct GuardedResolver {
    pub(crate) lookup: DnsLookup,
    /// `None` allows every address.
    pub(crate) guard: Option<UrlGuard>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let pending_lookup = (self.lookup)(name.as_str().to_owned());
        let guard = self.guard.clone();
        async move {
            let addresses = pending_lookup.await?;
            // One blocked address rejects them all: a name that mixes public and private addresses is suspicious.
            let blocked = guard.and_then(|guard| addresses.iter().find_map(|address| guard.blocked_reason(*address)));
            match blocked {
                Some(reason) => Err(ResolveError::Address(reason).into()),
                // The connector replaces port 0 with the port of the request.
                None => Ok(Box::new(addresses.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs),
            }
        }
        .boxed()
    }
}

/// Returns the system's resolver.
pub(crate) fn system_lookup() -> DnsLookup {
    Arc::new(|name| {
        async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) }.boxed()
    })
}
