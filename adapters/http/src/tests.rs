//! Attacks on the fetcher, each by a raw server on this machine that answers as it likes.
//!
//! The attacker's server may be asked, by its address and port. A second listener, the victim, may not; it must see no
//! connection, whatever the attacker says.

mod answers;
mod bodies;
mod names;
mod redirects;
mod server;

use std::{io, time::Duration};

use bytes::Bytes;
use futures::TryStreamExt;
use satchel_ports::{FetchRequest, FetchResponse, Fetcher, FetcherError, HostPolicy};

use self::server::StubServer;
use crate::{AllowedTarget, FetchSettings, HttpFetcher};

const LIMIT: u64 = 100_000;

/// Settings of which no test should meet the limits, with what may be asked.
fn settings(allowed: &[String]) -> FetchSettings {
    FetchSettings {
        allowed: allowed.iter().map(|allowed| allowed.parse::<AllowedTarget>().expect("a host or a range")).collect(),
        timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(10),
        ..FetchSettings::default()
    }
}

/// A fetcher that may ask this server and nothing else on this machine.
fn fetcher_for(server: &StubServer) -> HttpFetcher {
    HttpFetcher::new(settings(&[server.address().to_string()]))
}

/// The same, which waits no longer than this for a server that says nothing.
fn fetcher_with_short_idle_timeout(server: &StubServer) -> HttpFetcher {
    let idle_timeout = Duration::from_millis(300);
    HttpFetcher::new(FetchSettings { idle_timeout, ..settings(&[server.address().to_string()]) })
}

/// The same, which gives up after this time whatever the server says.
fn fetcher_with_short_timeout(server: &StubServer) -> HttpFetcher {
    let timeout = Duration::from_millis(600);
    HttpFetcher::new(FetchSettings { timeout, ..settings(&[server.address().to_string()]) })
}

async fn fetch(fetcher: &HttpFetcher, url: &str) -> Result<FetchResponse, FetcherError> {
    fetcher.fetch(&FetchRequest { url: url.to_owned(), hosts: HostPolicy::Public, max_bytes: LIMIT }).await
}

/// Why a fetch was refused; anything else fails the test.
async fn refusal(fetcher: &HttpFetcher, url: &str) -> String {
    match fetch(fetcher, url).await.map(|fetched| fetched.url) {
        Err(FetcherError::Rejected { reason }) => reason,
        other => panic!("{url} is not refused: {other:?}"),
    }
}

/// Everything that came, or how it ended.
async fn read_bytes(fetched: FetchResponse) -> Result<Vec<u8>, io::Error> {
    let chunks: Vec<Bytes> = fetched.content.try_collect().await?;
    Ok(chunks.concat())
}

/// How the body from this server ends.
async fn fetch_body(server: &StubServer) -> Result<Vec<u8>, io::ErrorKind> {
    fetch_body_with(&fetcher_for(server), server).await
}

/// How it ends for this fetcher.
async fn fetch_body_with(fetcher: &HttpFetcher, server: &StubServer) -> Result<Vec<u8>, io::ErrorKind> {
    let fetched = fetch(fetcher, &server.url("/file")).await.expect("an answer");
    read_bytes(fetched).await.map_err(|error| error.kind())
}
