//! The request of the vendor's client, as it arrives at the relay in HTTP/1.1.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use reqwest::{
    Body,
    header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader, Take},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};
use tokio_util::{
    io::ReaderStream,
    sync::{CancellationToken, DropGuard},
};

/// The longest head of a request, in bytes.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// How long the client may take for each part of the body.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(5);

/// Headers that belong to the connection with the relay. The client to the provider has its own.
const CONNECTION_HEADERS: [&str; 6] =
    ["accept-encoding", "connection", "content-length", "expect", "host", "transfer-encoding"];

/// A request whose body arrives while it is passed on: with files it has megabytes.
pub(super) struct RelayedRequest {
    /// Its path and query.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
    /// Cancelled once nothing more of the body is read.
    pub(super) body_read: CancellationToken,
    /// Whether the client has not sent the whole body.
    pub(super) is_body_lost: Arc<AtomicBool>,
}

/// A connection of which only the head of the request has been read.
pub(super) struct RequestHead {
    /// The path and the query.
    target: String,
    headers: HeaderMap,
    body_bytes: u64,
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl RequestHead {
    /// Reads the head of the request on a connection.
    ///
    /// # Errors
    /// When the connection fails, or brings no `POST` with a length.
    pub(super) async fn read(connection: TcpStream) -> io::Result<Self> {
        // A frame must not wait until the one before it is acknowledged.
        connection.set_nodelay(true)?;
        let (reader, writer) = connection.into_split();
        let mut reader = BufReader::new(reader);
        let mut head = Vec::new();
        let mut limited = (&mut reader).take(MAX_HEAD_BYTES);
        while !head.ends_with(b"\r\n\r\n") {
            if limited.read_until(b'\n', &mut head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let (target, headers, body_bytes) =
            parse_head(&head).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Self { target, headers, body_bytes, reader, writer })
    }

    /// The part of the path and query that follows a prefix; `None` if the path is another one.
    pub(super) fn target_below(&self, prefix: &str) -> Option<&str> {
        self.target.strip_prefix(prefix)
    }

    /// Returns the request for this target, and the half of the connection that the response is written to.
    pub(super) fn into_request(self, target: String) -> (RelayedRequest, OwnedWriteHalf) {
        let Self { mut headers, body_bytes, reader, writer, .. } = self;
        // Not every provider takes a body in chunks.
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body_bytes));
        let (body_read, is_body_lost) = (CancellationToken::new(), Arc::default());
        let body = BodyReader {
            chunks: ReaderStream::new(reader.take(body_bytes)),
            missing_bytes: body_bytes,
            is_lost: Arc::clone(&is_body_lost),
            _read: body_read.clone().drop_guard(),
        };
        let body = stream::unfold(body, |mut body| async { body.next_chunk().await.map(|chunk| (chunk, body)) });
        (RelayedRequest { target, headers, body: Body::wrap_stream(body), body_read, is_body_lost }, writer)
    }
}

type BodyChunks = ReaderStream<Take<BufReader<OwnedReadHalf>>>;

/// What the client has not sent yet of a body.
struct BodyReader {
    chunks: BodyChunks,
    missing_bytes: u64,
    is_lost: Arc<AtomicBool>,
    /// Dropped with the body, by a provider that doesn't want all of it as well.
    _read: DropGuard,
}

impl BodyReader {
    /// Reads the next part. A body that ends too early fails, so that no provider takes it for a whole one.
    async fn next_chunk(&mut self) -> Option<<BodyChunks as Stream>::Item> {
        if self.missing_bytes == 0 {
            return None;
        }
        let chunk = match timeout(CHUNK_TIMEOUT, self.chunks.next()).await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        if let Ok(bytes) = &chunk {
            self.missing_bytes = self.missing_bytes.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        } else {
            self.missing_bytes = 0;
            self.is_lost.store(true, Ordering::Relaxed);
        }
        Some(chunk)
    }
}

/// The target, the headers that are passed on, and the length of the body.
fn parse_head(head: &[u8]) -> Option<(String, HeaderMap, u64)> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let target = lines.next()?.strip_prefix("POST ")?.strip_suffix(" HTTP/1.1")?;
    let (mut headers, mut body_bytes) = (HeaderMap::new(), None);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        let (name, value) = (HeaderName::from_bytes(name.as_bytes()).ok()?, value.trim());
        if name.as_str() == "content-length" {
            body_bytes = value.parse().ok();
        }
        if !CONNECTION_HEADERS.contains(&name.as_str()) {
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
        }
    }
    Some((target.to_owned(), headers, body_bytes?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_of_client_is_split_into_target_headers_and_length() {
        let head = b"POST /secret/v1/chat?version=2 HTTP/1.1\r\nauthorization: Bearer k\r\nx-a: 1\r\nx-a: 2\r\n\
                     accept-encoding: gzip\r\nhost: 127.0.0.1:1\r\ncontent-length: 7\r\n\r\n";
        let (target, headers, body_bytes) = parse_head(head).unwrap();
        assert_eq!((target.as_str(), body_bytes), ("/secret/v1/chat?version=2", 7));
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "x-a"]);
        assert_eq!(headers.get_all("x-a").iter().count(), 2);
        for invalid in [
            &b"GET / HTTP/1.1\r\ncontent-length: 1\r\n\r\n"[..],
            b"POST / HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\nno colon\r\n\r\n",
            b"\xff\xfe\r\n\r\n",
        ] {
            assert!(parse_head(invalid).is_none(), "{invalid:?}");
        }
    }
}
