//! A raw server that says what it is told to say, byte by byte.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What the server does next.
#[derive(Clone)]
pub(super) enum ServerStep {
    Send(Vec<u8>),
    /// Writes this again and again, with a pause after each.
    Repeat(Vec<u8>, Duration),
    /// Says nothing for a while.
    Pause(Duration),
    /// Says nothing for long.
    Hang,
}

/// A server on this machine; it ends with the test.
pub(super) struct StubServer {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl StubServer {
    /// A server that answers each request by its path.
    pub(super) async fn start(answer: impl Fn(&str) -> Vec<ServerStep> + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.expect("a free port"), answer)
    }

    /// Two servers on the same port: one at 127.0.0.2, which stands for an address outside and says this to everybody,
    /// and one at 127.0.0.1, which must not be reached.
    pub(super) async fn outside_and_inside(outside_says: ServerStep) -> (Self, Self) {
        let (outside, inside) = loop {
            let outside = TcpListener::bind("127.0.0.2:0").await.expect("a free port");
            let port = outside.local_addr().expect("an address").port();
            // A port that is free at one address may be somebody's at the other.
            if let Ok(inside) = TcpListener::bind(("127.0.0.1", port)).await {
                break (outside, inside);
            }
        };
        let inside = Self::on(inside, |_| vec![ok("", b"the operator's secrets")]);
        (Self::on(outside, move |_| vec![outside_says.clone()]), inside)
    }

    fn on(listener: TcpListener, answer: impl Fn(&str) -> Vec<ServerStep> + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().expect("an address");
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (received_heads, answer) = (Arc::clone(&heads), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&received_heads), Arc::clone(&answer)));
            }
        });
        Self { address, heads, task }
    }

    /// A server that says the same to everybody.
    pub(super) async fn saying(steps: Vec<ServerStep>) -> Self {
        Self::start(move |_| steps.clone()).await
    }

    /// One that must not be reached. What it would hand out is not empty, so that a success would show.
    pub(super) async fn victim() -> Self {
        Self::saying(vec![ok("", b"the operator's secrets")]).await
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The heads of all requests so far; an empty one is a connection that brought none.
    pub(super) fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no test panics while it holds this").clone()
    }
}

impl Drop for StubServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, heads: Arc<Mutex<Vec<String>>>, answer: Arc<impl Fn(&str) -> Vec<ServerStep>>) {
    let at = {
        let mut heads = heads.lock().expect("no test panics while it holds this");
        heads.push(String::new());
        heads.len() - 1
    };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).expect("the fetcher writes ASCII");
    let path = head.split(' ').nth(1).expect("a path").to_owned();
    heads.lock().expect("no test panics while it holds this")[at] = head;
    for step in answer(&path) {
        match step {
            ServerStep::Send(bytes) => {
                let _the_fetcher_left = stream.write_all(&bytes).await;
            }
            ServerStep::Repeat(bytes, pause) => {
                while stream.write_all(&bytes).await.is_ok() {
                    // A server as slow as the test says.
                    tokio::time::sleep(pause).await;
                }
            }
            // As slow as the test says.
            ServerStep::Pause(pause) => tokio::time::sleep(pause).await,
            // Longer than any test.
            ServerStep::Hang => tokio::time::sleep(Duration::from_secs(60)).await,
        }
    }
    let _the_fetcher_left = stream.shutdown().await;
}

/// A head of `200` with these further header lines, without a size: the body ends where the connection does.
pub(super) fn head(headers: &str) -> ServerStep {
    ServerStep::Send(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}\r\n").into_bytes())
}

/// A whole answer with its true size.
pub(super) fn ok(headers: &str, body: &[u8]) -> ServerStep {
    answer(200, &format!("Content-Length: {}\r\n{headers}", body.len()), body)
}

pub(super) fn answer(status: u16, headers: &str, body: &[u8]) -> ServerStep {
    let mut all = format!("HTTP/1.1 {status} Words\r\nConnection: close\r\n{headers}\r\n").into_bytes();
    all.extend_from_slice(body);
    ServerStep::Send(all)
}

/// An answer that leads on.
pub(super) fn redirect(to: &str) -> ServerStep {
    answer(302, &format!("Location: {to}\r\nContent-Length: 0\r\n"), b"")
}
