//! A way to a server of S3 on which its disk can be full: what would store bytes is refused as MinIO does it.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What MinIO answers when its drives have less than their minimum free.
const FULL: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>XMinioStorageFull</Code><Message>Storage backend \
    has reached its minimum free drive threshold. Please delete a few objects to proceed.</Message></Error>";

/// Passes requests on to a server, each on a connection of its own.
#[derive(Debug)]
pub struct BucketProxy {
    port: u16,
    is_full: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl BucketProxy {
    /// Listens on a free port for requests to a port of this machine.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(target_port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let is_full = Arc::new(AtomicBool::new(false));
        let state = Arc::clone(&is_full);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass_on(client, target_port, Arc::clone(&state)));
            }
        });
        Ok(Self { port, is_full, task })
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Refuses what would store bytes, or lets it through again.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }
}

impl Drop for BucketProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass_on(client: TcpStream, target_port: u16, is_full: Arc<AtomicBool>) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let before = head.len();
        client.read_line(&mut head).await?;
        let line = head[before..].trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            head.truncate(before);
            break;
        }
    }
    let stores = head.starts_with("PUT ") || head.starts_with("POST ");
    if stores && is_full.load(Ordering::Relaxed) {
        // A client that still sends wouldn't read the answer.
        copy(&mut (&mut client).take(length), &mut tokio::io::sink()).await?;
        let length = FULL.len();
        let answer = format!(
            "HTTP/1.1 507 Insufficient Storage\r\ncontent-type: application/xml\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{FULL}"
        );
        return client.write_all(answer.as_bytes()).await;
    }
    let mut server = TcpStream::connect(("127.0.0.1", target_port)).await?;
    // The next request of this client gets a connection of its own.
    server.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
