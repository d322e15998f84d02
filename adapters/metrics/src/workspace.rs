//! Counts the changes of files in workspaces, without their paths.

use std::{io, sync::Arc, time::SystemTime};

use async_trait::async_trait;
use satchel_domain::{ConversationId, Timestamp, WorkspacePath};
use satchel_ports::{
    ByteStream, ChangeOutcome, FileAction, Workspace, WorkspaceError, WriteMode,
    workspace::{RestoredFiles, TrashBatch, TrashedEntry, WorkspaceEntry, WorkspaceFile},
};
use secrecy::SecretString;
use uuid::Uuid;

use super::{FileChangeLabels, Metrics};

/// A workspace that counts.
pub struct MeasuredWorkspace {
    inner: Arc<dyn Workspace>,
    metrics: Arc<Metrics>,
}

impl MeasuredWorkspace {
    /// Counts the changes that are made through `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Workspace>, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics }
    }

    /// Starts to count a change, which is `unknown` unless it finishes.
    fn start(&self, action: FileAction) -> CountedChange<'_> {
        CountedChange { metrics: &self.metrics, action, outcome: ChangeOutcome::Unknown.as_str(), files: 1 }
    }
}

/// A change that is counted when it is dropped.
struct CountedChange<'a> {
    metrics: &'a Metrics,
    action: FileAction,
    outcome: &'static str,
    files: u64,
}

impl CountedChange<'_> {
    fn fail(mut self) {
        self.outcome = ChangeOutcome::Failed { reason: String::new() }.as_str();
    }

    fn finish<T>(mut self, result: &Result<T, WorkspaceError>, files: impl FnOnce(&T) -> u64) {
        (self.outcome, self.files) = match result {
            Ok(value) => (ChangeOutcome::Done.as_str(), files(value)),
            Err(error) => (ChangeOutcome::from_error(error).as_str(), 1),
        };
    }
}

impl Drop for CountedChange<'_> {
    fn drop(&mut self) {
        let labels = FileChangeLabels { action: self.action.as_str(), outcome: self.outcome };
        self.metrics.file_changes.get_or_create(&labels).inc_by(self.files);
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl Workspace for MeasuredWorkspace {
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
        let change = self.start(FileAction::Write);
        let result = self.inner.write(conversation, path, content, mode, limit).await;
        change.finish(&result, |_| 1);
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
        let change = self.start(FileAction::Delete);
        let result = self.inner.remove(conversation, path).await;
        change.finish(&result, |_| 1);
        result
    }

    async fn trash(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        batch: TrashBatch,
        recursive: bool,
    ) -> Result<TrashedEntry, WorkspaceError> {
        let change = self.start(FileAction::Delete);
        let result = self.inner.trash(conversation, path, batch, recursive).await;
        change.finish(&result, |_| 1);
        result
    }

    async fn restore(&self, conversation: &ConversationId, request: Uuid) -> Result<RestoredFiles, WorkspaceError> {
        let change = self.start(FileAction::Restore);
        let result = self.inner.restore(conversation, request).await;
        change.finish(&result, |files| files.restored.len() as u64);
        if matches!(result, Ok(RestoredFiles { failure: Some(_), .. })) {
            // What stays in the trash counts once.
            self.start(FileAction::Restore).fail();
        }
        result
    }

    async fn sweep_trash(&self, before: Timestamp) -> io::Result<u64> {
        self.inner.sweep_trash(before).await
    }

    async fn rename_conversation(&self, from: &ConversationId, to: &ConversationId) -> Result<bool, WorkspaceError> {
        self.inner.rename_conversation(from, to).await
    }

    async fn remove_conversation(&self, conversation: &ConversationId) -> io::Result<()> {
        self.inner.remove_conversation(conversation).await
    }

    async fn remove_leftovers(&self) -> io::Result<u64> {
        self.inner.remove_leftovers().await
    }

    async fn sweep_tmp(&self, active: &[ConversationId], read_at: SystemTime) -> io::Result<u64> {
        self.inner.sweep_tmp(active, read_at).await
    }
}
