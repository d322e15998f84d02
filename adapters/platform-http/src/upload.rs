//! The files of a request: streamed from the blob store with progress tracking, never held in memory.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{
    Body,
    header::{CONTENT_TYPE, HeaderMap},
    multipart::Part,
};
use satchel_domain::{Filename, Sha256, delivery::SendError};
use satchel_ports::{BlobError, Blobs, ByteStream};

use crate::HttpTimeouts;

/// Slowest rate at which a server is expected to forward an upload before it responds.
const MIN_BYTES_PER_SECOND: u64 = 500_000;

/// Chunk size of an upload: progress on a slow line must be visible, however large the blocks of a store are.
const CHUNK_BYTES: usize = 64 * 1024;

/// Progress of an upload; clones share it.
#[derive(Clone, Default)]
pub struct UploadProgress(Arc<State>);

#[derive(Default)]
struct State {
    bytes: u64,
    sent: AtomicU64,
    read_error: Mutex<Option<String>>,
}

impl UploadProgress {
    /// Creates the progress of a request without files.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates the progress of an upload of this size.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(State { bytes, ..State::default() }))
    }

    /// Returns the stream with progress tracking. It fails if it is not `bytes` long, since the request would otherwise
    /// look complete.
    #[must_use]
    pub fn watch(&self, content: ByteStream, bytes: u64) -> ByteStream {
        let content = content.map_ok(|block| stream::iter(chunks(block))).try_flatten().boxed();
        let start = (content, self.clone(), bytes);
        let watched = stream::try_unfold(start, |(mut content, progress, remaining)| async move {
            let failure = match content.next().await {
                Some(Ok(chunk)) if chunk.len() as u64 <= remaining => {
                    progress.0.sent.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                    let remaining = remaining - chunk.len() as u64;
                    return Ok(Some((chunk, (content, progress, remaining))));
                }
                None if remaining == 0 => return Ok(None),
                Some(Ok(_)) | None => io::Error::other("its size differs from the stored size"),
                Some(Err(error)) => error,
            };
            *progress.0.read_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.to_string());
            Err(failure)
        });
        watched.boxed()
    }

    /// The error that interrupted reading a file, if any.
    pub(crate) fn read_error(&self) -> Option<String> {
        self.0.read_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until there has been no progress for too long.
    pub(crate) async fn wait_stalled(&self, timeouts: HttpTimeouts) {
        // Checked four times per limit, so that the limit is exceeded by a quarter at most.
        const CHECKS_PER_LIMIT: u32 = 4;
        let (mut previous, mut idle_checks) = (u64::MAX, 0);
        let forwarding_time = Duration::from_secs(self.0.bytes / MIN_BYTES_PER_SECOND);
        loop {
            let sent = self.0.sent.load(Ordering::Relaxed);
            idle_checks = if sent == previous { idle_checks + 1 } else { 0 };
            previous = sent;
            if idle_checks == CHECKS_PER_LIMIT {
                return;
            }
            let is_all_sent = sent >= self.0.bytes;
            let idle_limit = if is_all_sent { timeouts.response + forwarding_time } else { timeouts.idle };
            tokio::time::sleep(idle_limit / CHECKS_PER_LIMIT).await;
        }
    }
}

fn chunks(block: Bytes) -> impl Iterator<Item = io::Result<Bytes>> {
    (0..block.len()).step_by(CHUNK_BYTES).map(move |start| Ok(block.slice(start..block.len().min(start + CHUNK_BYTES))))
}

/// Opens a stored file as a part of a form.
///
/// # Errors
/// When the file can't be opened. Nothing has been sent then.
pub async fn open_file_part(
    blobs: &dyn Blobs,
    sha256: &Sha256,
    bytes: u64,
    filename: &Filename,
    mime: &str,
    progress: &UploadProgress,
) -> Result<Part, SendError> {
    let content = blobs.open(sha256, None).await.map_err(|error| match error {
        BlobError::Missing(_) | BlobError::Damaged(_) => SendError::Unreadable { reason: error.to_string() },
        // The store failed, not this blob: a retry may help.
        other => SendError::NotSent { retry_after_ms: None, reason: other.to_string() },
    })?;
    let body = Body::wrap_stream(progress.watch(content, bytes));
    let part = Part::stream_with_length(body, bytes).file_name(filename.as_str().to_owned());
    Ok(with_content_type(part, mime))
}

/// Returns the part with a `Content-Type`, if `mime` is a valid header value.
#[must_use]
pub fn with_content_type(part: Part, mime: &str) -> Part {
    let mut headers = HeaderMap::new();
    if let Ok(mime) = mime.parse() {
        headers.insert(CONTENT_TYPE, mime);
    }
    part.headers(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_blocks_are_cut_into_chunks() {
        let content: Vec<u8> = (0..2 * CHUNK_BYTES + 5).map(|n| (n % 251) as u8).collect();
        let blocks = [Ok(Bytes::from(content.clone())), Ok(Bytes::from_static(b"end"))];
        let bytes = content.len() as u64 + 3;
        let watched = UploadProgress::new(bytes).watch(stream::iter(blocks).boxed(), bytes);
        let read: Vec<Bytes> = watched.try_collect().await.unwrap();
        assert_eq!(read.iter().map(Bytes::len).collect::<Vec<_>>(), [CHUNK_BYTES, CHUNK_BYTES, 5, 3]);
        assert!(read.concat() == [&content[..], b"end"].concat(), "the bytes are others");
    }

    #[tokio::test]
    async fn streams_of_another_length_fail() {
        for (bytes, expected) in [(3, true), (2, false), (4, false)] {
            let progress = UploadProgress::new(bytes);
            let content = stream::iter([Ok(Bytes::from_static(b"end"))]).boxed();
            let read: io::Result<Vec<Bytes>> = progress.watch(content, bytes).try_collect().await;
            assert_eq!((read.is_ok(), progress.read_error().is_none()), (expected, expected), "{bytes}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn upload_stalls_by_idle_then_response_timeout() {
        let second = Duration::from_secs(1);
        let timeouts = HttpTimeouts { connect: second, response: 60 * second, idle: 8 * second };
        let progress = UploadProgress::new(2 * MIN_BYTES_PER_SECOND);
        let stalled_after = async |sent: u64| {
            progress.0.sent.store(sent, Ordering::Relaxed);
            let start = tokio::time::Instant::now();
            progress.wait_stalled(timeouts).await;
            start.elapsed()
        };
        assert_eq!(stalled_after(1).await, timeouts.idle);
        // Forwarding the upload may take as long as on the slowest line.
        assert_eq!(stalled_after(2 * MIN_BYTES_PER_SECOND).await, timeouts.response + 2 * second);
    }
}
