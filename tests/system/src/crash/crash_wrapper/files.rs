//! The bytes of files, the workspaces of the tools, and what is fetched from elsewhere.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{ConversationId, Sha256, WorkspacePath};
use satchel_files::{DirectoryDeclaredFiles, DirectoryWorkspace};
use satchel_ports::{
    BlobError, BlobHint, Blobs, ByteStream, DeclaredFileError, DeclaredFiles, FetchRequest, FetchResponse, Fetcher,
    FetcherError, FileEntry, OpenedFile, StoredBlob, Workspace, WorkspaceError, WriteMode,
    workspace::{RestoredFiles, TrashBatch, TrashedEntry, WorkspaceEntry, WorkspaceFile},
};
use secrecy::SecretString;
use uuid::Uuid;

use super::{CrashWrapper, between};

#[async_trait]
impl Blobs for CrashWrapper<Arc<dyn Blobs>> {
    async fn put(&self, content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        between!(self, "blobs.put", self.inner.put(content, hint, limit))
    }

    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        between!(self, "blobs.open", self.inner.open(sha256, range))
    }

    async fn list_stale(&self, grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        between!(self, "blobs.stale", self.inner.list_stale(grace))
    }

    async fn mark(&self, unreferenced: &[Sha256], grace: Duration) -> Result<(), BlobError> {
        between!(self, "blobs.mark", self.inner.mark(unreferenced, grace))
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        between!(self, "blobs.sweep", self.inner.sweep())
    }
}

#[async_trait]
impl Workspace for CrashWrapper<DirectoryWorkspace> {
    async fn read(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<WorkspaceFile, WorkspaceError> {
        between!(self, "workspace.read", self.inner.read(conversation, path))
    }

    async fn read_secret(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<SecretString, WorkspaceError> {
        between!(self, "workspace.read_secret", self.inner.read_secret(conversation, path))
    }

    async fn write(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        content: ByteStream,
        mode: WriteMode,
        limit: u64,
    ) -> Result<u64, WorkspaceError> {
        between!(self, "workspace.write", self.inner.write(conversation, path, content, mode, limit))
    }

    async fn list(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        between!(self, "workspace.list", self.inner.list(conversation, path))
    }

    async fn remove(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<u64, WorkspaceError> {
        between!(self, "workspace.remove", self.inner.remove(conversation, path))
    }

    async fn trash(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        batch: TrashBatch,
        recursive: bool,
    ) -> Result<TrashedEntry, WorkspaceError> {
        between!(self, "workspace.trash", self.inner.trash(conversation, path, batch, recursive))
    }

    async fn restore(&self, conversation: &ConversationId, request: Uuid) -> Result<RestoredFiles, WorkspaceError> {
        between!(self, "workspace.restore", self.inner.restore(conversation, request))
    }

    async fn rename_conversation(&self, from: &ConversationId, to: &ConversationId) -> Result<bool, WorkspaceError> {
        between!(self, "workspace.hand_over", self.inner.rename_conversation(from, to))
    }

    async fn remove_conversation(&self, conversation: &ConversationId) -> std::io::Result<()> {
        between!(self, "workspace.remove_conversation", self.inner.remove_conversation(conversation))
    }
}

#[async_trait]
impl Fetcher for CrashWrapper<Arc<dyn Fetcher>> {
    async fn fetch(&self, request: &FetchRequest) -> Result<FetchResponse, FetcherError> {
        between!(self, "fetcher.fetch", self.inner.fetch(request))
    }
}

#[async_trait]
impl DeclaredFiles for CrashWrapper<DirectoryDeclaredFiles> {
    async fn list(
        &self,
        root: &Path,
        directory: &str,
        is_recursive: bool,
    ) -> Result<Vec<FileEntry>, DeclaredFileError> {
        between!(self, "files.list", self.inner.list(root, directory, is_recursive))
    }

    async fn canonical_path(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        between!(self, "files.canonical_path", self.inner.canonical_path(root, path))
    }

    async fn open(&self, root: &Path, path: &Path) -> Result<OpenedFile, DeclaredFileError> {
        between!(self, "files.open", self.inner.open(root, path))
    }

    async fn store(&self, content: ByteStream, hint: &BlobHint) -> Result<OpenedFile, DeclaredFileError> {
        between!(self, "files.store", self.inner.store(content, hint))
    }
}
