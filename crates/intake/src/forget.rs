//! Forgets files and conversations for good: the record first, then the bytes that nothing else refers to.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_domain::{ConversationId, Sha256};
use satchel_ports::{
    BlobError, Blobs, Conversations, LedgerError, Storage, Workspace,
    ledger::{
        ConversationQuery, ConversationSearch, ConversationSummary, ForgetConversationOutcome, ForgetOutcome,
        ForgetRequest, ListingChange, SearchResults,
    },
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

/// The conversations of a ledger with all that belongs to them elsewhere: their workspaces, and the bytes of their files.
#[derive(Clone)]
pub struct ConversationsWithFiles {
    /// Where they are recorded.
    pub conversations: Arc<dyn Conversations>,
    pub storage: Arc<dyn Storage>,
    pub workspace: Arc<dyn Workspace>,
    pub blobs: Arc<dyn Blobs>,
}

#[async_trait]
impl Conversations for ConversationsWithFiles {
    async fn list_conversations(&self, query: &ConversationQuery) -> Result<Vec<ConversationSummary>, LedgerError> {
        self.conversations.list_conversations(query).await
    }

    async fn find_conversation(
        &self,
        conversation: &ConversationId,
    ) -> Result<Option<ConversationSummary>, LedgerError> {
        self.conversations.find_conversation(conversation).await
    }

    async fn change_listing(
        &self,
        conversation: &ConversationId,
        changes: &[ListingChange],
    ) -> Result<bool, LedgerError> {
        self.conversations.change_listing(conversation, changes).await
    }

    async fn search_conversations(&self, search: &ConversationSearch) -> Result<SearchResults, LedgerError> {
        self.conversations.search_conversations(search).await
    }

    async fn index_turns(&self, limit: u32) -> Result<u64, LedgerError> {
        self.conversations.index_turns(limit).await
    }

    /// Forgets the conversation, and removes its workspace and the bytes that nothing else refers to. If that fails or is
    /// cut short by a crash, maintenance does it later. A caller that stops waiting doesn't stop it.
    async fn forget_conversation(
        &self,
        conversation: &ConversationId,
    ) -> Result<ForgetConversationOutcome, LedgerError> {
        let (whole, conversation) = (self.clone(), conversation.clone());
        let forget = tokio::spawn(async move {
            let outcome = whole.conversations.forget_conversation(&conversation).await?;
            if let ForgetConversationOutcome::Forgotten(blobs) = &outcome {
                whole.remove_files(&conversation, blobs).await;
            }
            Ok(outcome)
        });
        let failed = |error| LedgerError::Store { operation: "forgetting a conversation", source: Box::new(error) };
        forget.await.map_err(failed)?
    }

    async fn list_forgotten_workspaces(&self) -> Result<Vec<ConversationId>, LedgerError> {
        self.conversations.list_forgotten_workspaces().await
    }

    async fn record_workspace_removed(&self, conversation: &ConversationId) -> Result<(), LedgerError> {
        self.conversations.record_workspace_removed(conversation).await
    }
}

impl ConversationsWithFiles {
    /// Removes what a forgotten conversation had elsewhere.
    async fn remove_files(&self, conversation: &ConversationId, blobs: &[Sha256]) {
        if let Err(error) = remove_workspace(&*self.conversations, &*self.workspace, conversation).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(chat.id = %conversation, error, "removing a forgotten conversation's workspace failed; maintenance will remove it");
        }
        match self.storage.find_unreferenced(blobs).await {
            Ok(unreferenced) => remove_blobs(&*self.blobs, &unreferenced, conversation).await,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(chat.id = %conversation, error, "finding a forgotten conversation's bytes failed; garbage collection will delete them");
            }
        }
    }
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

async fn remove_workspace(
    conversations: &dyn Conversations,
    workspace: &dyn Workspace,
    conversation: &ConversationId,
) -> Result<(), WorkspaceRemovalError> {
    workspace.remove_conversation(conversation).await?;
    Ok(conversations.record_workspace_removed(conversation).await?)
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

#[cfg(test)]
mod tests {
    use satchel_ports::{MockBlobs, MockConversations, MockStorage, MockWorkspace};

    use super::*;

    fn conversation() -> ConversationId {
        "web:gone".parse().unwrap()
    }

    /// A ledger that forgets the conversation, whose one file is referred to by nothing else.
    fn forgetting() -> (MockConversations, MockStorage) {
        let (mut conversations, mut storage) = (MockConversations::new(), MockStorage::new());
        let forgotten = ForgetConversationOutcome::Forgotten(vec![Sha256([1; 32]), Sha256([2; 32])]);
        conversations.expect_forget_conversation().once().returning(move |_| Ok(forgotten.clone()));
        conversations.expect_record_workspace_removed().times(0..=1).returning(|_| Ok(()));
        storage.expect_find_unreferenced().once().returning(|blobs| Ok(vec![blobs[1]]));
        (conversations, storage)
    }

    #[tokio::test]
    async fn workspace_and_bytes_go_with_their_conversation() {
        for disk_fails in [false, true] {
            let (conversations, storage) = forgetting();
            let (mut workspace, mut blobs) = (MockWorkspace::new(), MockBlobs::new());
            workspace
                .expect_remove_conversation()
                .once()
                .withf(|of| *of == conversation())
                .returning(move |_| if disk_fails { Err(io::Error::other("the disk failed")) } else { Ok(()) });
            blobs.expect_mark().once().withf(|blobs, _| blobs == [Sha256([2; 32])]).returning(|_, _| Ok(()));
            blobs.expect_sweep().once().returning(|| Ok(1));
            let whole = ConversationsWithFiles {
                conversations: Arc::new(conversations),
                storage: Arc::new(storage),
                workspace: Arc::new(workspace),
                blobs: Arc::new(blobs),
            };
            let outcome = whole.forget_conversation(&conversation()).await.unwrap();
            assert!(matches!(outcome, ForgetConversationOutcome::Forgotten(_)), "it is forgotten: {outcome:?}");
        }
    }

    #[tokio::test]
    async fn busy_conversation_keeps_its_files() {
        let mut conversations = MockConversations::new();
        conversations.expect_forget_conversation().returning(|_| Ok(ForgetConversationOutcome::Busy));
        // Nothing else is called.
        let whole = ConversationsWithFiles {
            conversations: Arc::new(conversations),
            storage: Arc::new(MockStorage::new()),
            workspace: Arc::new(MockWorkspace::new()),
            blobs: Arc::new(MockBlobs::new()),
        };
        let outcome = whole.forget_conversation(&conversation()).await.unwrap();
        assert_eq!(outcome, ForgetConversationOutcome::Busy);
    }
}
