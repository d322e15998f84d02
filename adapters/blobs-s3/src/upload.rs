//! A blob on its way into the bucket: in one piece if it is small, else in parts, two of which are in memory at most.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use object_store::{MultipartId, ObjectStoreExt, PutPayload, multipart::MultipartStore, path::Path};
use satchel_blob_content::copy::{BlockStream, CopyError};
use satchel_domain::Sha256;
use satchel_ports::BlobError;
use tokio::sync::oneshot;

use crate::{bucket::BucketClient, error::BucketErrorKind, unfinished::UnfinishedUpload};

/// The smallest size that a part but the last may have, and how much is needed to detect what an image is.
pub(crate) const PART_BYTES: usize = 5 << 20;

/// The largest object that one request copies.
pub(crate) const MAX_BLOB_BYTES: u64 = 5 << 30;

const WRITE_ACTION: &str = "write a file";

/// Joins blocks to parts.
pub(crate) struct PartReader {
    blocks: BlockStream,
    limit: u64,
}

/// The next bytes of a blob.
#[derive(Debug, Default)]
pub(crate) struct UploadPart {
    pub(crate) blocks: Vec<Bytes>,
    pub(crate) bytes: usize,
}

impl UploadPart {
    /// Whether bytes may follow.
    fn is_full(&self) -> bool {
        self.bytes >= PART_BYTES
    }

    fn into_payload(self) -> PutPayload {
        self.blocks.into_iter().collect()
    }
}

impl PartReader {
    /// Reads the blocks of a stream that may have no more than `limit` bytes.
    pub(crate) fn new(blocks: BlockStream, limit: u64) -> Self {
        Self { blocks, limit }
    }

    /// The next part: a full one, or the last, which may be empty.
    pub(crate) async fn next(&mut self) -> Result<UploadPart, BlobError> {
        let mut part = UploadPart::default();
        while !part.is_full()
            && let Some(block) = self.blocks.next().await
        {
            let block = block.map_err(|error| self.source_error(error))?;
            part.bytes += block.len();
            part.blocks.push(block);
        }
        Ok(part)
    }

    fn source_error(&self, error: CopyError) -> BlobError {
        match error {
            CopyError::TooLarge => BlobError::TooLarge { limit: self.limit },
            CopyError::Source(error) => BlobError::Source(error),
            CopyError::Sink(never) => match never {},
            CopyError::Stopped(error) => BlobError::Store { operation: WRITE_ACTION.to_owned(), source: error.into() },
        }
    }
}

/// A blob whose object is written.
pub(crate) struct WrittenBlob {
    pub(crate) sha256: Sha256,
    pub(crate) bytes: u64,
    pub(crate) key: Path,
}

/// Writes a blob that starts with `first`. Whatever ends this early, nothing of it stays.
pub(crate) async fn write_blob(
    bucket: &Arc<BucketClient>,
    first: UploadPart,
    rest: PartReader,
    digest: oneshot::Receiver<Sha256>,
) -> Result<WrittenBlob, BlobError> {
    let mut unfinished = UnfinishedUpload::new(Arc::clone(bucket));
    let written = match first.is_full() {
        true => write_parts(bucket, &mut unfinished, first, rest, digest).await,
        false => write_at_once(bucket, &mut unfinished, first, digest).await,
    };
    match written {
        Ok(written) => {
            unfinished.complete();
            Ok(written)
        }
        Err(error) => {
            unfinished.remove().await;
            Err(error)
        }
    }
}

async fn write_at_once(
    bucket: &BucketClient,
    unfinished: &mut UnfinishedUpload,
    content: UploadPart,
    digest: oneshot::Receiver<Sha256>,
) -> Result<WrittenBlob, BlobError> {
    let (sha256, bytes) = (finish_digest(digest).await?, content.bytes as u64);
    let key = bucket.new_blob_key(&sha256);
    unfinished.add_key(&key);
    let written = bucket.store.put(&key, content.into_payload()).await;
    written.map_err(|error| write_error(bucket, &error))?;
    Ok(WrittenBlob { sha256, bytes, key })
}

/// Writes the parts to a key of their own, because the address is known after the last one, and has the server copy the
/// object there.
async fn write_parts(
    bucket: &Arc<BucketClient>,
    unfinished: &mut UnfinishedUpload,
    first: UploadPart,
    mut rest: PartReader,
    digest: oneshot::Receiver<Sha256>,
) -> Result<WrittenBlob, BlobError> {
    let to_error = |error| write_error(bucket, &error);
    let incoming = bucket.new_incoming_key();
    let upload = begin_parts(bucket, unfinished, &incoming).await?;
    let (mut part, mut parts, mut bytes) = (first, Vec::new(), 0);
    while part.bytes > 0 {
        let (is_full, part_bytes, index) = (part.is_full(), part.bytes as u64, parts.len());
        let send = async {
            let payload = std::mem::take(&mut part).into_payload();
            bucket.store.put_part(&incoming, &upload, index, payload).await.map_err(to_error)
        };
        let read = async {
            match is_full {
                true => rest.next().await,
                false => Ok(UploadPart::default()),
            }
        };
        let (sent, next) = tokio::try_join!(send, read)?;
        parts.push(sent);
        bytes += part_bytes;
        part = next;
    }
    let sha256 = finish_digest(digest).await?;
    // From here on the object may exist, whatever the answer is.
    unfinished.add_key(&incoming);
    bucket.store.complete_multipart(&incoming, &upload, parts).await.map_err(to_error)?;
    unfinished.close_multipart();
    let key = bucket.new_blob_key(&sha256);
    unfinished.add_key(&key);
    bucket.store.copy(&incoming, &key).await.map_err(to_error)?;
    if let Err(error) = bucket.delete(&incoming).await {
        tracing::warn!(error = %bucket.error(&error), "removing an upload that is copied failed; a later sweep removes it");
    }
    Ok(WrittenBlob { sha256, bytes, key })
}

async fn finish_digest(digest: oneshot::Receiver<Sha256>) -> Result<Sha256, BlobError> {
    digest.await.map_err(|error| BlobError::Store { operation: WRITE_ACTION.to_owned(), source: error.into() })
}

/// Begins an upload in parts. The server is asked by a task of its own, which ends the upload if the put is dropped before
/// the answer comes: nobody else would know its id.
async fn begin_parts(
    bucket: &Arc<BucketClient>,
    unfinished: &mut UnfinishedUpload,
    key: &Path,
) -> Result<MultipartId, BlobError> {
    let (owned_bucket, owned_key) = (Arc::clone(bucket), key.clone());
    let request = tokio::spawn(async move {
        let id = owned_bucket.store.create_multipart(&owned_key).await?;
        let mut upload = UnfinishedUpload::new(owned_bucket);
        upload.set_multipart(&owned_key, &id);
        Ok::<_, object_store::Error>((id, upload))
    });
    let answer = request.await;
    let answer =
        answer.map_err(|error| BlobError::Store { operation: WRITE_ACTION.to_owned(), source: error.into() })?;
    let (id, upload) = answer.map_err(|error| write_error(bucket, &error))?;
    *unfinished = upload;
    Ok(id)
}

fn write_error(bucket: &BucketClient, error: &object_store::Error) -> BlobError {
    let meaning = bucket.error(error);
    match meaning.kind {
        BucketErrorKind::Full => {
            tracing::warn!(error = %meaning, "refusing a file");
            BlobError::Full(satchel_domain::DiskFull { free: 0, reserved: 0 })
        }
        _ => BlobError::Store { operation: WRITE_ACTION.to_owned(), source: meaning.into() },
    }
}
