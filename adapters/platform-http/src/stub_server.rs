//! A server that handles one request as its script says; its response need not be HTTP.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// How the server treats the request that comes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ServerScript {
    /// Reads the whole request, responds with this, and closes the connection.
    Respond(&'static str),
    /// Reads the whole request, responds with this, and keeps the connection open.
    RespondAndHold(&'static str),
    /// Reads the whole request and responds with this, and bytes without end.
    RespondForever(&'static str),
    /// Reads nothing and keeps the connection open.
    ReadNothing,
}

/// A server of one connection.
pub(crate) struct StubServer {
    pub(crate) port: u16,
    serving: JoinHandle<Vec<u8>>,
}

impl StubServer {
    pub(crate) async fn start(script: ServerScript) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            match script {
                ServerScript::Respond(answer) => {
                    read_request(&mut socket, &mut request).await;
                    socket.write_all(answer.as_bytes()).await.unwrap();
                }
                ServerScript::RespondAndHold(answer) => {
                    read_request(&mut socket, &mut request).await;
                    socket.write_all(answer.as_bytes()).await.unwrap();
                    read_to_end(&mut socket, &mut request).await;
                }
                ServerScript::RespondForever(answer) => {
                    read_request(&mut socket, &mut request).await;
                    socket.write_all(answer.as_bytes()).await.unwrap();
                    while socket.write_all(&[b' '; 64 * 1024]).await.is_ok() {}
                }
                ServerScript::ReadNothing => std::future::pending().await,
            }
            request
        });
        Self { port, serving }
    }

    /// What was read of the request, once the server has done what it was told to.
    pub(crate) async fn request(self) -> Vec<u8> {
        self.serving.await.unwrap()
    }
}

/// Reads a request of a known length to its end, or until the client goes away.
async fn read_request(socket: &mut TcpStream, request: &mut Vec<u8>) {
    loop {
        let text = String::from_utf8_lossy(request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return;
            }
        }
        if socket.read_buf(request).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

async fn read_to_end(socket: &mut TcpStream, request: &mut Vec<u8>) {
    while socket.read_buf(request).await.unwrap_or(0) > 0 {}
}
