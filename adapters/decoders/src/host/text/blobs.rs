//! A file store that lets the kept text of a document go with its bytes.

use std::{io, ops::Range, sync::Arc, time::Duration};

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

    async fn remove_orphans(&self) -> io::Result<()> {
        for document in self.texts.trim().await? {
            if matches!(self.blobs.open(&document, Some(0..0)).await, Err(BlobError::Missing(_))) {
                self.texts.remove(&[document]).await?;
            }
        }
        Ok(())
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

    /// What is left of documents that are gone goes, too: a reader may have kept it between the mark and the sweep.
    async fn sweep(&self) -> Result<u64, BlobError> {
        let freed = self.blobs.sweep().await?;
        if let Err(error) = self.remove_orphans().await {
            tracing::warn!(%error, "the texts of removed documents can't be removed");
        }
        Ok(freed)
    }
}
