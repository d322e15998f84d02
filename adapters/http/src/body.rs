//! The body of a response: read with timeouts, decompressed, limited in size, and never silently truncated.

use std::{io, time::Duration};

use async_compression::tokio::bufread::GzipDecoder;
use futures::{StreamExt, TryStreamExt, stream};
use satchel_domain::size;
use satchel_ports::ByteStream;
use tokio::time::{Instant, timeout_at};
use tokio_util::io::{ReaderStream, StreamReader};

/// Slowest accepted transfer rate; the deadline is extended by the received bytes at this rate.
const MIN_BYTES_PER_SECOND: u64 = 64 * 1024;

/// Chunk size of decompressed content.
const CHUNK_BYTES: usize = 64 * 1024;

/// Compression of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentEncoding {
    Identity,
    Gzip,
}

/// Limits for a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// Largest size after decompression.
    pub(crate) max_bytes: u64,
    /// When the body must be complete, before extensions for received bytes.
    pub(crate) deadline: Instant,
    /// Longest pause between two chunks.
    pub(crate) idle_timeout: Duration,
}

impl BodyLimits {
    /// Largest size before decompression. Compression rarely enlarges content, but a gzip stream without content could
    /// go on forever without adding a byte to the file.
    pub(crate) fn max_encoded_bytes(&self, encoding: ContentEncoding) -> u64 {
        match encoding {
            ContentEncoding::Identity => self.max_bytes,
            ContentEncoding::Gzip => self.max_bytes.saturating_mul(2).saturating_add(CHUNK_BYTES as u64),
        }
    }
}

/// Returns the decompressed content of a response.
pub(crate) fn decode_body(response: reqwest::Response, encoding: ContentEncoding, limits: BodyLimits) -> ByteStream {
    let raw = with_size_limit(with_timeout(response, limits), limits.max_encoded_bytes(encoding), limits.max_bytes);
    match encoding {
        ContentEncoding::Identity => raw,
        ContentEncoding::Gzip => {
            let mut decoder = GzipDecoder::new(StreamReader::new(raw));
            // By default everything after the first gzip member is silently dropped.
            decoder.multiple_members(true);
            let decoded = ReaderStream::with_capacity(decoder, CHUNK_BYTES);
            with_size_limit(decoded.boxed(), limits.max_bytes, limits.max_bytes)
        }
    }
}

/// Fails if no chunk arrives for too long, or if the whole transfer is too slow.
fn with_timeout(response: reqwest::Response, limits: BodyLimits) -> ByteStream {
    let chunks = response.bytes_stream().boxed();
    let timed = stream::try_unfold((chunks, 0_u64), move |(mut chunks, received)| async move {
        let extra_time = Duration::from_secs(received / MIN_BYTES_PER_SECOND);
        let chunk_deadline = (limits.deadline + extra_time).min(Instant::now() + limits.idle_timeout);
        match timeout_at(chunk_deadline, chunks.try_next()).await {
            Ok(Ok(Some(chunk))) => {
                let received = received + chunk.len() as u64;
                Ok(Some((chunk, (chunks, received))))
            }
            Ok(Ok(None)) => Ok(None),
            // The error text holds the URL with its query.
            Ok(Err(_)) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the transfer was interrupted")),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the file came too slowly")),
        }
    });
    timed.boxed()
}

/// Fails at the first byte above `limit`; the error names the reported limit.
fn with_size_limit(chunks: ByteStream, limit: u64, shown_limit: u64) -> ByteStream {
    let counted = stream::try_unfold((chunks, 0_u64), move |(mut chunks, before)| async move {
        let Some(chunk) = chunks.try_next().await? else { return Ok(None) };
        let received = before + chunk.len() as u64;
        if received > limit {
            let message = format!("the file is larger than {}", size::format_bytes(shown_limit));
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        Ok(Some((chunk, (chunks, received))))
    });
    counted.boxed()
}
