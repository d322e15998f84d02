//! What others can connect to: `web` and `metrics`.

use std::net::SocketAddr;

use secrecy::SecretString;

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
    pub token: Option<SecretString>,
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
    let token = reader.secret("web.token");
    if let (Some(address), None) = (listen, &token)
        && !address.ip().is_loopback()
        && !reader.is_given("web.token")
        && !reader.is_given("web.token_file")
    {
        let message = format!(
            "`web.listen` opens the page to other machines and there is no `web.token`: set one that visitors must \
             know, or listen on 127.0.0.1:{}",
            address.port()
        );
        reader.wrong("web.listen", message);
    }
    Web { listen, public_url, token }
}

pub(super) fn read_metrics(reader: &mut Reader<'_>) -> Metrics {
    Metrics { listen: reader.listen("metrics.listen", None) }
}
