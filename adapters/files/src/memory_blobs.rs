//! Blobs in memory, for tests and for programs without storage: a blob lives as long as the store.

use std::{
    collections::HashMap,
    io::{self, Cursor},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use satchel_blob_content::{detect, digest};
use satchel_domain::Sha256;
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, StoredBlob};

/// How many bytes of a blob each chunk has.
const CHUNK_BYTES: usize = 64 * 1024;

/// The [`Blobs`] of one process; clones share what is stored.
#[derive(Debug, Clone, Default)]
pub struct MemoryBlobs {
    blobs: Arc<Mutex<HashMap<Sha256, MemoryBlob>>>,
}

#[derive(Debug)]
struct MemoryBlob {
    /// Shared with readers, which continue after it is removed.
    content: Arc<Mutex<Bytes>>,
    put_at: Instant,
    is_marked: bool,
}

impl MemoryBlobs {
    /// Damages a blob, so that a test can check how an unreadable file is handled: from now on these bytes are at its
    /// address.
    pub fn damage(&self, sha256: &Sha256, content: impl Into<Bytes>) {
        if let Some(blob) = self.lock_blobs().get(sha256) {
            *lock(&blob.content) = content.into();
        }
    }

    /// Loses a blob.
    pub fn lose(&self, sha256: &Sha256) {
        self.lock_blobs().remove(sha256);
    }

    fn lock_blobs(&self) -> MutexGuard<'_, HashMap<Sha256, MemoryBlob>> {
        lock(&self.blobs)
    }
}

#[async_trait]
impl Blobs for MemoryBlobs {
    async fn put(&self, mut content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        let mut buffer = BytesMut::new();
        while let Some(chunk) = content.next().await {
            let chunk = chunk.map_err(BlobError::Source)?;
            if (buffer.len() + chunk.len()) as u64 > limit {
                return Err(BlobError::TooLarge { limit });
            }
            buffer.extend_from_slice(&chunk);
        }
        let content = buffer.freeze();
        let (sha256, bytes) = (Sha256::digest(&content), content.len() as u64);
        let (mime, media) = detect::detect_content(Cursor::new(&content), hint)
            .map_err(|error| BlobError::Store { operation: "read what came".to_owned(), source: error.into() })?;
        let blob = MemoryBlob { content: Arc::new(Mutex::new(content)), put_at: Instant::now(), is_marked: false };
        self.lock_blobs().insert(sha256, blob);
        Ok(StoredBlob { sha256, bytes, mime, media })
    }

    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        let content = self.lock_blobs().get(sha256).map(|blob| Arc::clone(&blob.content));
        let content = content.ok_or(BlobError::Missing(*sha256))?;
        let length = lock(&content).len();
        let clamp_offset = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(length);
        let range = range.map_or(0..length, |range| clamp_offset(range.start)..clamp_offset(range.end));
        let is_whole = range == (0..length);
        let chunks = stream::try_unfold(range, move |rest| {
            let chunk = next_chunk(&lock(&content), rest);
            async { chunk }
        });
        Ok(if is_whole { digest::verify_blocks(chunks.boxed(), *sha256) } else { chunks.boxed() })
    }

    async fn list_stale(&self, grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        let blobs = self.lock_blobs();
        Ok(blobs.iter().filter(|(_, blob)| blob.put_at.elapsed() >= grace).map(|(sha256, _)| *sha256).collect())
    }

    async fn mark(&self, unreferenced: &[Sha256], grace: Duration) -> Result<(), BlobError> {
        let mut blobs = self.lock_blobs();
        for sha256 in unreferenced {
            if let Some(blob) = blobs.get_mut(sha256).filter(|blob| blob.put_at.elapsed() >= grace) {
                blob.is_marked = true;
            }
        }
        Ok(())
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        let mut blobs = self.lock_blobs();
        let removed = blobs.extract_if(|_, blob| blob.is_marked);
        Ok(removed.map(|(_, blob)| lock(&blob.content).len() as u64).sum())
    }
}

/// The next chunk and the rest of the range; an error where the blob has become shorter.
fn next_chunk(content: &Bytes, rest: Range<usize>) -> io::Result<Option<(Bytes, Range<usize>)>> {
    if rest.is_empty() {
        return Ok(None);
    }
    let end = rest.end.min(rest.start + CHUNK_BYTES);
    if end > content.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((content.slice(rest.start..end), end..rest.end)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
