//! A stub HTTP server on a free loopback port: it returns configured responses and records its requests.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// The heads of the requests that it got.
type RequestLog = Arc<Mutex<Vec<String>>>;

/// A server that runs as long as the process.
pub(super) struct StubServer {
    pub(super) address: SocketAddr,
    requests: RequestLog,
}

impl StubServer {
    /// One that answers with this status, these headers (each with its line end) and this body, chosen by the request.
    pub(super) fn respond_with(respond: impl Fn(&str) -> (u16, String, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("it is bound");
        let requests = RequestLog::default();
        let recorded = Arc::clone(&requests);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { continue };
                let mut head = Vec::new();
                let mut buffer = [0; 2048];
                while !head.windows(4).any(|four| four == b"\r\n\r\n") {
                    match connection.read(&mut buffer) {
                        Ok(read) if read > 0 => head.extend_from_slice(&buffer[..read]),
                        _ => break,
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let (status, headers, body) = respond(&head);
                recorded.lock().unwrap_or_else(PoisonError::into_inner).push(head);
                let length = body.len();
                // Whoever has gone away misses it.
                let _gone = write!(
                    connection,
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
                );
            }
        });
        Self { address, requests }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The heads of the requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
