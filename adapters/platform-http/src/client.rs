//! The HTTP client for one platform: the server's URL and the timeouts.

use std::{fmt, net::IpAddr, time::Duration};

use reqwest::{Method, RequestBuilder, Url};
use secrecy::{ExposeSecret, SecretString};

/// How long an idle connection is kept. Platforms close idle connections after about a minute; a request written to one
/// that is just being closed would be in doubt.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(25);

/// Timeouts of a request to a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpTimeouts {
    pub connect: Duration,
    /// From the end of the request to the response. Uploads add the time in which a slow line would carry them again,
    /// since a server forwards or stores them before it responds.
    pub response: Duration,
    /// Longest pause between two chunks of an upload or of a response.
    pub idle: Duration,
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), response: Duration::from_secs(30), idle: Duration::from_secs(30) }
    }
}

impl HttpTimeouts {
    /// Returns these timeouts with a longer response timeout.
    #[must_use]
    pub fn with_extra_response_time(self, extra: Duration) -> Self {
        Self { response: self.response + extra, ..self }
    }
}

/// The base URL of a platform's server. It may hold credentials and is never shown.
#[derive(Clone)]
pub struct ServerUrl {
    text: SecretString,
    host: String,
    origin: String,
    is_encrypted: bool,
    has_credentials: bool,
}

impl ServerUrl {
    /// Parses `http(s)://host`, with an optional port and path; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches('/');
        let url = Url::parse(text).ok()?;
        let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https"))?;
        if url.query().is_some() || url.fragment().is_some() {
            return None;
        }
        Some(Self {
            text: text.into(),
            host: host.to_owned(),
            origin: url.origin().ascii_serialization(),
            is_encrypted: url.scheme() == "https",
            has_credentials: !url.username().is_empty() || url.password().is_some(),
        })
    }

    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Scheme, host and port, as in `https://discord.com`.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    #[must_use]
    pub fn has_credentials(&self) -> bool {
        self.has_credentials
    }

    fn is_loopback(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerUrl").finish_non_exhaustive()
    }
}

/// What differs between the clients of two platforms.
#[derive(Debug)]
pub struct ApiClientSettings {
    pub server: ServerUrl,
    pub user_agent: &'static str,
    /// Whether HTTP/2 is out of the question, as for a client whose connections may become WebSockets.
    pub http1_only: bool,
    pub timeouts: HttpTimeouts,
}

/// The HTTP client can't be built, usually because the system has no root certificates.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client can't be set up; is the package ca-certificates installed?")]
pub struct ClientError(#[source] reqwest::Error);

/// Calls one server.
#[derive(Clone)]
pub struct ApiClient {
    http: reqwest::Client,
    server: ServerUrl,
    timeouts: HttpTimeouts,
}

impl ApiClient {
    /// Builds a client without connecting.
    ///
    /// Proxies are read from the environment (`HTTPS_PROXY`) and never used for loopback addresses.
    ///
    /// # Errors
    /// When the server's URL is `https` and the system has no root certificates, or when a proxy in the environment is
    /// invalid.
    pub fn new(settings: ApiClientSettings) -> Result<Self, ClientError> {
        let ApiClientSettings { server, user_agent, http1_only, timeouts } = settings;
        // The first provider that is installed applies to the whole process.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder()
            .connect_timeout(timeouts.connect)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            // A token in the path or in a header would be sent along.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(user_agent);
        let builder = if http1_only { builder.http1_only() } else { builder };
        let builder = if server.is_encrypted { builder } else { builder.tls_certs_only([]) };
        let builder = if server.is_loopback() { builder.no_proxy() } else { builder };
        Ok(Self { http: builder.build().map_err(ClientError)?, server, timeouts })
    }

    /// The underlying HTTP client, for requests outside the API such as a WebSocket. It adds no token.
    #[must_use]
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    #[must_use]
    pub fn server(&self) -> &ServerUrl {
        &self.server
    }

    #[must_use]
    pub fn timeouts(&self) -> HttpTimeouts {
        self.timeouts
    }

    /// The URL of a path on the server. `path` starts with a slash; the URL may hold credentials.
    #[must_use]
    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("{}{path}", self.server.text.expose_secret())).expect("a path after a host is an address")
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient").field("timeouts", &self.timeouts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_addresses_without_query_are_servers() {
        for (text, origin) in [
            ("https://api.example", Some("https://api.example")),
            (" http://127.0.0.1:8080/ ", Some("http://127.0.0.1:8080")),
            ("http://name:word@host/path/", Some("http://host")),
            ("ftp://host", None),
            ("host:80", None),
            ("http://host/?x=1", None),
            ("http://host/#x", None),
            ("http://", None),
            ("", None),
        ] {
            assert_eq!(ServerUrl::parse(text).as_ref().map(ServerUrl::origin), origin, "{text}");
        }
    }

    #[test]
    fn credentials_are_noticed_and_never_shown() {
        for (text, expected) in [
            ("http://host", false),
            ("http://name@host", true),
            ("http://:canary@host", true),
            ("http://a:b@host", true),
        ] {
            let server = ServerUrl::parse(text).unwrap();
            assert_eq!(server.has_credentials(), expected, "{text}");
            let settings =
                ApiClientSettings { server, user_agent: "test", http1_only: false, timeouts: HttpTimeouts::default() };
            let shown = format!("{settings:?}");
            let shown = format!("{shown} {:?}", ApiClient::new(settings).unwrap());
            assert!(!shown.contains("canary") && !shown.contains("host"), "{shown}");
        }
    }

    #[test]
    fn paths_are_appended_to_the_server() {
        let server = ServerUrl::parse("http://host:81/base/").unwrap();
        let settings =
            ApiClientSettings { server, user_agent: "test", http1_only: true, timeouts: HttpTimeouts::default() };
        let client = ApiClient::new(settings).unwrap();
        assert_eq!(client.url("/bot1:a/getMe?x=1").as_str(), "http://host:81/base/bot1:a/getMe?x=1");
    }

    #[test]
    fn localhost_and_loopback_addresses_are_loopback() {
        for (text, expected) in [
            ("http://localhost:1", true),
            ("http://127.0.0.9", true),
            ("http://[::1]:9", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example", false),
        ] {
            assert_eq!(ServerUrl::parse(text).unwrap().is_loopback(), expected, "{text}");
        }
    }
}
