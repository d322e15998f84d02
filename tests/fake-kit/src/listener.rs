//! The listener of a fake server, which can be closed for a while, and connections that can be cut.

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Router,
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Notify,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::TestClock;

/// The listener, shared with the tests and faults that close it.
#[derive(Debug)]
pub struct ListenerGate {
    clock: TestClock,
    address: SocketAddr,
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Debug)]
struct State {
    listener: Option<TcpListener>,
    /// Keeps the port while the gate is closed: connections to it are refused, and the system gives it to nobody else.
    port: Option<TcpSocket>,
    closed_until: Option<Instant>,
}

impl ListenerGate {
    /// Binds a free loopback port. How long the gate is closed is told by this clock.
    ///
    /// # Errors
    /// When there is none.
    pub async fn open(clock: TestClock) -> io::Result<Arc<Self>> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let state = Mutex::new(State { listener: Some(listener), port: None, closed_until: None });
        Ok(Arc::new(Self { clock, address, state, opened: Notify::new() }))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_closed(&self) -> bool {
        self.state().closed_until.is_some()
    }

    /// Closes the gate at once: when this returns, connections are refused. A task opens it again on the same port.
    pub fn close(self: &Arc<Self>, duration: Duration) {
        let until = self.clock.now() + duration;
        let mut state = self.state();
        if state.listener.take().is_some() {
            // Where it can't be kept, it is most likely still free when the gate opens.
            state.port = bound(self.address).ok();
        }
        if let Some(already) = state.closed_until {
            state.closed_until = Some(already.max(until));
            return;
        }
        state.closed_until = Some(until);
        drop(state);
        let gate = Arc::clone(self);
        tokio::spawn(async move { gate.reopen().await });
    }

    async fn reopen(&self) {
        loop {
            let until = self.state().closed_until;
            match until.filter(|until| *until > self.clock.now()) {
                Some(until) => self.clock.sleep_until(until).await,
                None => break,
            }
        }
        // Another process may hold the port for a moment; it is ours again as soon as that one is done.
        let listener = loop {
            let port = self.state().port.take();
            match port.map_or_else(|| bound(self.address), Ok).and_then(|socket| socket.listen(1024)) {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        *self.state() = State { listener: Some(listener), port: None, closed_until: None };
        self.opened.notify_waiters();
    }

    /// The next connection, or `None` while the gate is closed.
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<Option<TcpStream>> {
        let state = self.state();
        let Some(listener) = &state.listener else { return Poll::Ready(None) };
        match ready!(listener.poll_accept(context)) {
            Ok((stream, _)) => {
                // As platforms' servers have it: what follows an answer's head waits for nobody's delayed ACK. A
                // connection that can't have it is slower, and answers all the same.
                let _slower = stream.set_nodelay(true);
                Poll::Ready(Some(stream))
            }
            // The client is gone before it was served; the next one is waited for.
            Err(_) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

/// A socket that has an address and does not listen. Connections to that address may still be open.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Serves requests that come through the gate until `stopped`. Each brings its [`ConnectionCutter`] as `ConnectInfo`.
pub fn serve(gate: Arc<ListenerGate>, router: Router, stopped: CancellationToken) {
    let service = router.into_make_service_with_connect_info::<ConnectionCutter>();
    let serving = axum::serve(GatedListener(gate), service).with_graceful_shutdown(stopped.cancelled_owned());
    tokio::spawn(async move { serving.await });
}

/// What axum serves from.
struct GatedListener(Arc<ListenerGate>);

impl Listener for GatedListener {
    type Io = CuttableConnection;
    type Addr = ConnectionCutter;

    async fn accept(&mut self) -> (CuttableConnection, ConnectionCutter) {
        loop {
            let opened = self.0.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            let accepted = tokio::select! {
                () = &mut opened => continue,
                accepted = poll_fn(|context| self.0.poll_accept(context)) => accepted,
            };
            let Some(stream) = accepted else {
                opened.await;
                continue;
            };
            let cut = ConnectionCutter::default();
            return (CuttableConnection { stream, cut: cut.clone() }, cut);
        }
    }

    fn local_addr(&self) -> io::Result<ConnectionCutter> {
        Ok(ConnectionCutter::default())
    }
}

/// Cuts one connection: what is written after it never leaves.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCutter(Arc<AtomicBool>);

impl ConnectionCutter {
    pub fn cut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) { Err(io::ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl Connected<IncomingStream<'_, GatedListener>> for ConnectionCutter {
    fn connect_info(stream: IncomingStream<'_, GatedListener>) -> Self {
        stream.remote_addr().clone()
    }
}

/// A connection that can be cut.
struct CuttableConnection {
    stream: TcpStream,
    cut: ConnectionCutter,
}

impl AsyncRead for CuttableConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CuttableConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
