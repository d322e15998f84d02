//! The files that a conversation's tools work on.

use std::{io, time::SystemTime};

use async_trait::async_trait;
use satchel_domain::{ConversationId, Timestamp, WorkspacePath};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{ByteStream, ledger::QuotaExceeded};

/// What happens to a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// It stays and the write fails.
    CreateNew,
    /// It is replaced at once, when all new bytes are on disk.
    Replace,
}

/// The largest secret in bytes.
pub const MAX_SECRET_BYTES: u64 = 64 << 10;

/// An opened file.
pub struct WorkspaceFile {
    /// Its size when it was opened.
    pub bytes: u64,
    /// Its bytes.
    pub content: ByteStream,
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceEntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// One entry of a directory. Links, devices and pipes are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkspaceEntry {
    /// Its path in the workspace.
    pub path: WorkspacePath,
    /// What it is.
    pub kind: WorkspaceEntryKind,
    /// Its size; 0 for directories.
    pub bytes: u64,
    /// When it was last changed.
    pub modified_at: Timestamp,
}

/// One deletion, whose files are restored together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrashBatch {
    /// When it was.
    pub deleted_at: Timestamp,
    /// What tells it from others of the same time.
    pub id: Uuid,
}

/// What was moved to the trash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrashedEntry {
    /// What it is; a link counts as a file.
    pub kind: WorkspaceEntryKind,
    /// The size of a file; 0 for directories.
    pub bytes: u64,
}

/// What a restore brought back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestoredFiles {
    /// The files, and the directories that were restored with all that lies in them.
    pub restored: Vec<WorkspacePath>,
    /// What stays in the trash, because something has its path.
    pub blocked: Vec<WorkspacePath>,
    /// Why the rest stays in the trash, if the disk failed; a later restore goes on with it.
    pub failure: Option<String>,
}

/// Why an operation of a workspace failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There is nothing at this path.
    #[error("`{0}` does not exist")]
    NotFound(WorkspacePath),
    /// There is something at this path already.
    #[error("`{0}` exists already")]
    Exists(WorkspacePath),
    /// It is not a regular file.
    #[error("`{0}` is not a regular file")]
    NotAFile(WorkspacePath),
    /// It is not a directory.
    #[error("`{0}` is not a directory")]
    NotADirectory(WorkspacePath),
    /// The path leads out of the workspace through a link.
    #[error("`{0}` leads out of the workspace")]
    Escapes(WorkspacePath),
    /// It holds secrets, which are read in another way.
    #[error("`{0}` holds secrets: only a tool that declares /vault can read it")]
    Secret(WorkspacePath),
    /// The mount can't be written to.
    #[error("`{0}` can't be written to: {1} is read-only")]
    ReadOnly(WorkspacePath, satchel_domain::path::Mount),
    /// More bytes came than are allowed; the file is as it was.
    #[error("`{path}` would be larger than {}", satchel_domain::size::format_bytes(*limit))]
    TooLarge {
        /// The path.
        path: WorkspacePath,
        /// The number of bytes that is allowed.
        limit: u64,
    },
    /// It is a directory, and something is in it.
    #[error("`{0}` is a directory that isn't empty")]
    NotEmpty(WorkspacePath),
    /// The path has more names than any may have.
    #[error("`{path}` lies too deep: a path may have {limit} names below its mount, so choose a shorter one")]
    TooDeep {
        /// The path.
        path: WorkspacePath,
        /// The number of names that is allowed beneath a mount.
        limit: usize,
    },
    /// The conversation, or its person, has used up the room for all files.
    #[error("{0}")]
    StorageFull(QuotaExceeded),
    /// The conversation has used up its room.
    #[error(
        "the workspace is full: {} is its quota; `/forget workspace:PATH` removes a file of it",
        satchel_domain::size::format_bytes(*quota)
    )]
    QuotaExceeded {
        /// The room in bytes.
        quota: u64,
    },
    /// The new file is in its place with all its bytes, but whether it survives a power cut is unknown.
    #[error("`{path}` was written, but the disk did not confirm that it will stay: {reason}")]
    Unconfirmed {
        /// The path.
        path: WorkspacePath,
        /// What went wrong.
        reason: String,
    },
    /// The file or directory is removed, but whether it stays removed after a power cut is unknown.
    #[error("`{path}` was removed, but the disk did not confirm that it will stay removed: {reason}")]
    RemovalUnconfirmed {
        /// The path.
        path: WorkspacePath,
        /// What went wrong.
        reason: String,
    },
    /// The disk failed, or the bytes to write broke off; the file is as it was.
    #[error("`{path}` failed: {reason}")]
    Failed {
        /// The path.
        path: WorkspacePath,
        /// What went wrong.
        reason: String,
    },
}

/// The directories `/shared`, `/tmp` and `/vault` of each conversation.
///
/// # Contract
/// - Nothing outside the mounts is read or written, whatever links and swaps happen meanwhile.
/// - `/vault` is read by `read_secret` alone.
/// - `write` returns after the bytes, the name and its directory are on disk.
/// - A write that fails, is dropped, or dies with the process leaves the old file or the new one, never a part of one.
/// - Two `CreateNew` writes of one path: exactly one succeeds.
/// - Missing parent directories are created.
/// - Conversations don't see each other's files, unless the operator made `/shared` one directory for all.
/// - `list` is sorted by path.
/// - What is in the trash counts for the quota, is neither listed, read nor written, and is removed first when a write
///   has no room.
/// - `trash` moves by one rename, so that all of it is in its old place or in the trash.
/// - `restore` replaces nothing.
/// - `rename_conversation` moves all of a conversation's files at once, or none; nothing of another conversation's is replaced.
/// - `remove_leftovers` and `sweep_tmp` touch nothing that a running turn uses.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Workspace: Send + Sync {
    /// Opens a file.
    async fn read(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<WorkspaceFile, WorkspaceError>;

    /// Reads a secret: a text file of `/vault` of at most [`MAX_SECRET_BYTES`], without line breaks at its end.
    async fn read_secret(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<SecretString, WorkspaceError>;

    /// Writes a file of at most `limit` bytes and returns its size.
    async fn write(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        content: ByteStream,
        mode: WriteMode,
        limit: u64,
    ) -> Result<u64, WorkspaceError>;

    /// Lists a directory, not what lies in the directories in it.
    async fn list(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<Vec<WorkspaceEntry>, WorkspaceError>;

    /// Removes a file or an empty directory for good, and returns the file's size; 0 for a directory.
    async fn remove(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<u64, WorkspaceError>;

    /// Moves a file or a directory to the trash of its mount. A directory that isn't empty is moved only if `recursive`.
    async fn trash(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        batch: TrashBatch,
        recursive: bool,
    ) -> Result<TrashedEntry, WorkspaceError>;

    /// Brings back what the newest batch of the conversation's trash holds; nothing where the trash is empty. A repeat
    /// with the same `request` goes on with the same batch.
    async fn restore(&self, conversation: &ConversationId, request: Uuid) -> Result<RestoredFiles, WorkspaceError>;

    /// Removes for good, from the trash of all conversations, what was deleted before this time, and returns the bytes
    /// freed. A workspace whose trash doesn't last has nothing to remove.
    async fn sweep_trash(&self, _before: Timestamp) -> io::Result<u64> {
        Ok(0)
    }

    /// Moves all files of a conversation to its new name; `false` if there are none, or the new name has files already.
    async fn rename_conversation(&self, from: &ConversationId, to: &ConversationId) -> Result<bool, WorkspaceError>;

    /// Removes for good all that a conversation has of its own, its trash and its secrets included. What is in a directory
    /// that the operator shares stays. A conversation without files has nothing to remove.
    async fn remove_conversation(&self, conversation: &ConversationId) -> io::Result<()>;

    /// Removes what processes left when they died, and returns how many files there were. Called once after a start, in
    /// the background; a workspace that dies with its process has nothing to remove.
    async fn remove_leftovers(&self) -> io::Result<u64> {
        Ok(0)
    }

    /// Empties `/tmp` of every conversation but the `active` ones, which were read at `read_at` or later, and returns
    /// the bytes freed. Where something was changed after `read_at`, a turn has started that `active` doesn't name:
    /// that `/tmp` stays. A workspace without a `/tmp` that lasts has nothing to empty.
    async fn sweep_tmp(&self, _active: &[ConversationId], _read_at: SystemTime) -> io::Result<u64> {
        Ok(0)
    }
}
