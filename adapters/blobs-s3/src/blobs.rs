//! [`Blobs`] in a bucket.

use std::{
    io::{self, Cursor},
    ops::Range,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, path::Path};
use satchel_blob_content::{copy, detect, digest};
use satchel_domain::{MediaInfo, Sha256};
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, StoredBlob};

use crate::{
    bucket::BucketClient,
    error::BucketError,
    settings::S3Settings,
    upload::{self, MAX_BLOB_BYTES, PartReader, UploadPart, WrittenBlob},
};

/// How often a blob is looked for whose objects are replaced while it is opened.
const MAX_OPEN_ATTEMPTS: usize = 4;

/// The [`Blobs`] of one prefix of a bucket; several machines may use it at once.
#[derive(Debug, Clone)]
pub struct S3Blobs {
    pub(crate) bucket: Arc<BucketClient>,
}

impl S3Blobs {
    /// Opens the store without a request.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn new(settings: &S3Settings) -> Result<Self, BucketError> {
        Ok(Self { bucket: BucketClient::new(settings)? })
    }

    /// Checks that the bucket can be listed, written, read, and that objects in it can be removed.
    ///
    /// # Errors
    /// What is missing.
    pub async fn check(&self) -> Result<(), BucketError> {
        self.bucket.check().await
    }

    /// The bucket and its server, for messages.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.bucket.address
    }

    /// Removes the objects that a new one of the same blob replaces. What stays is removed by the next put.
    async fn remove_older_copies(&self, blob: &WrittenBlob) {
        let copies = match self.bucket.list_copies(&blob.sha256).await {
            Ok(copies) => copies,
            Err(error) => {
                tracing::debug!(error = %self.bucket.error(&error), "looking for older copies of a file failed");
                return;
            }
        };
        for copy in older_copies(&copies, &blob.key) {
            if let Err(error) = self.bucket.delete(&copy.location).await {
                tracing::debug!(error = %self.bucket.error(&error), "removing an older copy of a file failed");
            }
        }
    }

    async fn open_copy(&self, copy: &ObjectMeta, range: Range<u64>) -> object_store::Result<ByteStream> {
        // A range of no bytes is none.
        if range.is_empty() {
            return Ok(stream::empty().boxed());
        }
        let range = Some(GetRange::Bounded(range)).filter(|range| *range != GetRange::Bounded(0..copy.size));
        let result = self.bucket.store.get_opts(&copy.location, GetOptions { range, ..GetOptions::default() }).await?;
        let bucket = Arc::clone(&self.bucket);
        Ok(result.into_stream().map_err(move |error| io::Error::other(bucket.error(&error))).boxed())
    }
}

/// The copies that stand before one's own, in the order of their ids: of two puts at once, each would remove the other's
/// otherwise. Where the own one is gone, the other put has removed it, and what is there is the only one.
fn older_copies<'c>(copies: &'c [ObjectMeta], own: &Path) -> &'c [ObjectMeta] {
    let own = copies.iter().position(|copy| copy.location == *own).unwrap_or(0);
    &copies[..own]
}

#[async_trait]
impl Blobs for S3Blobs {
    async fn put(&self, content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        let limit = limit.min(MAX_BLOB_BYTES);
        if hint.bytes.is_some_and(|bytes| bytes > MAX_BLOB_BYTES) {
            return Err(BlobError::TooLarge { limit });
        }
        let (blocks, digest) = digest::hash_blocks(copy::into_blocks(content, limit));
        let mut parts = PartReader::new(blocks, limit);
        let first = parts.next().await?;
        let (mime, media) = detect_type(&first, hint).await;
        let written = upload::write_blob(&self.bucket, first, parts, digest).await?;
        self.remove_older_copies(&written).await;
        Ok(StoredBlob { sha256: written.sha256, bytes: written.bytes, mime, media })
    }

    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        let open_error = |error| self.bucket.blob_error(format!("open {sha256}"), &error);
        for _ in 0..MAX_OPEN_ATTEMPTS {
            let Some(newest) = self.bucket.list_copies(sha256).await.map_err(open_error)?.pop() else { break };
            let range = range.clone().map_or(0..newest.size, |range| {
                let end = range.end.min(newest.size);
                range.start.min(end)..end
            });
            let is_whole = range == (0..newest.size);
            let length = range.end - range.start;
            match self.open_copy(&newest, range).await {
                // A put has replaced it, or it was removed.
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(open_error(error)),
                Ok(bytes) => {
                    // Servers send small chunks; each would change threads to be hashed. One that sends more than the file
                    // has is not read any further.
                    let blocks = copy::into_blocks(bytes, length).map_err(io::Error::from).boxed();
                    return Ok(if is_whole { digest::verify_blocks(blocks, *sha256) } else { blocks });
                }
            }
        }
        Err(BlobError::Missing(*sha256))
    }

    async fn list_stale(&self, grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        self.list_stale_blobs(grace).await
    }

    async fn mark(&self, unreferenced: &[Sha256], grace: Duration) -> Result<(), BlobError> {
        self.mark_blobs(unreferenced, grace).await
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        self.sweep_marked().await
    }
}

/// The last part of a key.
pub(crate) fn name_of(key: &Path) -> &str {
    key.as_ref().rsplit('/').next().unwrap_or_default()
}

/// What a blob is, by its beginning.
async fn detect_type(first: &UploadPart, hint: &BlobHint) -> (String, MediaInfo) {
    let max_bytes = usize::try_from(detect::HEADER_BYTES).unwrap_or(usize::MAX);
    let mut head = Vec::with_capacity(first.bytes.min(max_bytes));
    for block in &first.blocks {
        let room = max_bytes - head.len();
        head.extend_from_slice(&block[..block.len().min(room)]);
    }
    let hint = hint.clone();
    let detected = tokio::task::spawn_blocking(move || detect::detect_content(Cursor::new(head), &hint)).await;
    // Memory has no read errors; a panic of a parser costs its information, never the file.
    detected.ok().and_then(Result::ok).unwrap_or_else(|| (detect::UNKNOWN_MIME.to_owned(), MediaInfo::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(keys: &[&str]) -> Vec<ObjectMeta> {
        let copy = |key: &&str| ObjectMeta {
            location: Path::from(*key),
            last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
            size: 1,
            e_tag: None,
            version: None,
        };
        keys.iter().map(copy).collect()
    }

    #[test]
    fn only_older_copies_are_removed() {
        let stored = copies(&["a", "b", "c"]);
        assert_eq!(older_copies(&stored, &Path::from("b")), &stored[..1]);
        assert_eq!(older_copies(&stored, &Path::from("a")), []);
        assert_eq!(
            older_copies(&copies(&["b"]), &Path::from("a")),
            [],
            "another put has removed ours, and is the only one"
        );
    }
}
