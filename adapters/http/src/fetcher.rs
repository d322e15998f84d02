//! Fetches files over HTTP, redirect by redirect.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use reqwest::{
    Client, Response,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION},
    redirect::Policy,
};
use satchel_ports::{FetchRequest, FetchResponse, Fetcher, FetcherError};
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout_at},
};

use crate::{
    body::{BodyLimits, ContentEncoding, body},
    error::{from_request_error, from_status, redact_url, redact_url_short, rejected, retryable, too_large},
    guard::{CheckedUrl, UrlGuard},
    resolver::{DnsLookup, GuardedResolver, system_lookup},
    settings::FetchSettings,
};

/// How long a connection is kept for the next file.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(25);

/// Fetches files from the public internet, and from where the operator allows it.
pub struct HttpFetcher {
    guard: UrlGuard,
    lookup: DnsLookup,
    settings: FetchSettings,
    /// Connects to checked addresses only.
    guarded: OnceCell<Client>,
    /// Connects to wherever a name leads; for hosts that the operator allows by name.
    anywhere: OnceCell<Client>,
}

impl HttpFetcher {
    /// A fetcher that goes this far. Certificates are read when the first file is fetched: whoever fetches none needs
    /// none.
    #[must_use]
    pub fn new(settings: FetchSettings) -> Self {
        Self::with_lookup(settings, system_lookup())
    }

    /// A fetcher that finds names' addresses in another way.
    pub(crate) fn with_lookup(settings: FetchSettings, lookup: DnsLookup) -> Self {
        Self {
            guard: UrlGuard { allowed: settings.allowed.clone() },
            lookup,
            settings,
            guarded: OnceCell::new(),
            anywhere: OnceCell::new(),
        }
    }

    async fn client(&self, hop: &CheckedUrl) -> Result<&Client, FetcherError> {
        let (client, guard) = match hop.anywhere {
            true => (&self.anywhere, None),
            false => (&self.guarded, Some(self.guard.clone())),
        };
        let resolver = || GuardedResolver { lookup: Arc::clone(&self.lookup), guard };
        let built = client.get_or_try_init(|| async { self.build(resolver()) }).await;
        built.map_err(|error| {
            tracing::warn!(%error, "the system has no root certificates; install the package ca-certificates");
            retryable("the system has no root certificates")
        })
    }

    fn build(&self, resolver: GuardedResolver) -> reqwest::Result<Client> {
        // Whoever installs a provider first has chosen for the whole process.
        let _already = rustls::crypto::ring::default_provider().install_default();
        Client::builder()
            .dns_resolver(Arc::new(resolver))
            // A proxy would look names up and connect by itself.
            .no_proxy()
            // Whether reqwest speaks HTTP/2 is decided by the other crates of a build; what is tested is what ships.
            .http1_only()
            .redirect(Policy::none())
            // Bodies are unpacked here, where the bytes are counted.
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .connect_timeout(self.settings.silence)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .user_agent(concat!("satchel/", env!("CARGO_PKG_VERSION")))
            .build()
    }

    async fn request_hop(&self, hop: &CheckedUrl, deadline: Instant) -> Result<Response, FetcherError> {
        let request = self.client(hop).await?.get(hop.url.clone());
        let request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let until = deadline.min(Instant::now() + self.settings.silence);
        match timeout_at(until, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(from_request_error(&hop.url, &error)),
            Err(_) => Err(retryable(format!("{} didn't answer in time", redact_url_short(&hop.url)))),
        }
    }
}

#[async_trait]
impl Fetcher for HttpFetcher {
    async fn fetch(&self, request: &FetchRequest) -> Result<FetchResponse, FetcherError> {
        let deadline = Instant::now() + self.settings.time_limit;
        let mut hop = self.guard.check_first(&request.url, &request.hosts)?;
        for _ in 0..=self.settings.max_redirects {
            let response = self.request_hop(&hop, deadline).await?;
            match response.status().as_u16() {
                200 => {
                    let bounds = BodyLimits { max_bytes: request.max_bytes, deadline, silence: self.settings.silence };
                    return into_fetched(&hop, response, bounds);
                }
                301 | 302 | 303 | 307 | 308 => {
                    let Some(location) = response.headers().get(LOCATION) else {
                        return Err(rejected(format!("{} redirects without a target", redact_url_short(&hop.url))));
                    };
                    hop = self.guard.check_redirect(&hop.url, location.as_bytes(), &request.hosts)?;
                }
                _ => return Err(from_status(&hop.url, response.status())),
            }
        }
        Err(rejected(format!(
            "more than {} redirects, the last to {}",
            self.settings.max_redirects,
            redact_url_short(&hop.url)
        )))
    }
}

impl fmt::Debug for HttpFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFetcher").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A file of which only the head has been read.
fn into_fetched(hop: &CheckedUrl, response: Response, bounds: BodyLimits) -> Result<FetchResponse, FetcherError> {
    let Some(packed) = packed(response.headers()) else {
        return Err(rejected(format!("{} is compressed in an unsupported way", redact_url_short(&hop.url))));
    };
    let claimed = response.content_length();
    if let Some(bytes) = claimed
        && bytes > bounds.max_packed(packed)
    {
        return Err(too_large(&hop.url, bytes, bounds.max_bytes));
    }
    Ok(FetchResponse {
        url: redact_url(&hop.url),
        mime: mime(response.headers()),
        // What is packed has another size.
        bytes: claimed.filter(|_| packed == ContentEncoding::Identity),
        content: body(response, packed, bounds),
    })
}

/// How a body is packed; nothing where we can't unpack it.
fn packed(headers: &HeaderMap) -> Option<ContentEncoding> {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let Some(encoding) = encodings.next() else { return Some(ContentEncoding::Identity) };
    let encoding = encoding.to_str().ok().filter(|_| encodings.next().is_none())?;
    match encoding.trim().to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => Some(ContentEncoding::Gzip),
        "identity" | "" => Some(ContentEncoding::Identity),
        _ => None,
    }
}

/// The claimed type, without parameters.
fn mime(headers: &HeaderMap) -> Option<String> {
    let claimed = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let essence = claimed.split(';').next()?.trim().to_ascii_lowercase();
    let is_type = essence.split_once('/').is_some_and(|(kind, subtype)| !kind.is_empty() && !subtype.is_empty());
    (is_type && essence.chars().all(|c| c.is_ascii_graphic())).then_some(essence)
}
