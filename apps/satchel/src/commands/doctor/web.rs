//! Checks whether the page and the metrics can be served, and to whom.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    time::Duration,
};

use secrecy::ExposeSecret;
use serde::Deserialize;

use super::Finding;
use crate::{
    commands::run::OPEN_TO_ALL,
    config::{Config, web::WebToken},
    platforms,
};

const CHECK: &str = "web";

/// How long the server on the page's port may take to identify itself.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The largest response that is read from it.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Checks the page's address and its token.
pub(super) async fn check_page(config: &Config) -> Vec<Finding> {
    let Some(address) = config.web.listen.0 else {
        return vec![Finding::warning(
            CHECK,
            "the web page is off; without a bot, `satchel run` has nothing to serve",
            "set `web.listen` to an address such as 127.0.0.1:8787",
        )];
    };
    let mut findings = vec![check_address(address).await];
    let is_public = !address.ip().is_loopback();
    if matches!(config.web.token, WebToken::Off) {
        findings.push(Finding::warning(CHECK, OPEN_TO_ALL, "remove `web.token: off`"));
    }
    let is_encrypted = config.web.public_url.as_ref().is_some_and(|url| url.expose_secret().starts_with("https://"));
    if is_public && !is_encrypted {
        let found = "other machines can reach the page, and the connection is not encrypted";
        let advice = "put an https reverse proxy in front of it, and set `web.public_url` to its address";
        findings.push(Finding::warning(CHECK, found, advice));
    }
    findings
}

/// Checks the address of the metrics.
pub(super) fn check_metrics(config: &Config) -> Option<Finding> {
    let address = config.metrics.listen.0.filter(|address| !address.ip().is_loopback())?;
    Some(Finding::warning(
        "metrics",
        format!("other machines can read the metrics at {address} without a token"),
        "set `metrics.listen` to 127.0.0.1, or restrict access with a firewall",
    ))
}

async fn check_address(address: SocketAddr) -> Finding {
    let error = match TcpListener::bind(address) {
        Ok(_free) => return Finding::ok(CHECK, format!("http://{address}/ is free for the page")),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::AddrInUse => match identify_server(address).await {
            Some(version) => Finding::ok(CHECK, format!("http://{address}/ is served by Satchel {version}")),
            None => Finding::problem(
                CHECK,
                format!("another program listens on {address}"),
                "stop it, or set `web.listen` to another port",
            ),
        },
        ErrorKind::PermissionDenied => Finding::problem(
            CHECK,
            format!("no permission to listen on {address}"),
            "choose a port above 1023, with a reverse proxy in front if you need the lower one",
        ),
        ErrorKind::AddrNotAvailable => Finding::problem(
            CHECK,
            format!("this machine has no address {}", address.ip()),
            "set `web.listen` to an address of this machine; 127.0.0.1 always works",
        ),
        _ => Finding::problem(
            CHECK,
            format!("failed to listen on {address}: {error}"),
            "set `web.listen` to another address",
        ),
    }
}

/// The version of the Satchel at that address, if it is one.
async fn identify_server(address: SocketAddr) -> Option<String> {
    #[derive(Deserialize)]
    struct SessionProbe {
        version: String,
        #[serde(rename = "token_required")]
        _token_required: bool,
    }
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let url = format!("http://{}/api/session", SocketAddr::new(ip, address.port()));
    let http = platforms::local_client().ok()?;
    let mut response = http.get(url).timeout(PROBE_TIMEOUT).send().await.ok()?;
    let body = platforms::read_body(&mut response, MAX_RESPONSE_BYTES).await.ok()??;
    let session: SessionProbe = serde_json::from_slice(&body).ok()?;
    Some(session.version.chars().filter(|c| c.is_ascii_graphic()).take(40).collect())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn who_listens_is_believed_up_to_a_limit() {
        for (filling, is_known) in [(0, true), (MAX_RESPONSE_BYTES, false)] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let serving = tokio::spawn(async move {
                let (mut connection, _) = listener.accept().await.unwrap();
                let _asked = connection.read(&mut [0; 4096]).await.unwrap();
                let session = format!(r#"{{"version": "1.2.3", "token_required": false}}{}"#, " ".repeat(filling));
                let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{session}");
                // A client that has read enough goes away.
                let _gone = connection.write_all(answer.as_bytes()).await;
            });
            let version = identify_server(address).await;
            assert_eq!(version.as_deref(), is_known.then_some("1.2.3"), "{filling} bytes more");
            serving.await.unwrap();
        }
    }
}
