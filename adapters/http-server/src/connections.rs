//! Accepts and serves connections, with limits on their number, timeouts, and a graceful shutdown.

use std::{
    collections::HashMap,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{Router, body::Body, http::Request};
use futures::future::BoxFuture;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    ProxyRange,
    peer::{self, Peer},
    timeout_stream::WriteTimeoutStream,
    trusted_proxies,
};

/// How many connections one peer may have. Loopback, where a proxy may run, and trusted proxies are exempt.
const MAX_CONNECTIONS_PER_PEER: usize = 64;

/// Buffer for what a client still sends after its response.
const LINGER_BUFFER_BYTES: usize = 64 * 1024;

/// Timeouts of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionTimeouts {
    /// Until the head of a request, or of the next one, is complete.
    pub head: Duration,
    /// Longest time without progress of a write.
    pub write: Duration,
    /// For requests in flight after a stop.
    pub drain: Duration,
    /// For a client to read its response while it still sends.
    pub linger: Duration,
    /// For a whole connection; `None` where responses are endless streams.
    pub connection: Option<Duration>,
}

impl Default for ConnectionTimeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(30),
            write: Duration::from_secs(60),
            drain: Duration::from_secs(10),
            linger: Duration::from_secs(5),
            connection: None,
        }
    }
}

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub timeouts: ConnectionTimeouts,
    /// How many connections are served at once; further ones wait to be accepted.
    pub max_connections: usize,
    /// The largest head of a request, and the most of a body that is held in memory: 8 KiB at least.
    pub buffer_bytes: usize,
    /// Proxies whose connections carry many clients.
    pub trusted_proxies: Vec<ProxyRange>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            timeouts: ConnectionTimeouts::default(),
            max_connections: 1024,
            buffer_bytes: 64 * 1024,
            trusted_proxies: Vec::new(),
        }
    }
}

/// Serves connections until `stop`, then drains requests in flight.
///
/// Every request carries its [`Peer`] as an extension. The number of connections per peer is limited, except for
/// loopback and trusted proxies, which carry many clients.
pub async fn serve(listener: TcpListener, router: Router, settings: ServerSettings, stop: CancellationToken) {
    let ServerSettings { timeouts, max_connections, buffer_bytes, trusted_proxies } = settings;
    let slots = Arc::new(Semaphore::new(max_connections));
    let peers = Arc::new(PeerConnections { trusted_proxies, ..PeerConnections::default() });
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let pending_permit = Arc::clone(&slots).acquire_owned();
        let Some(Ok(permit)) = stop.run_until_cancelled(pending_permit).await else { break };
        let accepted = match stop.run_until_cancelled(listener.accept()).await {
            None => break,
            Some(accepted) => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // One above the limit is closed at once, so that it delays no other peer.
                let Some(peer_connection) = peers.try_acquire(peer.ip()) else { continue };
                let serving = serve_connection(stream, peer, router.clone(), timeouts, buffer_bytes, stop.clone());
                connections.spawn(async move {
                    match timeouts.connection {
                        Some(max_duration) => drop(timeout(max_duration, serving).await),
                        None => serving.await,
                    }
                    drop((permit, peer_connection));
                });
            }
            // Such as too many open files: wait for some to be closed.
            Err(error) => {
                tracing::warn!(error = %error, "accepting a connection failed");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let _ = timeout(timeouts.drain, async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
}

/// How many connections each peer has.
#[derive(Debug, Default)]
struct PeerConnections {
    trusted_proxies: Vec<ProxyRange>,
    open: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of a peer, counted until it is dropped.
#[derive(Debug)]
struct PeerConnection {
    network: IpAddr,
    peers: Arc<PeerConnections>,
}

impl PeerConnections {
    /// Counts one more connection, unless its peer has reached the limit.
    fn try_acquire(self: &Arc<Self>, address: IpAddr) -> Option<PeerConnection> {
        let network = peer::network(address);
        let mut open = self.lock();
        let connections = open.entry(network).or_insert(0);
        let is_proxy =
            address.to_canonical().is_loopback() || trusted_proxies::is_trusted(&self.trusted_proxies, address);
        if *connections >= MAX_CONNECTIONS_PER_PEER && !is_proxy {
            return None;
        }
        *connections += 1;
        Some(PeerConnection { network, peers: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        let mut open = self.peers.lock();
        let remaining = open.get(&self.network).map_or(0, |connections| connections.saturating_sub(1));
        if remaining == 0 {
            open.remove(&self.network);
        } else {
            open.insert(self.network, remaining);
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    timeouts: ConnectionTimeouts,
    buffer_bytes: usize,
    stop: CancellationToken,
) {
    // Chunks of a response are small and needed immediately.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| -> BoxFuture<'static, _> {
        request.extensions_mut().insert(Peer(peer));
        Box::pin(router.call(request.map(Body::new)))
    });
    let stream = TokioIo::new(WriteTimeoutStream::new(stream, timeouts.write));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.head)
        .max_buf_size(buffer_bytes)
        .serve_connection(stream, service);
    let mut is_stopping = false;
    let result = loop {
        tokio::select! {
            result = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break result,
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    if let Err(error) = &result {
        // Clients may disconnect at any time; that is not an error of the server.
        tracing::debug!(error = error as &dyn std::error::Error, "a connection was interrupted");
    }
    // An unparsable request got a response, too.
    if result.map_or_else(|error| error.is_parse(), |()| true) {
        let stream = connection.into_parts().io.into_inner();
        let _ = stop.run_until_cancelled(timeout(timeouts.linger, close_lingering(stream))).await;
    }
}

/// Closes a connection so that the client can read the last response. Closing it while the client still sends, such as
/// a file that is too large, would reset the connection and lose the response.
async fn close_lingering(mut stream: WriteTimeoutStream<TcpStream>) -> io::Result<()> {
    stream.shutdown().await?;
    let mut discarded = vec![0; LINGER_BUFFER_BYTES];
    while stream.read(&mut discarded).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use axum::routing::get;
    use satchel_requirements::required;

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(600);

    /// Serves a page that answers, one that never does, and one without end.
    async fn start(timeouts: ConnectionTimeouts) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let endless = || async {
            let chunk = bytes::Bytes::from(vec![7; 64 * 1024]);
            Body::from_stream(futures::stream::repeat_with(move || Ok::<_, io::Error>(chunk.clone())))
        };
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/never", get(pending::<&str>))
            .route("/endless", get(endless));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let settings = ServerSettings { timeouts, max_connections: 2, ..ServerSettings::default() };
        let served = tokio::spawn(serve(listener, router, settings, stop.clone()));
        (address, stop, served)
    }

    fn long_timeouts() -> ConnectionTimeouts {
        ConnectionTimeouts { head: LONG, write: LONG, drain: LONG, linger: SHORT, connection: None }
    }

    async fn send_request(address: SocketAddr, request: &str) -> TcpStream {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        socket
    }

    /// Reads until the other side ends the connection, which it must.
    async fn read_to_close(mut socket: TcpStream) -> usize {
        let mut whole = Vec::new();
        let read = timeout(Duration::from_secs(20), socket.read_to_end(&mut whole)).await;
        let _ = read.expect("the connection is ended");
        whole.len()
    }

    #[tokio::test]
    async fn connection_has_a_total_limit() {
        let (address, ..) = start(ConnectionTimeouts { connection: Some(SHORT), ..long_timeouts() }).await;
        // One waits for its answer, the other never comes to the end of it.
        for path in ["/never", "/endless"] {
            read_to_close(send_request(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await).await;
        }
    }

    #[tokio::test]
    async fn slow_request_head_times_out() {
        let (address, ..) = start(ConnectionTimeouts { head: SHORT, ..long_timeouts() }).await;
        let slow = send_request(address, "GET / HTTP/1.1\r\nhost: x\r\nx-").await;
        let idle = send_request(address, "").await;
        read_to_close(slow).await;
        assert_eq!(read_to_close(idle).await, 0);
    }

    #[tokio::test]
    async fn stalled_reader_does_not_delay_stop() {
        let (address, stop, served) = start(ConnectionTimeouts { write: SHORT, ..long_timeouts() }).await;
        let sleeper = send_request(address, "GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await;
        // Until the line is full, which only its writer knows.
        sleep(SHORT * 5).await;
        stop.cancel();
        // Nothing but the sleeper could hold this up, since requests in flight have ten minutes.
        timeout(Duration::from_secs(20), served).await.expect("its connection has ended").unwrap();
        drop(sleeper);
    }

    #[tokio::test]
    async fn stop_lets_requests_finish_within_timeout() {
        let (address, stop, served) = start(ConnectionTimeouts { drain: SHORT, ..long_timeouts() }).await;
        let mut idle = send_request(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        idle.read_exact(&mut [0; 12]).await.unwrap();
        let never = send_request(address, "GET /never HTTP/1.1\r\nhost: x\r\n\r\n").await;
        // The request is on its way to its handler, which says nothing.
        sleep(SHORT / 2).await;
        stop.cancel();
        timeout(Duration::from_secs(20), served).await.expect("it stops").unwrap();
        read_to_close(idle).await;
        assert_eq!(read_to_close(never).await, 0);
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn connections_above_the_limit_wait() {
        let (address, ..) = start(long_timeouts()).await;
        let request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        let connections = [send_request(address, "").await, send_request(address, "").await];
        let mut waiting = send_request(address, request).await;
        let early = timeout(SHORT, waiting.read_exact(&mut [0; 12])).await;
        assert!(early.is_err(), "it is answered beside the others: {early:?}");
        drop(connections);
        assert!(read_to_close(waiting).await > 0, "what has ended makes room");
    }

    #[tokio::test]
    async fn head_above_the_limit_is_refused() {
        let (address, ..) = start(long_timeouts()).await;
        let mut socket = send_request(address, &format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(80 * 1024))).await;
        let mut status = [0; 12];
        socket.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 431");
    }

    #[test]
    fn peer_has_a_share_and_proxies_have_all() {
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let peers = Arc::new(PeerConnections { trusted_proxies, ..PeerConnections::default() });
        let acquire = |address: &str| peers.try_acquire(address.parse().unwrap());
        let mut connections: Vec<_> =
            (0..MAX_CONNECTIONS_PER_PEER).map(|_| acquire("203.0.113.7").expect("one of the share")).collect();
        assert!(acquire("203.0.113.7").is_none() && acquire("::ffff:203.0.113.7").is_none());
        let other = acquire("203.0.113.8");
        let network: Vec<_> =
            (0..MAX_CONNECTIONS_PER_PEER).map(|number| acquire(&format!("2001:db8::{number}"))).collect();
        assert!(other.is_some() && network.iter().all(Option::is_some));
        assert!(acquire("2001:db8::abcd").is_none(), "all addresses of a network are one stranger's");
        let here: Vec<_> = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3"]
            .into_iter()
            .cycle()
            .take(9 * MAX_CONNECTIONS_PER_PEER)
            .map(acquire)
            .collect();
        assert!(here.iter().all(Option::is_some));
        connections.pop();
        connections.extend(acquire("203.0.113.7"));
        assert_eq!(connections.len(), MAX_CONNECTIONS_PER_PEER, "what has ended makes room");
        drop((connections, other, network, here));
        assert_eq!(peers.lock().len(), 0, "nobody is remembered who is gone");
    }

    /// Comes to this machine by an address of its own that is not the loopback's, as a stranger would.
    #[tokio::test]
    async fn one_peer_does_not_take_all_connections() {
        let own = std::net::UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("192.0.2.1:9")?;
            socket.local_addr()
        });
        let own = own.ok().map(|own| own.ip()).filter(|own| !own.is_loopback());
        let Some(own) = required(own.ok_or("an address of this machine besides the loopback's")) else { return };
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().route("/", get(async || "here"));
        let settings = ServerSettings { timeouts: long_timeouts(), ..ServerSettings::default() };
        tokio::spawn(serve(listener, router, settings, CancellationToken::new()));
        let mut connections = Vec::new();
        for _ in 0..MAX_CONNECTIONS_PER_PEER {
            let mut socket = send_request(SocketAddr::new(own, port), "GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
            socket.read_exact(&mut [0; 12]).await.unwrap();
            connections.push(socket);
        }
        assert_eq!(read_to_close(TcpStream::connect((own, port)).await.unwrap()).await, 0, "one too many");
        let here = send_request(
            SocketAddr::from(([127, 0, 0, 1], port)),
            "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        )
        .await;
        assert!(read_to_close(here).await > 0);
    }
}
