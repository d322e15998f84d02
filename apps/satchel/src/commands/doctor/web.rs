//! Whether the page can be served, and to whom.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    time::Duration,
};

use reqwest::Client;
use secrecy::ExposeSecret;
use serde::Deserialize;

use super::Finding;
use crate::config::Config;

const CHECK: &str = "web";

/// A token that is shorter can be guessed.
const SHORT: usize = 12;

/// How long whoever listens on the page's port may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(3);

/// Looks at the page's address and its token.
pub(super) async fn page(config: &Config, http: &Client) -> Vec<Finding> {
    let Some(address) = config.web.listen else {
        return vec![Finding::warning(
            CHECK,
            "the page is off, and so `satchel run` has nothing to serve",
            "set `web.listen` to an address such as 127.0.0.1:8787",
        )];
    };
    let mut findings = vec![at(address, http).await];
    let opened = !address.ip().is_loopback();
    if config.web.token.as_ref().is_some_and(|token| token.expose_secret().chars().count() < SHORT) {
        let found = format!("`web.token` is shorter than {SHORT} characters");
        findings.push(Finding::warning(CHECK, found, "choose one that nobody guesses, such as four words"));
    }
    let encrypted = config.web.public_url.as_ref().is_some_and(|url| url.expose_secret().starts_with("https://"));
    if opened && !encrypted {
        let found = "the page is open to other machines and what is said on it is not encrypted on the way";
        let advice = "put a server in front of it that speaks https, and set `web.public_url` to its address";
        findings.push(Finding::warning(CHECK, found, advice));
    }
    findings
}

async fn at(address: SocketAddr, http: &Client) -> Finding {
    let error = match TcpListener::bind(address) {
        Ok(_free) => return Finding::ok(CHECK, format!("http://{address}/ is free for the page")),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::AddrInUse => match who_is_at(address, http).await {
            Some(version) => Finding::ok(CHECK, format!("http://{address}/ is served by Satchel {version}")),
            None => Finding::problem(
                CHECK,
                format!("another program listens on {address}"),
                "end it, or set `web.listen` to another port",
            ),
        },
        ErrorKind::PermissionDenied => Finding::problem(
            CHECK,
            format!("this user may not listen on {address}"),
            "choose a port above 1023, with a server in front of it where the other is needed",
        ),
        ErrorKind::AddrNotAvailable => Finding::problem(
            CHECK,
            format!("this machine has no address {}", address.ip()),
            "set `web.listen` to one that it has; 127.0.0.1 is always there",
        ),
        _ => Finding::problem(CHECK, format!("{address} can't be listened on: {error}"), "set `web.listen` to another"),
    }
}

/// The version of the Satchel that answers there, if it is one.
async fn who_is_at(address: SocketAddr, http: &Client) -> Option<String> {
    #[derive(Deserialize)]
    struct Session {
        version: String,
        #[serde(rename = "token_required")]
        _token_required: bool,
    }
    let near = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let url = format!("http://{}/api/session", SocketAddr::new(near, address.port()));
    let session: Session = http.get(url).timeout(PATIENCE).send().await.ok()?.json().await.ok()?;
    Some(session.version.chars().filter(|c| c.is_ascii_graphic()).take(40).collect())
}
