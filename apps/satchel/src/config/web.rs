//! What others can connect to: `web` and `metrics`.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
};

use satchel_http_server::ProxyRange;
use satchel_web::MIN_TOKEN_CHARS;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::{
    leaf::{
        Leaf, ReadFile,
        address::{HttpUrl, ListenAddress},
        leaf,
        list::Texts,
        secret::{MASK, read_secret},
    },
    resolver::Resolver,
};

/// The web page.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WebConfig {
    /// The address and port of the page, or `off`.
    pub listen: ListenAddress,
    /// The address under which other people reach the page, such as `https://satchel.example.com`. With it, files that
    /// a platform doesn't take are sent as links.
    pub public_url: Option<HttpUrl>,
    /// The token that opens the page, of at least 12 characters. One is generated at the first start, in the file
    /// `web-token` of the data directory. `off`, on a loopback address only, opens the page to every account and
    /// program of this machine.
    #[schemars(extend("x-default" = "generated at the first start"))]
    pub token: WebToken,
    /// The proxies whose X-Forwarded-For names the sender of a request: addresses or networks, such as 10.0.0.0/8.
    /// Wrong tokens count for that sender; no other header is believed.
    pub trusted_proxies: Texts,
}

/// The token that opens the page.
#[derive(Debug, Clone)]
pub enum WebToken {
    /// The one in the data directory, generated at the first start.
    Generated,
    /// The one in the configuration.
    Configured(SecretString),
    /// None: anyone on this machine who can connect is the owner.
    Off,
}

/// Metrics for operators.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MetricsConfig {
    /// An address and port that serves /metrics and nothing else, or `off`. The page serves /metrics too.
    pub listen: ListenAddress,
}

leaf!(WebToken);

impl Leaf for WebToken {
    const KIND: &'static str = "secret-or-off";
    const EXPECTED: &'static str = "text, in quotes";
    const IS_SECRET: bool = true;
    const READ_FILE: Option<ReadFile> = Some(read_secret);

    fn schema() -> Json {
        json!({ "type": "string", "pattern": r"\S" })
    }

    fn parse(text: &str, _: &Path) -> Option<Self> {
        match text {
            "off" => Some(Self::Off),
            text => (!text.trim().is_empty()).then(|| Self::Configured(SecretString::from(text))),
        }
    }

    fn show(&self) -> Json {
        match self {
            Self::Generated => Json::Null,
            Self::Configured(_) => json!(MASK),
            Self::Off => json!("off"),
        }
    }
}

impl Default for WebConfig {
    fn default() -> Self {
        let listen = ListenAddress(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8787)));
        Self { listen, public_url: None, token: WebToken::Generated, trusted_proxies: Texts::default() }
    }
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { listen: ListenAddress(None) }
    }
}

impl WebConfig {
    /// The proxies whose forwarded addresses are trusted.
    #[must_use]
    pub fn trusted_proxies(&self) -> Vec<ProxyRange> {
        self.trusted_proxies.0.iter().filter_map(|given| given.parse().ok()).collect()
    }

    /// Checks that a page without a token can't be reached from outside, and that a token is not weak.
    pub(super) fn resolve(&self, resolver: &mut Resolver<'_>) {
        match &self.token {
            WebToken::Generated => {}
            WebToken::Configured(token) => {
                if let Some(message) = token_weakness(token.expose_secret()) {
                    resolver.report("web.token", message);
                }
            }
            WebToken::Off => self.check_reachability(resolver),
        }
        for (index, given) in self.trusted_proxies.0.iter().enumerate() {
            if let Err(error) = given.parse::<ProxyRange>() {
                resolver.report(&format!("web.trusted_proxies[{index}]"), format!("`web.trusted_proxies`: {error}"));
            }
        }
    }

    fn check_reachability(&self, resolver: &mut Resolver<'_>) {
        if let Some(url) = &self.public_url
            && !satchel_web::is_local_url(&url.0)
        {
            let message =
                "`web.token: off` would open the page to everybody who can reach `web.public_url`: remove one of them";
            resolver.report("web.token", message.to_owned());
        }
        if let Some(address) = self.listen.0
            && !address.ip().is_loopback()
        {
            let message = format!(
                "`web.token: off` would open the page at {address} to everybody who can reach it: remove it, or set \
                 `web.listen` to 127.0.0.1:{}",
                address.port()
            );
            resolver.report("web.token", message);
        }
    }
}

/// Why a token is weak: it is short, or a word that was meant to turn it off.
fn token_weakness(token: &str) -> Option<String> {
    if ["off", "no", "none", "false"].iter().any(|word| token.trim().eq_ignore_ascii_case(word)) {
        return Some("`web.token` would be a word that anyone guesses: only `off` removes the token".to_owned());
    }
    (token.chars().count() < MIN_TOKEN_CHARS).then(|| {
        format!(
            "`web.token` can be guessed: take at least {MIN_TOKEN_CHARS} characters, such as four words, or remove it, \
             and a good one is generated"
        )
    })
}
