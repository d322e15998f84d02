//! A file store that lets the kept text of a document go with its bytes.

use std::{ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{Sha256, StoredBlob};
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream};

use super::cache::TextCache;

/// Removes the text of what nothing refers to any more, when that is marked.
pub struct TextEvictingBlobs {
    blobs: Arc<dyn Blobs>,
    texts: TextCache,
}

impl TextEvictingBlobs {
    /// A store whose texts are kept there.
    #[must_use]
    pub fn new(blobs: Arc<dyn Blobs>, texts: TextCache) -> Self {
        Self { blobs, texts }
    }
}

#[async_trait]
impl Blobs for TextEvictingBlobs {
    async fn put(&self, content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        self.blobs.put(content, hint, limit).await
    }

    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        self.blobs.open(sha256, range).await
    }

    async fn list_stale(&self, grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        self.blobs.list_stale(grace).await
    }

    /// The text goes even where the bytes are within the grace period, and is read again if somebody needs it.
    async fn mark(&self, unreferenced: &[Sha256], grace: Duration) -> Result<(), BlobError> {
        self.texts.remove(unreferenced).await.map_err(|error| BlobError::Store {
            operation: "removing the text of documents".to_owned(),
            source: error.into(),
        })?;
        self.blobs.mark(unreferenced, grace).await
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        self.blobs.sweep().await
    }
}
