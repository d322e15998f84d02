//! A workspace whose writes are set aside in the ledger first, so that they count for the quotas of all files.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use async_trait::async_trait;
use satchel_domain::{ConversationId, WorkspacePath};
use satchel_files::DirectoryWorkspace;
use satchel_ports::{
    ByteStream, Ledger, LedgerError, Workspace, WorkspaceError, WriteMode,
    ledger::usage::{UsageQuery, UsageScope},
    workspace::{WorkspaceEntry, WorkspaceFile},
};

/// The conversations' workspaces, counted in the ledger.
pub struct MeteredWorkspace {
    inner: DirectoryWorkspace,
    ledger: Arc<dyn Ledger>,
    /// What is set aside for writes that run.
    reserved: Mutex<HashMap<ConversationId, u64>>,
    /// Held by who measures and records.
    recording: tokio::sync::Mutex<()>,
}

impl MeteredWorkspace {
    /// Counts what is written to `inner`.
    #[must_use]
    pub fn new(inner: DirectoryWorkspace, ledger: Arc<dyn Ledger>) -> Self {
        Self { inner, ledger, reserved: Mutex::default(), recording: tokio::sync::Mutex::default() }
    }

    /// Sets bytes aside for a write.
    async fn reserve(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        bytes: u64,
    ) -> Result<QuotaHold<'_>, WorkspaceError> {
        // Held before the ledger knows of it: what is recorded meanwhile counts it twice rather than not at all.
        let mut reservation = QuotaHold::new(self, conversation, bytes);
        let mut reserved = self.ledger.reserve_workspace(conversation, bytes).await;
        if matches!(reserved, Err(LedgerError::QuotaExceeded(_))) {
            drop(reservation);
            // People remove files by hand, and a write that was dropped has set bytes aside in vain.
            self.inner.forget_usage(conversation);
            self.record(conversation).await;
            reservation = QuotaHold::new(self, conversation, bytes);
            reserved = self.ledger.reserve_workspace(conversation, bytes).await;
        }
        reserved.map_err(|error| match error {
            LedgerError::QuotaExceeded(exceeded) => WorkspaceError::StorageFull(exceeded),
            error => WorkspaceError::Failed { path: path.clone(), reason: error.to_string() },
        })?;
        Ok(reservation)
    }

    /// Measures every workspace that counts, and records each in the ledger: what was removed without the tools counts no
    /// longer.
    async fn record_all(&self) {
        let usages = match self.ledger.usages(&UsageQuery::All).await {
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
                self.record(conversation).await;
            }
        }
    }

    /// Tells the ledger what the workspace holds. What it is told in vain, the next write tells it.
    async fn record(&self, conversation: &ConversationId) {
        // One after another, or an older look at the disk would be recorded behind a newer one.
        let _alone = self.recording.lock().await;
        let used = match self.inner.used_bytes(conversation).await {
            Ok(used) => used,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                return tracing::warn!(chat.id = %conversation, error, "measuring a workspace failed");
            }
        };
        let reserved = self.reserved().get(conversation).copied().unwrap_or_default();
        if let Err(error) = self.ledger.record_workspace(conversation, used.saturating_add(reserved)).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(chat.id = %conversation, error, "recording a workspace's size failed");
        }
    }

    fn reserved(&self) -> MutexGuard<'_, HashMap<ConversationId, u64>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that are set aside until this is dropped.
struct QuotaHold<'a> {
    workspace: &'a MeteredWorkspace,
    conversation: ConversationId,
    bytes: u64,
}

impl<'a> QuotaHold<'a> {
    fn new(workspace: &'a MeteredWorkspace, conversation: &ConversationId, bytes: u64) -> Self {
        *workspace.reserved().entry(conversation.clone()).or_default() += bytes;
        Self { workspace, conversation: conversation.clone(), bytes }
    }
}

impl Drop for QuotaHold<'_> {
    fn drop(&mut self) {
        let mut reserved = self.workspace.reserved();
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
        let written = self.inner.write(conversation, path, content, mode, limit).await;
        drop(reservation);
        self.record(conversation).await;
        written
    }

    async fn list(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        self.inner.list(conversation, path).await
    }

    async fn remove(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<(), WorkspaceError> {
        let removed = self.inner.remove(conversation, path).await;
        if self.inner.is_counted(path.mount()) {
            self.record(conversation).await;
        }
        removed
    }

    async fn rename_conversation(&self, from: &ConversationId, to: &ConversationId) -> Result<bool, WorkspaceError> {
        self.inner.rename_conversation(from, to).await
    }

    async fn remove_leftovers(&self) -> io::Result<u64> {
        let removed = self.inner.remove_leftovers().await;
        self.record_all().await;
        removed
    }

    async fn sweep_tmp(&self, active: &[ConversationId], read_at: SystemTime) -> io::Result<u64> {
        let freed = self.inner.sweep_tmp(active, read_at).await;
        self.record_all().await;
        freed
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use satchel_domain::{InboundMessage, Sender};
    use satchel_ledger::{QuotaRules, Settings, SqliteLedger};
    use satchel_ports::ledger::{ClaimMode, usage::Quotas};

    use super::*;

    struct Stage {
        workspace: MeteredWorkspace,
        inner: DirectoryWorkspace,
        ledger: Arc<SqliteLedger>,
        conversation: ConversationId,
        directory: tempfile::TempDir,
    }

    async fn stage(quota: u64) -> Stage {
        let directory = tempfile::tempdir().unwrap();
        let quotas = QuotaRules { quotas: Quotas { conversation: quota, person: quota }, ..QuotaRules::default() };
        let settings = Settings { quotas, ..Settings::default() };
        let ledger = Arc::new(SqliteLedger::open(directory.path(), settings).await.unwrap());
        let conversation: ConversationId = "telegram:7".parse().unwrap();
        let message = InboundMessage::new(conversation.clone(), "1".into(), Sender::new("7", "Ada"));
        ledger.receive(&message, ClaimMode::Never).await.unwrap();
        let inner = DirectoryWorkspace::open(&directory.path().join("workspaces"), None, 1 << 30).unwrap();
        let workspace = MeteredWorkspace::new(inner.clone(), Arc::clone(&ledger) as _);
        Stage { workspace, inner, ledger, conversation, directory }
    }

    impl Stage {
        async fn write(&self, path: &str, bytes: usize) -> Result<u64, WorkspaceError> {
            let content = stream::iter([Ok(Bytes::from(vec![1; bytes]))]).boxed();
            let path = path.parse().unwrap();
            self.workspace.write(&self.conversation, &path, content, WriteMode::CreateNew, bytes as u64).await
        }

        async fn counted(&self) -> u64 {
            let query = UsageQuery::Of(vec![UsageScope::Conversation(self.conversation.clone())]);
            self.ledger.usages(&query).await.unwrap().first().map_or(0, |usage| usage.workspace_bytes)
        }
    }

    #[tokio::test]
    async fn workspace_writes_count_for_total_quota() {
        let stage = stage(10_000).await;
        stage.write("/shared/a", 6_000).await.unwrap();
        assert_eq!(stage.counted().await, 6_000);
        let refused = stage.write("/shared/b", 5_000).await.unwrap_err();
        assert!(matches!(&refused, WorkspaceError::StorageFull(full) if full.used == 6_000), "{refused:?}");
        assert!(stage.inner.read(&stage.conversation, &"/shared/b".parse().unwrap()).await.is_err());
        assert_eq!(stage.counted().await, 6_000, "what was refused is not set aside");
        stage.workspace.remove(&stage.conversation, &"/shared/a".parse().unwrap()).await.unwrap();
        assert_eq!(stage.counted().await, 0);
        stage.write("/shared/b", 5_000).await.unwrap();
    }

    /// `/tmp` that was emptied, or what people have removed by hand.
    #[tokio::test]
    async fn workspaces_that_shrank_are_recorded() {
        let stage = stage(10_000).await;
        stage.write("/tmp/a", 6_000).await.unwrap();
        std::fs::remove_file(stage.directory.path().join("workspaces/telegram=7/tmp/a")).unwrap();
        assert_eq!(stage.counted().await, 6_000);
        stage.workspace.record_all().await;
        assert_eq!(stage.counted().await, 0);
    }

    /// A write that fails, or whose process dies, has set bytes aside in vain.
    #[tokio::test]
    async fn full_quota_is_remeasured_before_refusal() {
        let stage = stage(10_000).await;
        stage.write("/tmp/a", 6_000).await.unwrap();
        stage.ledger.reserve_workspace(&stage.conversation, 4_000).await.unwrap();
        stage.write("/tmp/b", 4_000).await.unwrap();
        assert_eq!(stage.counted().await, 10_000);
        let by_hand = stage.directory.path().join("workspaces/telegram=7/tmp/a");
        std::fs::remove_file(by_hand).unwrap();
        stage.write("/tmp/c", 6_000).await.unwrap();
        assert_eq!(stage.counted().await, 10_000);
    }
}
