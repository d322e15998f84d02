//! Blobs in memory that a test can lose and damage, for tests of channels only: they live as long as the value.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::{MediaInfo, Sha256};
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, StoredBlob};
use sha2::Digest;

/// The size of a piece of an opened blob.
const CHUNK_BYTES: usize = 64 * 1024;

/// Bytes by their address, in memory, as long as they are neither lost nor damaged.
#[derive(Debug, Default)]
pub struct FaultyBlobs {
    state: Mutex<State>,
    served: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct State {
    blobs: HashMap<Sha256, Bytes>,
    marked: HashSet<Sha256>,
    damaged: HashSet<Sha256>,
}

impl FaultyBlobs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loses the bytes, so that a test can see what becomes of a file that can't be read.
    pub fn lose(&self, sha256: &Sha256) {
        self.state().blobs.remove(sha256);
    }

    /// Damages the bytes: who opens them finds out when all have been read.
    pub fn damage(&self, sha256: &Sha256) {
        self.state().damaged.insert(*sha256);
    }

    /// How many bytes were taken from opened blobs so far.
    #[must_use]
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Blobs for FaultyBlobs {
    async fn put(&self, mut content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        let mut whole = Vec::new();
        while let Some(piece) = content.next().await {
            whole.extend_from_slice(&piece.map_err(BlobError::Source)?);
            if whole.len() as u64 > limit {
                return Err(BlobError::TooLarge { limit });
            }
        }
        let sha256 = Sha256(sha2::Sha256::digest(&whole).into());
        let mut media = MediaInfo::default();
        if let Ok(size) = imagesize::blob_size(&whole) {
            media.width = u32::try_from(size.width).ok();
            media.height = u32::try_from(size.height).ok();
        }
        let bytes = whole.len() as u64;
        let mut state = self.state();
        state.marked.remove(&sha256);
        state.blobs.insert(sha256, whole.into());
        let mime = hint.mime.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
        Ok(StoredBlob { sha256, bytes, mime, media })
    }

    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        let whole = self.state().blobs.get(sha256).cloned().ok_or(BlobError::Missing(*sha256))?;
        let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(whole.len());
        let range = range.map_or(0..whole.len(), |range| clamp(range.start)..clamp(range.end).max(clamp(range.start)));
        let mut rest = whole.slice(range);
        let served = Arc::clone(&self.served);
        let pieces = std::iter::from_fn(move || {
            let piece = rest.split_to(rest.len().min(CHUNK_BYTES));
            served.fetch_add(piece.len() as u64, Ordering::Relaxed);
            (!piece.is_empty()).then_some(Ok(piece))
        });
        let damage =
            self.state().damaged.contains(sha256).then(|| Err(std::io::Error::other(BlobError::Damaged(*sha256))));
        Ok(stream::iter(pieces.chain(damage)).boxed())
    }

    async fn list_stale(&self, _grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        Ok(Vec::new())
    }

    async fn mark(&self, unreferenced: &[Sha256], _grace: Duration) -> Result<(), BlobError> {
        self.state().marked.extend(unreferenced);
        Ok(())
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        let mut state = self.state();
        let marked = std::mem::take(&mut state.marked);
        let freed = marked.iter().filter_map(|sha256| state.blobs.remove(sha256)).map(|blob| blob.len() as u64);
        Ok(freed.sum())
    }
}
