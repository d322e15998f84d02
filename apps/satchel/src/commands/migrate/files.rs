//! Copies the files that a ledger names from one store to another, and reads each back from the new one.

use futures::{StreamExt, TryStreamExt, stream};
use satchel_domain::Sha256;
use satchel_ledger::transfer::NamedBlob;
use satchel_ports::{BlobError, BlobHint, Blobs};

use super::progress::Progress;

/// How many files are copied at a time: a bucket answers each after a while.
const CONCURRENT_COPIES: usize = 8;

/// What was copied.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileReport {
    /// How many files were copied.
    pub copied: u64,
    /// How many were there.
    pub present: u64,
    /// The bytes of all of them.
    pub bytes: u64,
    /// The files that the source doesn't have any more, with why.
    pub lost: Vec<(Sha256, &'static str)>,
}

enum Copied {
    Now(u64),
    Before(u64),
    Lost(Sha256, &'static str),
}

/// Copies the files that the target lacks. What was lost is listed, and the rest is copied.
///
/// # Errors
/// When a store fails. What was copied stays, and is not copied again.
pub(super) async fn copy(
    named: &[NamedBlob],
    source: &dyn Blobs,
    target: &dyn Blobs,
    progress: &Progress,
) -> Result<FileReport, BlobError> {
    let copies = stream::iter(named).map(|blob| copy_blob(blob, source, target, progress));
    let copies = copies.buffer_unordered(CONCURRENT_COPIES);
    let add = |mut report: FileReport, copied| async move {
        match copied {
            Copied::Now(bytes) => (report.copied, report.bytes) = (report.copied + 1, report.bytes + bytes),
            Copied::Before(bytes) => (report.present, report.bytes) = (report.present + 1, report.bytes + bytes),
            Copied::Lost(sha256, reason) => report.lost.push((sha256, reason)),
        }
        Ok(report)
    };
    copies.try_fold(FileReport::default(), add).await
}

async fn copy_blob(
    blob: &NamedBlob,
    source: &dyn Blobs,
    target: &dyn Blobs,
    progress: &Progress,
) -> Result<Copied, BlobError> {
    let sha256 = blob.sha256;
    let copied = match verify(target, sha256).await {
        Ok(bytes) => Copied::Before(bytes),
        // One that is damaged is stored again, too.
        Err(BlobError::Missing(_) | BlobError::Damaged(_)) => match store(blob, source, target).await {
            Ok(()) => Copied::Now(verify(target, sha256).await?),
            Err(BlobError::Missing(missing)) if missing == sha256 => Copied::Lost(sha256, "missing"),
            Err(BlobError::Damaged(_)) => Copied::Lost(sha256, "damaged"),
            Err(error) => return Err(error),
        },
        Err(error) => return Err(error),
    };
    progress.add(1, blob.bytes);
    Ok(copied)
}

async fn store(blob: &NamedBlob, source: &dyn Blobs, target: &dyn Blobs) -> Result<(), BlobError> {
    let content = source.open(&blob.sha256, None).await?;
    let hint = BlobHint { bytes: (blob.bytes > 0).then_some(blob.bytes), ..BlobHint::default() };
    match target.put(content, &hint, u64::MAX).await {
        Ok(_) => Ok(()),
        Err(BlobError::Source(error)) => Err(damage(error).map_or_else(BlobError::Source, BlobError::Damaged)),
        Err(error) => Err(error),
    }
}

/// Reads a whole file, and returns its size. The store compares it with its hash.
async fn verify(blobs: &dyn Blobs, sha256: Sha256) -> Result<u64, BlobError> {
    let content = blobs.open(&sha256, None).await?;
    let read = content.try_fold(0, |bytes, block| async move { Ok(bytes + block.len() as u64) }).await;
    read.map_err(|error| damage(error).map_or_else(BlobError::Source, BlobError::Damaged))
}

/// What a stream says at its end when its bytes are not those of its address.
fn damage(error: std::io::Error) -> Result<Sha256, std::io::Error> {
    match error.get_ref().and_then(|source| source.downcast_ref()) {
        Some(BlobError::Damaged(sha256)) => Ok(*sha256),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests;
