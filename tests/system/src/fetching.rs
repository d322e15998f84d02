//! The guarded fetcher of the tests. It allows loopback addresses, where the fakes listen.

use std::sync::Arc;

use satchel_http::{FetchSettings, HttpFetcher};
use satchel_ports::Fetcher;

#[must_use]
pub fn fetcher() -> Arc<dyn Fetcher> {
    let allowed = vec!["127.0.0.1".parse().expect("an address")];
    Arc::new(HttpFetcher::new(FetchSettings { allowed, ..FetchSettings::default() }))
}
