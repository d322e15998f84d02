//! The files of a call: streamed from the blob store into the request, watched, and never held.

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

/// Bytes a second at which a server passes an upload on at the slowest, before it answers.
const MIN_BYTES_PER_SECOND: u64 = 500_000;

/// The most that is handed over at once: a slow line must be seen to move, however large the blocks of a store are.
const CHUNK_BYTES: usize = 64 * 1024;

/// What has become of an upload so far.
#[derive(Clone, Default)]
pub struct UploadProgress(Arc<State>);

#[derive(Default)]
struct State {
    bytes: u64,
    taken: AtomicU64,
    read_error: Mutex<Option<String>>,
}

impl UploadProgress {
    /// Of a request without files.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Of an upload of so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(State { bytes, ..State::default() }))
    }

    /// Returns the stream, watched. It fails at its end where it was not `bytes` long: the request would be taken for
    /// whole.
    #[must_use]
    pub fn watch(&self, content: ByteStream, bytes: u64) -> ByteStream {
        let content = content.map_ok(|block| stream::iter(chunks(block))).try_flatten().boxed();
        let start = (content, self.clone(), bytes);
        let watched = stream::try_unfold(start, |(mut content, progress, left)| async move {
            let failure = match content.next().await {
                Some(Ok(chunk)) if chunk.len() as u64 <= left => {
                    progress.0.taken.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                    let left = left - chunk.len() as u64;
                    return Ok(Some((chunk, (content, progress, left))));
                }
                None if left == 0 => return Ok(None),
                Some(Ok(_)) | None => io::Error::other("its size differs from the stored size"),
                Some(Err(error)) => error,
            };
            *progress.0.read_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.to_string());
            Err(failure)
        });
        watched.boxed()
    }

    /// Why a file's bytes could not be read, if that has happened.
    pub(crate) fn read_error(&self) -> Option<String> {
        self.0.read_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns when nothing has moved for too long.
    pub(crate) async fn wait_stalled(&self, timeouts: HttpTimeouts) {
        // Checked four times in each time limit, so that it is kept to a quarter.
        const CHECKS: u32 = 4;
        let (mut before, mut quiet) = (u64::MAX, 0);
        let passing_on = Duration::from_secs(self.0.bytes / MIN_BYTES_PER_SECOND);
        loop {
            let taken = self.0.taken.load(Ordering::Relaxed);
            quiet = if taken == before { quiet + 1 } else { 0 };
            before = taken;
            if quiet == CHECKS {
                return;
            }
            let all_taken = taken >= self.0.bytes;
            let limit = if all_taken { timeouts.answer + passing_on } else { timeouts.silence };
            tokio::time::sleep(limit / CHECKS).await;
        }
    }
}

fn chunks(block: Bytes) -> impl Iterator<Item = io::Result<Bytes>> {
    (0..block.len()).step_by(CHUNK_BYTES).map(move |at| Ok(block.slice(at..block.len().min(at + CHUNK_BYTES))))
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
        // The store itself is in trouble, not these bytes: that may pass.
        other => SendError::NotSent { retry_after_ms: None, reason: other.to_string() },
    })?;
    let body = Body::wrap_stream(progress.watch(content, bytes));
    let part = Part::stream_with_length(body, bytes).file_name(filename.as_str().to_owned());
    Ok(with_content_type(part, mime))
}

/// Returns the part with its type, where that can be written.
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
    async fn uploads_stall_by_silence_and_then_by_answer() {
        let second = Duration::from_secs(1);
        let timeouts = HttpTimeouts { connect: second, answer: 60 * second, silence: 8 * second };
        let progress = UploadProgress::new(2 * MIN_BYTES_PER_SECOND);
        let stalled_after = async |taken: u64| {
            progress.0.taken.store(taken, Ordering::Relaxed);
            let start = tokio::time::Instant::now();
            progress.wait_stalled(timeouts).await;
            start.elapsed()
        };
        assert_eq!(stalled_after(1).await, timeouts.silence);
        // Passing the upload on may take as long as its slowest line.
        assert_eq!(stalled_after(2 * MIN_BYTES_PER_SECOND).await, timeouts.answer + 2 * second);
    }
}
