//! The guarded fetch as the tests use it: this machine, where the fakes are, may be asked.

use std::sync::Arc;

use satchel_http::{FetchSettings, HttpFetcher};
use satchel_ports::Fetcher;

#[must_use]
pub fn fetcher() -> Arc<dyn Fetcher> {
    let allowed = vec!["127.0.0.1".parse().expect("an address")];
    Arc::new(HttpFetcher::new(FetchSettings { allowed, ..FetchSettings::default() }))
}
