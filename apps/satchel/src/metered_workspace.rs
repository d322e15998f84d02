//! A workspace that reserves its writes in the ledger, so that they count against the quotas of all files.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use async_trait::async_trait;
use satchel_domain::{ConversationId, Timestamp, WorkspacePath};
use satchel_files::DirectoryWorkspace;
use satchel_ports::{
    ByteStream, LedgerError, Storage, Workspace, WorkspaceError, WriteMode,
    ledger::{UsageQuery, UsageScope},
    workspace::{RestoredFiles, TrashBatch, TrashedEntry, WorkspaceEntry, WorkspaceFile},
};
use secrecy::SecretString;
use uuid::Uuid;

/// A workspace whose bytes are counted in the ledger.
pub struct MeteredWorkspace {
    inner: DirectoryWorkspace,
    storage: Arc<dyn Storage>,
    /// The bytes reserved by running writes.
    reserved: Mutex<HashMap<ConversationId, u64>>,
    /// Held while a size is measured and recorded.
    record_lock: tokio::sync::Mutex<()>,
}

impl MeteredWorkspace {
    /// Counts the bytes of `inner` in `storage`.
    #[must_use]
    pub fn new(inner: DirectoryWorkspace, storage: Arc<dyn Storage>) -> Self {
        Self { inner, storage, reserved: Mutex::default(), record_lock: tokio::sync::Mutex::default() }
    }

    /// Reserves bytes for a write.
    async fn reserve(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        bytes: u64,
    ) -> Result<QuotaHold<'_>, WorkspaceError> {
        // Counted here before the ledger has it: a size recorded in between counts it twice rather than not at all.
        let mut reservation = QuotaHold::new(self, conversation, bytes);
        let mut result = self.storage.reserve_workspace(conversation, bytes).await;
        for empties_trash in [false, true] {
            if !matches!(result, Err(LedgerError::QuotaExceeded(_))) {
                break;
            }
            drop(reservation);
            if empties_trash && let Err(error) = self.inner.empty_trash(conversation).await {
                tracing::warn!(chat.id = %conversation, %error, "emptying the trash of a workspace failed");
            }
            // Measure again: files may have been removed by hand, and a dropped write leaves its reservation behind.
            self.inner.forget_usage(conversation);
            self.record_usage(conversation).await;
            reservation = QuotaHold::new(self, conversation, bytes);
            result = self.storage.reserve_workspace(conversation, bytes).await;
        }
        result.map_err(|error| match error {
            LedgerError::QuotaExceeded(exceeded) => WorkspaceError::StorageFull(exceeded),
            error => WorkspaceError::Failed { path: path.clone(), reason: error.to_string() },
        })?;
        Ok(reservation)
    }

    /// Measures every counted workspace and records its size in the ledger, so that files removed without the tools no
    /// longer count.
    async fn record_all_usages(&self) {
        let usages = match self.storage.usages(&UsageQuery::All).await {
            Ok(usages) => usages,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                return tracing::warn!(error, "recording the workspaces' sizes failed");
            }
        };
        for usage in usages {
            if let UsageScope::Conversation(conversation) = &usage.scope
                && usage.workspace_bytes > 0
            {
                self.inner.forget_usage(conversation);
                self.record_usage(conversation).await;
            }
        }
    }

    /// Records the workspace's size in the ledger. If that fails, the next write records it.
    async fn record_usage(&self, conversation: &ConversationId) {
        // Serialized, so that an older measurement can't overwrite a newer one.
        let _guard = self.record_lock.lock().await;
        let used = match self.inner.used_bytes(conversation).await {
            Ok(used) => used,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                return tracing::warn!(chat.id = %conversation, error, "measuring a workspace failed");
            }
        };
        let reserved = self.lock_reserved().get(conversation).copied().unwrap_or_default();
        if let Err(error) = self.storage.record_workspace(conversation, used.saturating_add(reserved)).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(chat.id = %conversation, error, "recording a workspace's size failed");
        }
    }

    fn lock_reserved(&self) -> MutexGuard<'_, HashMap<ConversationId, u64>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that stay reserved until this is dropped.
struct QuotaHold<'a> {
    workspace: &'a MeteredWorkspace,
    conversation: ConversationId,
    bytes: u64,
}

impl<'a> QuotaHold<'a> {
    fn new(workspace: &'a MeteredWorkspace, conversation: &ConversationId, bytes: u64) -> Self {
        *workspace.lock_reserved().entry(conversation.clone()).or_default() += bytes;
        Self { workspace, conversation: conversation.clone(), bytes }
    }
}

impl Drop for QuotaHold<'_> {
    fn drop(&mut self) {
        let mut reserved = self.workspace.lock_reserved();
        if let Some(bytes) = reserved.get_mut(&self.conversation) {
            *bytes = bytes.saturating_sub(self.bytes);
            if *bytes == 0 {
                reserved.remove(&self.conversation);
            }
        }
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl Workspace for MeteredWorkspace {
    async fn read(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<WorkspaceFile, WorkspaceError> {
        self.inner.read(conversation, path).await
    }

    async fn read_secret(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<SecretString, WorkspaceError> {
        self.inner.read_secret(conversation, path).await
    }

    async fn write(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        content: ByteStream,
        mode: WriteMode,
        limit: u64,
    ) -> Result<u64, WorkspaceError> {
        if !self.inner.is_counted(path.mount()) {
            return self.inner.write(conversation, path, content, mode, limit).await;
        }
        let reservation = self.reserve(conversation, path, limit).await?;
        let result = self.inner.write(conversation, path, content, mode, limit).await;
        drop(reservation);
        self.record_usage(conversation).await;
        result
    }

    async fn list(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        self.inner.list(conversation, path).await
    }

    async fn remove(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<u64, WorkspaceError> {
        let result = self.inner.remove(conversation, path).await;
        if self.inner.is_counted(path.mount()) {
            self.record_usage(conversation).await;
        }
        result
    }

    async fn trash(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        batch: TrashBatch,
        recursive: bool,
    ) -> Result<TrashedEntry, WorkspaceError> {
        self.inner.trash(conversation, path, batch, recursive).await
    }

    async fn restore(&self, conversation: &ConversationId, request: Uuid) -> Result<RestoredFiles, WorkspaceError> {
        self.inner.restore(conversation, request).await
    }

    async fn sweep_trash(&self, before: Timestamp) -> io::Result<u64> {
        let result = self.inner.sweep_trash(before).await;
        self.record_all_usages().await;
        result
    }

    async fn rename_conversation(&self, from: &ConversationId, to: &ConversationId) -> Result<bool, WorkspaceError> {
        self.inner.rename_conversation(from, to).await
    }

    async fn remove_conversation(&self, conversation: &ConversationId) -> io::Result<()> {
        self.inner.remove_conversation(conversation).await?;
        self.record_usage(conversation).await;
        Ok(())
    }

    async fn remove_leftovers(&self) -> io::Result<u64> {
        let result = self.inner.remove_leftovers().await;
        self.record_all_usages().await;
        result
    }

    async fn sweep_tmp(&self, active: &[ConversationId], read_at: SystemTime) -> io::Result<u64> {
        let result = self.inner.sweep_tmp(active, read_at).await;
        self.record_all_usages().await;
        result
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use satchel_domain::{InboundMessage, Sender};
    use satchel_ledger_sqlite::{QuotaRules, Settings, SqliteLedger, VerbSettings};
    use satchel_local::{SystemClock, UuidV7};
    use satchel_ports::ledger::{ClaimMode, Inbox, Quotas};

    use super::*;

    struct WorkspaceHarness {
        workspace: MeteredWorkspace,
        inner: DirectoryWorkspace,
        ledger: Arc<SqliteLedger>,
        conversation: ConversationId,
        directory: tempfile::TempDir,
    }

    async fn harness(quota: u64) -> WorkspaceHarness {
        let directory = tempfile::tempdir().unwrap();
        let quotas = QuotaRules { quotas: Quotas { conversation: quota, person: quota }, ..QuotaRules::default() };
        let verbs = VerbSettings { quotas, ..VerbSettings::default() };
        let settings = Settings { verbs, ..Settings::default() };
        let ledger = Arc::new(
            SqliteLedger::open(directory.path(), settings, Arc::new(SystemClock::new()), Arc::new(UuidV7))
                .await
                .unwrap(),
        );
        let conversation: ConversationId = "telegram:7".parse().unwrap();
        let message = InboundMessage::new(conversation.clone(), "1".into(), Sender::new("7", "Ada"));
        ledger.receive(&message, ClaimMode::Never).await.unwrap();
        let inner = DirectoryWorkspace::open(
            &directory.path().join("workspaces"),
            None,
            1 << 30,
            Arc::new(satchel_files::NativeRunner),
        )
        .unwrap();
        let workspace = MeteredWorkspace::new(inner.clone(), Arc::clone(&ledger) as _);
        WorkspaceHarness { workspace, inner, ledger, conversation, directory }
    }

    impl WorkspaceHarness {
        async fn write(&self, path: &str, bytes: usize) -> Result<u64, WorkspaceError> {
            let content = stream::iter([Ok(Bytes::from(vec![1; bytes]))]).boxed();
            let path = path.parse().unwrap();
            self.workspace.write(&self.conversation, &path, content, WriteMode::CreateNew, bytes as u64).await
        }

        async fn counted_bytes(&self) -> u64 {
            let query = UsageQuery::Scopes(vec![UsageScope::Conversation(self.conversation.clone())]);
            self.ledger.usages(&query).await.unwrap().first().map_or(0, |usage| usage.workspace_bytes)
        }
    }

    #[tokio::test]
    async fn workspace_writes_count_for_total_quota() {
        let harness = harness(10_000).await;
        harness.write("/shared/a", 6_000).await.unwrap();
        assert_eq!(harness.counted_bytes().await, 6_000);
        let refused = harness.write("/shared/b", 5_000).await.unwrap_err();
        assert!(matches!(&refused, WorkspaceError::StorageFull(full) if full.used == 6_000), "{refused:?}");
        assert!(harness.inner.read(&harness.conversation, &"/shared/b".parse().unwrap()).await.is_err());
        assert_eq!(harness.counted_bytes().await, 6_000, "a refused write reserves nothing");
        harness.workspace.remove(&harness.conversation, &"/shared/a".parse().unwrap()).await.unwrap();
        assert_eq!(harness.counted_bytes().await, 0);
        harness.write("/shared/b", 5_000).await.unwrap();
    }

    /// `/tmp` was emptied, or people removed files by hand.
    #[tokio::test]
    async fn workspaces_that_shrank_are_recorded() {
        let harness = harness(10_000).await;
        harness.write("/tmp/a", 6_000).await.unwrap();
        std::fs::remove_file(harness.directory.path().join("workspaces/telegram=7/tmp/a")).unwrap();
        assert_eq!(harness.counted_bytes().await, 6_000);
        harness.workspace.record_all_usages().await;
        assert_eq!(harness.counted_bytes().await, 0);
    }

    /// A write that fails, or whose process dies, leaves its reservation behind.
    #[tokio::test]
    async fn full_quota_is_remeasured_before_refusal() {
        let harness = harness(10_000).await;
        harness.write("/tmp/a", 6_000).await.unwrap();
        harness.ledger.reserve_workspace(&harness.conversation, 4_000).await.unwrap();
        harness.write("/tmp/b", 4_000).await.unwrap();
        assert_eq!(harness.counted_bytes().await, 10_000);
        let by_hand = harness.directory.path().join("workspaces/telegram=7/tmp/a");
        std::fs::remove_file(by_hand).unwrap();
        harness.write("/tmp/c", 6_000).await.unwrap();
        assert_eq!(harness.counted_bytes().await, 10_000);
    }
}
