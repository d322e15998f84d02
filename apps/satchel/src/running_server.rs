//! Asks a Satchel that serves an address of this machine about itself.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use serde::Deserialize;

use crate::platforms;

/// How long a server may take to answer.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The largest response that is read from it.
pub(crate) const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// The address by which this machine reaches what listens on an address.
pub(crate) fn local_address(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The version of the Satchel that serves its page at that address; `None` if none does.
pub(crate) async fn identify_server(listen: SocketAddr) -> Option<String> {
    #[derive(Deserialize)]
    struct SessionProbe {
        version: String,
        #[serde(rename = "token_required")]
        _token_required: bool,
    }
    let url = format!("http://{}/api/session", local_address(listen));
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
