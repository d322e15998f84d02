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
    body::{BodyLimits, ContentEncoding, decode_body},
    error::{from_request_error, from_status, redact_url, redact_url_short, rejected, retryable, too_large},
    guard::{CheckedUrl, UrlGuard},
    resolver::{DnsLookup, GuardedResolver, system_lookup},
    settings::FetchSettings,
};

/// How long an idle connection is kept.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(25);

/// Fetches files from the public internet, and from where the operator allows it.
pub struct HttpFetcher {
    guard: UrlGuard,
    lookup: DnsLookup,
    settings: FetchSettings,
    /// Connects to checked addresses only.
    guarded_client: OnceCell<Client>,
    /// Connects to wherever a name leads; for hosts that the operator allows by name.
    unguarded_client: OnceCell<Client>,
}

impl HttpFetcher {
    /// Creates a fetcher. Root certificates are loaded when the first file is fetched.
    #[must_use]
    pub fn new(settings: FetchSettings) -> Self {
        Self::with_lookup(settings, system_lookup())
    }

    /// Creates a fetcher with another DNS lookup.
    pub(crate) fn with_lookup(settings: FetchSettings, lookup: DnsLookup) -> Self {
        Self {
            guard: UrlGuard { allowed: settings.allowed.clone() },
            lookup,
            settings,
            guarded_client: OnceCell::new(),
            unguarded_client: OnceCell::new(),
        }
    }

    async fn client_for(&self, hop: &CheckedUrl) -> Result<&Client, FetcherError> {
        let (client, guard) = match hop.allowed_by_name {
            true => (&self.unguarded_client, None),
            false => (&self.guarded_client, Some(self.guard.clone())),
        };
        let resolver = || GuardedResolver { lookup: Arc::clone(&self.lookup), guard };
        let client_result = client.get_or_try_init(|| async { self.build_client(resolver()) }).await;
        client_result.map_err(|error| {
            tracing::warn!(%error, "the system has no root certificates; install the package ca-certificates");
            retryable("the system has no root certificates")
        })
    }

    fn build_client(&self, resolver: GuardedResolver) -> reqwest::Result<Client> {
        // The first provider that is installed applies to the whole process.
        let _already = rustls::crypto::ring::default_provider().install_default();
        Client::builder()
            .dns_resolver(Arc::new(resolver))
            // A proxy would resolve names and connect by itself, unguarded.
            .no_proxy()
            // Other crates of a build can enable HTTP/2 in reqwest; this keeps the tested protocol the shipped one.
            .http1_only()
            .redirect(Policy::none())
            // Bodies are decompressed in `body`, where their bytes are counted.
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .connect_timeout(self.settings.idle_timeout)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .user_agent(concat!("satchel/", env!("CARGO_PKG_VERSION")))
            .build()
    }

    async fn request_hop(&self, hop: &CheckedUrl, deadline: Instant) -> Result<Response, FetcherError> {
        let request = self.client_for(hop).await?.get(hop.url.clone());
        let request = request.header(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let hop_deadline = deadline.min(Instant::now() + self.settings.idle_timeout);
        match timeout_at(hop_deadline, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(from_request_error(&hop.url, &error)),
            Err(_) => Err(retryable(format!("{} didn't answer in time", redact_url_short(&hop.url)))),
        }
    }
}

#[async_trait]
impl Fetcher for HttpFetcher {
    async fn fetch(&self, request: &FetchRequest) -> Result<FetchResponse, FetcherError> {
        let deadline = Instant::now() + self.settings.timeout;
        let mut hop = self.guard.check_first(&request.url, &request.hosts)?;
        for _ in 0..=self.settings.max_redirects {
            let response = self.request_hop(&hop, deadline).await?;
            match response.status().as_u16() {
                200 => {
                    let limits =
                        BodyLimits { max_bytes: request.max_bytes, deadline, idle_timeout: self.settings.idle_timeout };
                    return into_fetched(&hop, response, limits);
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

/// Converts a response of which only the head has been read.
fn into_fetched(hop: &CheckedUrl, response: Response, limits: BodyLimits) -> Result<FetchResponse, FetcherError> {
    let Some(encoding) = content_encoding(response.headers()) else {
        return Err(rejected(format!("{} is compressed in an unsupported way", redact_url_short(&hop.url))));
    };
    let declared_bytes = response.content_length();
    if let Some(bytes) = declared_bytes
        && bytes > limits.max_encoded_bytes(encoding)
    {
        return Err(too_large(&hop.url, bytes, limits.max_bytes));
    }
    Ok(FetchResponse {
        url: redact_url(&hop.url),
        mime: mime(response.headers()),
        // `Content-Length` is the compressed size.
        bytes: declared_bytes.filter(|_| encoding == ContentEncoding::Identity),
        content: decode_body(response, encoding, limits),
    })
}

/// Returns the compression of a body; `None` if it is unsupported.
fn content_encoding(headers: &HeaderMap) -> Option<ContentEncoding> {
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
