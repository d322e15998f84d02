//! A server of somebody else on a free loopback port: it gives one answer to everything and remembers what it was asked.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// The heads of the requests that it got.
type Asked = Arc<Mutex<Vec<String>>>;

/// A server that runs as long as the process.
pub(super) struct Stranger {
    pub(super) address: SocketAddr,
    asked: Asked,
}

impl Stranger {
    /// One that answers with this status, these headers (each with its line end) and this body, chosen by the request.
    pub(super) fn answering(answer: impl Fn(&str) -> (u16, String, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("it is bound");
        let asked = Asked::default();
        let remembered = Arc::clone(&asked);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { continue };
                let mut head = Vec::new();
                let mut piece = [0; 2048];
                while !head.windows(4).any(|four| four == b"\r\n\r\n") {
                    match connection.read(&mut piece) {
                        Ok(read) if read > 0 => head.extend_from_slice(&piece[..read]),
                        _ => break,
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let (status, headers, body) = answer(&head);
                remembered.lock().unwrap_or_else(PoisonError::into_inner).push(head);
                let length = body.len();
                // Whoever has gone away misses it.
                let _gone = write!(
                    connection,
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
                );
            }
        });
        Self { address, asked }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The heads of the requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
