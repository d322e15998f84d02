//! Forgets files for good: the record first, then the bytes that nothing else refers to.

use std::time::Duration;

use satchel_domain::Sha256;
use satchel_ports::{
    BlobError, Blobs, Ledger, LedgerError,
    ledger::usage::{ForgetFile, Forgotten},
};

/// How long bytes that nothing refers to are left alone: a file is stored before the row that names it.
pub const BLOB_GRACE: Duration = Duration::from_secs(60 * 60);

/// Forgets a file. Its bytes go at once, or with the hourly collection where they were stored within [`BLOB_GRACE`].
///
/// # Errors
/// When the ledger fails; then nothing is forgotten.
pub async fn forget_file(
    ledger: &dyn Ledger,
    blobs: &dyn Blobs,
    forget: &ForgetFile,
) -> Result<Forgotten, LedgerError> {
    let forgotten = ledger.forget_file(forget).await?;
    if let Forgotten::Done(file) = &forgotten {
        let unreferenced = ledger.find_unreferenced(&[file.sha256]).await?;
        // Whatever becomes of it, the collection finds them by and by.
        if let Err(error) = remove(blobs, &unreferenced).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(chat.id = %forget.conversation, number = forget.number, error, "deleting a forgotten file's bytes failed; garbage collection will delete them");
        }
    }
    Ok(forgotten)
}

async fn remove(blobs: &dyn Blobs, unreferenced: &[Sha256]) -> Result<(), BlobError> {
    if !unreferenced.is_empty() {
        blobs.mark(unreferenced, BLOB_GRACE).await?;
        blobs.sweep().await?;
    }
    Ok(())
}
