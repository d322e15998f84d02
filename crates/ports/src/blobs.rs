//! Bytes by their address.

use std::{ops::Range, time::Duration};

use async_trait::async_trait;
use satchel_domain::{DiskFull, Filename, Sha256, StoredBlob, remedy};

use crate::ByteStream;

/// What is claimed about bytes before they have been read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlobHint {
    /// The file's name, whose extension helps to tell text formats apart.
    pub filename: Option<Filename>,
    /// The claimed type; used only where the bytes allow it.
    pub mime: Option<String>,
    /// Their size in bytes; if there is no space for so many, none of them is read.
    pub bytes: Option<u64>,
}

/// Why bytes could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// More bytes came than are allowed; nothing was kept.
    #[error("larger than {}", satchel_domain::size::format_bytes(*limit))]
    TooLarge {
        /// The number of bytes that is allowed.
        limit: u64,
    },
    /// The stream that was to be stored broke off; nothing was kept.
    #[error("the bytes ended early")]
    Source(#[source] std::io::Error),
    /// Nothing is stored at this address.
    #[error("the file store doesn't have them")]
    Missing(Sha256),
    /// What is stored is not what the address says.
    #[error("they are damaged in the file store")]
    Damaged(Sha256),
    /// The disk has no room for them besides the reserve; nothing was kept.
    #[error("{}", remedy::public_message(&.0.to_string()))]
    Full(DiskFull),
    /// The store itself failed.
    #[error("the file store failed: {operation}")]
    Store {
        /// What was being done, and to what.
        operation: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Stores bytes under their SHA-256.
///
/// # Contract
/// - `put` returns after the bytes, their name and the directory are on disk (fsync), or durable in the remote store.
/// - The same bytes put twice, also at once, are stored once, and both calls succeed.
/// - A put that fails or is dropped leaves nothing that `open` can see and no temporary file that outlives the next start.
///   What a killed process leaves in a store that others use too is removed by a sweep a day later.
/// - `put` keeps at most a few buffers in memory, however long the stream.
/// - A stream that is longer than `limit` ends the put with [`BlobError::TooLarge`] at the first byte too many.
/// - `open` verifies what it reads: when the whole blob was asked for and its digest is wrong, the stream ends in an error.
/// - A range is clamped to the blob's end.
/// - What was put, or put again, within the grace period that the caller of `mark` gives is not marked.
/// - `put` of bytes that are marked stores them again and takes the mark away.
/// - `sweep` removes marked blobs and nothing else.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Stores the stream and tells what it was.
    async fn put(&self, content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError>;

    /// Opens the bytes, all or a range of them.
    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError>;

    /// Lists blobs that were last put longer ago than `grace`; candidates for [`Blobs::mark`].
    async fn list_stale(&self, grace: Duration) -> Result<Vec<Sha256>, BlobError>;

    /// Marks blobs that nothing references and that were last put longer ago than `grace`.
    async fn mark(&self, unreferenced: &[Sha256], grace: Duration) -> Result<(), BlobError>;

    /// Removes the marked blobs and returns how many bytes that freed.
    async fn sweep(&self) -> Result<u64, BlobError>;
}
