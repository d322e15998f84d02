//! Serves the figures at an address of their own, for who may see them and not the page.
//!
//! One route needs no web framework: a request's head is read and answered, one a connection.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use futures::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::CONTENT_TYPE;

/// How long one request may take, from its first byte to the last of its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest head of a request.
const LONGEST_HEAD: usize = 8 * 1024;

/// How many are answered at once; others wait to be accepted.
const AT_ONCE: usize = 16;

/// Makes the text that is served.
pub type Text = Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// Begins to listen.
///
/// # Errors
/// When the address can't be listened on.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("failed to listen on `metrics.listen` {address}"))
}

/// Answers until `stop` is cancelled.
pub async fn serve(listener: TcpListener, text: Text, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(accepted) = stop.run_until_cancelled(accept(&listener, &places)).await {
        let (connection, place) = match accepted {
            Ok(accepted) => accepted,
            // Such as when no file can be opened any more; it may pass.
            Err(error) => {
                tracing::warn!(error = %error, "accepting a connection to the metrics failed");
                sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let text = Arc::clone(&text);
        tokio::spawn(async move {
            // Whoever goes away or dawdles gets no answer; it is their own loss.
            let _answered = timeout(PATIENCE, answer(connection, &text)).await;
            drop(place);
        });
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.expect("the semaphore is never closed");
    Ok((listener.accept().await?.0, place))
}

async fn answer(mut connection: TcpStream, text: &Text) -> std::io::Result<()> {
    let head = read_head(&mut connection).await?;
    let mut words = head.split_ascii_whitespace();
    let (status, kind, body) = match (words.next(), words.next().and_then(|target| target.split('?').next())) {
        (Some("GET" | "HEAD"), Some(_)) if !is_named_safely(&head) => (
            "421 Misdirected Request",
            "text/plain",
            "request the metrics by an IP address or as localhost\n".to_owned(),
        ),
        (Some("GET" | "HEAD"), Some("/metrics")) => ("200 OK", CONTENT_TYPE, text().await),
        (Some("GET" | "HEAD"), Some(_)) => ("404 Not Found", "text/plain", "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET /metrics\n".to_owned()),
    };
    let length = body.len();
    let head_only = head.starts_with("HEAD ");
    let mut reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nx-content-type-options: nosniff\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n"
    );
    if !head_only {
        reply.push_str(&body);
    }
    connection.write_all(reply.as_bytes()).await?;
    connection.shutdown().await
}

/// Whether a request asks for us by a name that nobody else can give us. Any page in a browser on this machine could ask
/// under a name of its own that it lets point here.
fn is_named_safely(head: &str) -> bool {
    let fields = head.lines().skip(1).take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let mut hosts = fields.filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, host)| host.trim());
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => match port.parse::<u16>() {
            Ok(_) => name,
            Err(_) => return false,
        },
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).map(|name| name.parse::<Ipv6Addr>());
    name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok() || matches!(address, Some(Ok(_)))
}

/// Reads up to the empty line that ends a request's head; what is longer or ends sooner is taken as it is.
async fn read_head(connection: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while head.len() < LONGEST_HEAD && !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let read = connection.read(&mut piece).await?;
        if read == 0 {
            break;
        }
        head.extend_from_slice(&piece[..read]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
