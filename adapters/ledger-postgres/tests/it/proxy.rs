//! A proxy before the server that cuts a connection at its commit.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Where the next connection that commits is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    Nowhere,
    /// The server gets the commit, the client no answer.
    BehindCommit,
    /// The server never gets it.
    BeforeCommit,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: Arc<AtomicU8>,
}

impl Proxy {
    pub(crate) async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, cut) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU8::new(Cut::Nowhere as u8)));
        let of_connections = Arc::clone(&cut);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server_port)).await.unwrap();
                tokio::spawn(forward(client, server, Arc::clone(&of_connections)));
            }
        });
        Self { port, cut }
    }

    pub(crate) fn cut_once(&self, cut: Cut) {
        self.cut.store(cut as u8, Ordering::SeqCst);
    }

    pub(crate) fn has_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst) == Cut::Nowhere as u8
    }
}

async fn forward(mut client: TcpStream, mut server: TcpStream, cut: Arc<AtomicU8>) {
    let (mut from_client, mut from_server) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(length @ 1..) = read else { return };
                let sent = &from_client[..length];
                if sent.windows(7).any(|text| text == b"COMMIT\0") {
                    let now = cut.swap(Cut::Nowhere as u8, Ordering::SeqCst);
                    if now == Cut::BeforeCommit as u8 {
                        return;
                    }
                    if now == Cut::BehindCommit as u8 {
                        server.write_all(sent).await.unwrap();
                        assert!(server.read(&mut from_server).await.unwrap() > 0, "it is committed");
                        return;
                    }
                }
                if server.write_all(sent).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut from_server) => {
                let Ok(length @ 1..) = read else { return };
                if client.write_all(&from_server[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
