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
    if listen.is_some_and(|address| address != DEFAULT_LISTEN) {
        reader.not_built("web.listen", "the web page");
    }
    Web { listen, public_url: reader.http_url("web.public_url"), token: reader.secret("web.token") }
}

pub(super) fn read_metrics(reader: &mut Reader<'_>) -> Metrics {
    let listen = reader.listen("metrics.listen", None);
    if listen.is_some() {
        reader.not_built("metrics.listen", "the metrics page");
    }
    Metrics { listen }
}
