//! Forgets files and conversations for good: the record first, then the bytes that nothing else refers to.

use std::{io, time::Duration};

use satchel_domain::{ConversationId, Sha256};
use satchel_ports::{
    BlobError, Blobs, Conversations, LedgerError, Storage, Workspace,
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
        remove_blobs(blobs, &unreferenced, &request.conversation).await;
    }
    Ok(outcome)
}

/// Why the workspaces of forgotten conversations could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceRemovalError {
    /// They could not be listed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// Removes the workspaces that are left of forgotten conversations, and returns how many there were.
///
/// # Errors
/// The first failure of the ledger or the disk; the others are removed all the same.
pub async fn remove_forgotten_workspaces(
    conversations: &dyn Conversations,
    workspace: &dyn Workspace,
) -> Result<u64, WorkspaceRemovalError> {
    let (mut removed, mut first_error) = (0, Ok(()));
    for conversation in conversations.list_forgotten_workspaces().await? {
        match remove_workspace(conversations, workspace, &conversation).await {
            Ok(()) => removed += 1,
            Err(error) if first_error.is_ok() => first_error = Err(error),
            Err(_) => {}
        }
    }
    first_error.map(|()| removed)
}

pub(crate) async fn remove_workspace(
    conversations: &dyn Conversations,
    workspace: &dyn Workspace,
    conversation: &ConversationId,
) -> Result<(), WorkspaceRemovalError> {
    workspace.remove_conversation(conversation).await?;
    Ok(conversations.record_workspace_removed(conversation).await?)
}

/// Removes those bytes of a forgotten conversation that nothing else refers to. If this fails, garbage collection removes
/// them later.
pub async fn remove_unreferenced(
    storage: &dyn Storage,
    blobs: &dyn Blobs,
    candidates: &[Sha256],
    conversation: &ConversationId,
) {
    match storage.find_unreferenced(candidates).await {
        Ok(unreferenced) => remove_blobs(blobs, &unreferenced, conversation).await,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(chat.id = %conversation, error, "finding a forgotten conversation's bytes failed; garbage collection will delete them");
        }
    }
}

/// Removes bytes that nothing refers to. If this fails, garbage collection removes them later.
async fn remove_blobs(blobs: &dyn Blobs, unreferenced: &[Sha256], conversation: &ConversationId) {
    if let Err(error) = sweep_blobs(blobs, unreferenced).await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(chat.id = %conversation, error, "deleting forgotten bytes failed; garbage collection will delete them");
    }
}

async fn sweep_blobs(blobs: &dyn Blobs, unreferenced: &[Sha256]) -> Result<(), BlobError> {
    if !unreferenced.is_empty() {
        blobs.mark(unreferenced, BLOB_GRACE).await?;
        blobs.sweep().await?;
    }
    Ok(())
}
