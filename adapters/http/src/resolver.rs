//! Turns names into addresses that may be connected to.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::guard::UrlGuard;

/// Finds a name's addresses, as the system does.
pub(crate) type DnsLookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// Why a name is not connected to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    #[error("its name resolves to {0}")]
    Address(&'static str),
}

/// Hands the connector the addresses of a name, which it then uses and no others.
pub(crate) struct GuardedResolver {
    pub(crate) lookup: DnsLookup,
    /// Nobody where every address will do.
    pub(crate) guard: Option<UrlGuard>,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let found = (self.lookup)(name.as_str().to_owned());
        let guard = self.guard.clone();
        async move {
            let found = found.await?;
            // One address that may not be asked spoils them all: whoever owns the name mixes them for a reason.
            let forbidden = guard.and_then(|guard| found.iter().find_map(|address| guard.blocked_reason(*address)));
            match forbidden {
                Some(what) => Err(ResolveError::Address(what).into()),
                // The connector puts the port of the request in the place of none.
                None => Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs),
            }
        }
        .boxed()
    }
}

/// What the system finds.
pub(crate) fn system_lookup() -> DnsLookup {
    Arc::new(|name| {
        async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) }.boxed()
    })
}
