//! Forgets files for good: the record first, then the bytes that nothing else refers to.

use std::time::Duration;

use satchel_domain::Sha256;
use satchel_ports::{
    BlobError, Blobs, LedgerError, Storage,
    ledger::{ForgetOutcome, ForgetRequest},
};

/// How long bytes that nothing refers to are left alone: a file is stored before the row that names it.
pub const BLOB_GRACE: Duration = Duration::from_secs(60 * 60);

/// Forgets a file. Its bytes go at once, or with the hourly collection where they were stored within [`BLOB_GRACE`].
///
/// # Errors
/// When the ledger fails; then nothing is forgotten.
pub async fn forget_file(
    storage: &dyn Storage,
    blobs: &dyn Blobs,
    request: &ForgetRequest,
) -> Result<ForgetOutcome, LedgerError> {
    let outcome = storage.forget_file(request).await?;
    if let ForgetOutcome::Forgotten(file) = &outcome {
        let unreferenced = storage.find_unreferenced(&[file.sha256]).await?;
        // If this fails, garbage collection deletes them later.
        if let Err(error) = remove_blobs(blobs, &unreferenced).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(chat.id = %request.conversation, number = request.number, error, "deleting a forgotten file's bytes failed; garbage collection will delete them");
        }
    }
    Ok(outcome)
}

async fn remove_blobs(blobs: &dyn Blobs, unreferenced: &[Sha256]) -> Result<(), BlobError> {
    if !unreferenced.is_empty() {
        blobs.mark(unreferenced, BLOB_GRACE).await?;
        blobs.sweep().await?;
    }
    Ok(())
}
