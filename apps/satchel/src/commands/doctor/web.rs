//! Checks whether the page and the metrics can be served, and to whom.

use std::{
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
};

use secrecy::ExposeSecret;

use super::Finding;
use crate::{
    commands::run::OPEN_TO_ALL,
    config::{Config, web::WebToken},
    running_server::identify_server,
};

const CHECK: &str = "web";

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
