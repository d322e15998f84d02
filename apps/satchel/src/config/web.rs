//! What others can connect to: `web` and `metrics`.

use std::net::SocketAddr;

use satchel_http_server::ProxyRange;
use satchel_web::MIN_TOKEN_CHARS;
use secrecy::{ExposeSecret, SecretString};

use super::reader::Reader;

/// Where the page is served unless something else is said.
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8787);

/// How the web page is served.
#[derive(Debug)]
pub struct Web {
    /// The address and port; `None` for not at all.
    pub listen: Option<SocketAddr>,
    /// The address under which others reach it.
    pub public_url: Option<SecretString>,
    /// What a visitor must know.
    pub token: WebToken,
    /// The proxies that are believed when they say for whom they pass a request on.
    pub trusted_proxies: Vec<ProxyRange>,
}

/// What a visitor must know.
#[derive(Debug, Clone)]
pub enum WebToken {
    /// What was made at the first start and lies in the data directory.
    Generated,
    /// What the configuration says.
    Configured(SecretString),
    /// Nothing: whoever on this machine can connect is taken for the owner.
    Off,
}

/// How figures are served.
#[derive(Debug)]
pub struct Metrics {
    /// The address and port; `None` for not at all.
    pub listen: Option<SocketAddr>,
}

pub(super) fn read(reader: &mut Reader<'_>) -> Web {
    let listen = reader.listen("web.listen", Some(DEFAULT_LISTEN));
    let public_url = reader.http_url("web.public_url");
    let token = match reader.secret_or_off("web.token") {
        None => WebToken::Generated,
        Some(None) => WebToken::Off,
        Some(Some(token)) => WebToken::Configured(token),
    };
    reader.show_default("web.token", "generated at the first start");
    if let WebToken::Configured(token) = &token {
        check_token(reader, token);
    }
    if let (Some(url), WebToken::Off) = (&public_url, &token)
        && !satchel_web::is_local_url(url)
    {
        let message =
            "`web.token: off` would open the page to everybody who can reach `web.public_url`: remove one of them";
        reader.wrong("web.token", message.to_owned());
    }
    if let (Some(address), WebToken::Off) = (listen, &token)
        && !address.ip().is_loopback()
    {
        let message = format!(
            "`web.token: off` would open the page at {address} to everybody who can reach it: remove it, or set \
             `web.listen` to 127.0.0.1:{}",
            address.port()
        );
        reader.wrong("web.token", message);
    }
    let trusted_proxies = trusted_proxies(reader);
    Web { listen, public_url, token, trusted_proxies }
}

/// A token that can be guessed is none, and neither is a word that was meant to turn it off.
fn check_token(reader: &mut Reader<'_>, token: &SecretString) {
    let token = token.expose_secret();
    if ["off", "no", "none", "false"].iter().any(|word| token.trim().eq_ignore_ascii_case(word)) {
        reader.wrong(
            "web.token",
            "`web.token` would be a word that anyone guesses: only `off` removes the token".to_owned(),
        );
    } else if token.chars().count() < MIN_TOKEN_CHARS {
        let message = format!(
            "`web.token` can be guessed: take at least {MIN_TOKEN_CHARS} characters, such as four words, or remove it, \
             and a good one is generated"
        );
        reader.wrong("web.token", message);
    }
}

fn trusted_proxies(reader: &mut Reader<'_>) -> Vec<ProxyRange> {
    let key = "web.trusted_proxies";
    let parse = |given: &str| given.parse().map_err(|error| format!("`{key}`: {error}"));
    let given = reader.checked_texts(key, |given| parse(given).map(|_: ProxyRange| ()));
    given.iter().filter_map(|given| parse(given).ok()).collect()
}

pub(super) fn read_metrics(reader: &mut Reader<'_>) -> Metrics {
    Metrics { listen: reader.listen("metrics.listen", None) }
}
