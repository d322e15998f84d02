//! The webhook's door: who may knock, what may be brought, and when it is answered.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::inbound::desk::Desk;

/// The header in which Telegram repeats the secret that the webhook was set with.
const SECRET: &str = "x-telegram-bot-api-secret-token";

/// How many connections are served at once; Telegram opens forty at most.
const AT_ONCE: usize = 128;

/// The largest update: a thousand times the usual one.
const LARGEST: usize = 4 << 20;

/// How long the head of a request, or the next request, may take to come.
const HEAD: Duration = Duration::from_secs(60);

/// How long its body may take.
const BODY: Duration = Duration::from_secs(20);

/// How long requests in flight may take once we stop.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// Whether the webhook seems to be ours, as its calls tell since it was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody has called.
    Untold,
    /// Somebody has called, and only without the secret.
    InDoubt,
    /// Telegram has called with the secret.
    Ours,
}

/// What the server needs to know.
pub(super) struct Door {
    /// Where the calls arrive.
    path: String,
    /// What only Telegram and we know.
    secret: SecretString,
    /// Where updates are handed in.
    desk: Arc<Desk>,
    /// Whether somebody without the secret was refused, so that it is told once.
    has_refused: AtomicBool,
    /// Whether Telegram's last call came to another path, so that it is told once.
    has_missed: AtomicBool,
    /// Whether the webhook seems to be ours.
    standing: watch::Sender<Standing>,
}

impl Door {
    /// A door at which nobody has been yet.
    pub(super) fn new(path: String, secret: SecretString, desk: Arc<Desk>, standing: watch::Sender<Standing>) -> Self {
        let never = || AtomicBool::new(false);
        Self { path, secret, desk, has_refused: never(), has_missed: never(), standing }
    }
}

/// Serves until `stop`, then lets requests in flight end.
pub(super) async fn serve(listener: TcpListener, door: Arc<Door>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Some(Ok(place)) = stop.run_until_cancelled(Arc::clone(&places).acquire_owned()).await else { break };
        let accepted = match stop.run_until_cancelled(listener.accept()).await {
            None => break,
            Some(accepted) => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Such as too many open files: what is open must end before anything else can begin.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (door, stop) = (Arc::clone(&door), stop.clone());
        connections.spawn(async move {
            let answering = service_fn(|request| {
                let door = Arc::clone(&door);
                async move { Ok::<_, Infallible>(answer(&door, request).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD);
            let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), answering));
            tokio::select! {
                _ = connection.as_mut() => {}
                () = stop.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = connection.await;
                }
            }
            drop(place);
        });
    }
    drop(listener);
    let _ = timeout(LAST_REQUESTS, async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
}

/// Answers a call: with 200 only once its update is stored. Anything else makes Telegram call again.
async fn answer(door: &Door, request: Request<Incoming>) -> Response<String> {
    let status = match taken(door, request).await {
        Ok(()) => StatusCode::OK,
        Err(status) => status,
    };
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    response
}

async fn taken(door: &Door, request: Request<Incoming>) -> Result<(), StatusCode> {
    let shown = request.headers().get(SECRET).map(|value| value.as_bytes()).unwrap_or_default();
    let is_telegram = is_same(shown, door.secret.expose_secret().as_bytes());
    if request.uri().path() != door.path {
        // Strangers try paths all day long. Neither path is told, for it may be meant to be secret.
        if is_telegram && !door.has_missed.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "Telegram's calls arrive here at another path than that of `telegram.webhook`, and are refused; whatever \
                 passes them on must leave the path as it is"
            );
        }
        return Err(StatusCode::NOT_FOUND);
    }
    if !is_telegram {
        if !door.has_refused.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a call of the webhook without its secret was refused, and so will be others; if it was Telegram's, \
                 another process has set this webhook with a secret of its own"
            );
        }
        door.standing.send_if_modified(|standing| {
            let is_new = *standing == Standing::Untold;
            *standing = if is_new { Standing::InDoubt } else { *standing };
            is_new
        });
        return Err(StatusCode::FORBIDDEN);
    }
    door.has_missed.store(false, Ordering::Relaxed);
    door.standing.send_replace(Standing::Ours);
    if request.method() != Method::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let body = timeout(BODY, whole(request.into_body())).await.map_err(|_| StatusCode::REQUEST_TIMEOUT)??;
    let raw: Value = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let update = door.desk.read(raw);
    if door.desk.take(&update).await { Ok(()) } else { Err(StatusCode::SERVICE_UNAVAILABLE) }
}

async fn whole(mut body: Incoming) -> Result<Vec<u8>, StatusCode> {
    let mut read = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| StatusCode::BAD_REQUEST)?;
        let piece = frame.into_data().unwrap_or_default();
        if read.len() + piece.len() > LARGEST {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        read.extend_from_slice(&piece);
    }
    Ok(read)
}

/// Compares in a time that tells nothing of how much is right.
fn is_same(shown: &[u8], secret: &[u8]) -> bool {
    let differences = shown.iter().zip(secret).fold(0, |all, (one, other)| all | (one ^ other));
    shown.len() == secret.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_is_the_secret() {
        for (shown, same) in [("abc", true), ("abd", false), ("ab", false), ("abcd", false), ("", false)] {
            assert_eq!(is_same(shown.as_bytes(), b"abc"), same, "{shown}");
        }
        assert!(is_same(b"", b""), "an empty secret is never made");
    }
}
