//! One client for all calls to a platform: where its server is, and how long it is waited for.

use std::{fmt, net::IpAddr, time::Duration};

use reqwest::{Method, RequestBuilder, Url};
use secrecy::{ExposeSecret, SecretString};

/// How long a connection is kept for the next call. Platforms close idle ones after a minute or so; a call written onto
/// one that is just being closed would be in doubt.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(25);

/// How long a platform is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpTimeouts {
    pub connect: Duration,
    /// For an answer once the request is written. Uploads add the time in which a slow line would carry them once more,
    /// since a server passes them on or stores them before it answers.
    pub answer: Duration,
    /// For the next bytes of an upload to be taken, or of an answer to come.
    pub silence: Duration,
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(10), answer: Duration::from_secs(30), silence: Duration::from_secs(30) }
    }
}

impl HttpTimeouts {
    /// Returns the same, with an answer that may come so much later.
    #[must_use]
    pub fn with_longer_answer(self, longer: Duration) -> Self {
        Self { answer: self.answer + longer, ..self }
    }
}

/// The address of a platform's server. It may hold credentials, and is shown nowhere.
#[derive(Clone)]
pub struct ServerUrl {
    text: SecretString,
    host: String,
    origin: String,
    is_encrypted: bool,
    has_credentials: bool,
}

impl ServerUrl {
    /// Reads `http(s)://host`, with a port and a path if need be; `None` where it is anything else.
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

    fn is_this_machine(&self) -> bool {
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

/// The client can't be built: most often since the system has no certificates to trust.
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
    /// Makes a client. Nobody is called yet.
    ///
    /// Proxies are taken from the environment (`HTTPS_PROXY`), as people behind one expect; none leads to this machine.
    ///
    /// # Errors
    /// When the server's address wants encryption and the system trusts no certificate, or a proxy in the environment
    /// can't be understood.
    pub fn new(settings: ApiClientSettings) -> Result<Self, ClientError> {
        let ApiClientSettings { server, user_agent, http1_only, timeouts } = settings;
        // Whoever installs a provider first has chosen for the whole process.
        let _already = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder()
            .connect_timeout(timeouts.connect)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            // A token in the path or in a header would be sent along.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(user_agent);
        let builder = if http1_only { builder.http1_only() } else { builder };
        let builder = if server.is_encrypted { builder } else { builder.tls_certs_only([]) };
        let builder = if server.is_this_machine() { builder.no_proxy() } else { builder };
        Ok(Self { http: builder.build().map_err(ClientError)?, server, timeouts })
    }

    /// The client beneath, for what is no call, such as a WebSocket. It adds no token.
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

    /// The address of what stands at a path of the server, which begins with a slash. It may hold credentials.
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
    fn loopback_addresses_are_this_machine() {
        for (text, expected) in [
            ("http://localhost:1", true),
            ("http://127.0.0.9", true),
            ("http://[::1]:9", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example", false),
        ] {
            assert_eq!(ServerUrl::parse(text).unwrap().is_this_machine(), expected, "{text}");
        }
    }
}
