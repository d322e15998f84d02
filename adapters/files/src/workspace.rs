//! The workspaces of conversations: directories beneath one root, reached only through handles that nothing leads out of.

mod housekeeping;
mod root;
mod usage;
mod write;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use cap_std::fs::{Dir, Metadata, OpenOptions, OpenOptionsExt};
use satchel_domain::{ConversationId, DiskFull, DiskReserve, Timestamp, WorkspacePath, path::Mount, remedy};
use satchel_ports::{
    ByteStream, Workspace, WorkspaceError, WriteMode,
    workspace::{WorkspaceEntry, WorkspaceEntryKind, WorkspaceFile},
};

use crate::{DirectoryOpenError, copy, directory, reserve::ReserveGuard, temp};

use root::WorkspaceRoot;
use write::PendingWrite;

/// What makes an open return at once when the path has become a pipe since it was looked at.
#[cfg(any(target_os = "linux", target_os = "android"))]
const O_NONBLOCK: i32 = 0o4000;
/// The same where the number comes from BSD.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const DONT_WAIT: i32 = 0x4;

/// The [`Workspace`] on a disk: `<root>/<conversation>/{shared,tmp,vault}`, or one directory as `/shared` of all.
///
/// Links that lie in a mount are followed as long as they stay in it. The quota counts what a conversation has in its
/// own `/shared` and `/tmp`; a directory that the operator shares out is the operator's to bound.
#[derive(Debug, Clone)]
pub struct DirectoryWorkspace {
    place: Arc<WorkspaceRoot>,
    reserve: DiskReserve,
}

impl DirectoryWorkspace {
    /// Opens the workspaces beneath `root`, which is made when it is missing; `shared` is the one `/shared` of all
    /// conversations, each has its own without it; `quota` is the room of each conversation in bytes.
    ///
    /// # Errors
    /// When a directory can't be made or opened.
    pub fn open(root: &Path, shared: Option<&Path>, quota: u64) -> Result<Self, DirectoryOpenError> {
        Ok(Self { place: Arc::new(WorkspaceRoot::open(root, shared, quota)?), reserve: DiskReserve::Standard })
    }

    /// Keeps this much of each disk free, and not the standard reserve.
    #[must_use]
    pub fn with_reserve(self, reserve: DiskReserve) -> Self {
        Self { reserve, ..self }
    }

    /// Where a mount lies on the disk, for operators: they put secrets into `/vault` by hand.
    #[must_use]
    pub fn host_directory(&self, conversation: &ConversationId, mount: Mount) -> PathBuf {
        self.place.host_directory(conversation, mount)
    }

    /// Tells whether what is written to a mount counts for its conversation: what the operator shares out doesn't.
    #[must_use]
    pub fn is_counted(&self, mount: Mount) -> bool {
        self.place.is_counted(mount)
    }

    /// Returns how many bytes count for a conversation, without files that are being written.
    ///
    /// # Errors
    /// When its directories can't be read.
    pub async fn used_bytes(&self, conversation: &ConversationId) -> io::Result<u64> {
        let (place, conversation) = (Arc::clone(&self.place), conversation.clone());
        let used = tokio::task::spawn_blocking(move || write::used_bytes(&place, &conversation));
        used.await.map_err(io::Error::other)?
    }

    /// Has the disk looked at again before anything else counts for a conversation.
    pub fn forget_usage(&self, conversation: &ConversationId) {
        write::forget_usage(&self.place, conversation);
    }

    async fn spawn_disk_task<T: Send + 'static>(
        &self,
        path: &WorkspacePath,
        work: impl FnOnce(&Arc<WorkspaceRoot>, &WorkspacePath) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let place = Arc::clone(&self.place);
        let owned = path.clone();
        match tokio::task::spawn_blocking(move || work(&place, &owned)).await {
            Ok(done) => done,
            Err(error) => Err(WorkspaceError::Failed { path: path.clone(), reason: error.to_string() }),
        }
    }
}

#[async_trait]
impl Workspace for DirectoryWorkspace {
    async fn read(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<WorkspaceFile, WorkspaceError> {
        let conversation = conversation.clone();
        self.spawn_disk_task(path, move |place, path| {
            let mount = place.mount(&conversation, path)?;
            read(&mount, path)
        })
        .await
    }

    async fn write(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        content: ByteStream,
        mode: WriteMode,
        limit: u64,
    ) -> Result<u64, WorkspaceError> {
        let conversation = conversation.clone();
        let guard = ReserveGuard::new(self.reserve, &self.place.host_directory(&conversation, path.mount()));
        let begun =
            self.spawn_disk_task(path, move |place, path| PendingWrite::open(place, &conversation, path, mode, guard));
        let writing = begun.await?;
        let written = copy::pump(copy::blocks(content, limit), writing).await.map_err(|error| match error {
            copy::CopyError::TooLarge => WorkspaceError::TooLarge { path: path.clone(), limit },
            copy::CopyError::Source(error) => {
                WorkspaceError::Failed { path: path.clone(), reason: format!("the bytes ended early: {error}") }
            }
            copy::CopyError::Sink(error) => error,
            copy::CopyError::Stopped(error) => WorkspaceError::Failed { path: path.clone(), reason: error.to_string() },
        })?;
        // Lives as long as this future: the thread looks at it, because nobody else tells it that the write was dropped.
        let wanted = Arc::new(());
        let still_wanted = Arc::downgrade(&wanted);
        self.spawn_disk_task(path, move |_, _| written.publish(mode, &still_wanted)).await
    }

    async fn list(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        let conversation = conversation.clone();
        self.spawn_disk_task(path, move |place, path| match place.mount(&conversation, path) {
            // Nothing has been written yet: the mount is there for who asks, and empty.
            Err(WorkspaceError::NotFound(_)) if path.relative().is_empty() => Ok(Vec::new()),
            mount => list(&mount?, path),
        })
        .await
    }

    async fn remove(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<(), WorkspaceError> {
        let conversation = conversation.clone();
        self.spawn_disk_task(path, move |place, path| write::remove(place, &conversation, path)).await
    }

    async fn rename_conversation(&self, from: &ConversationId, to: &ConversationId) -> Result<bool, WorkspaceError> {
        let (from, to) = (from.clone(), to.clone());
        self.spawn_disk_task(&WorkspacePath::root(Mount::Shared), move |place, path| {
            place.hand_over(&from, &to).map_err(|error| failure(path, error))
        })
        .await
    }

    async fn remove_leftovers(&self) -> io::Result<u64> {
        match self.close_to_others().await {
            Ok(0) => {}
            Ok(workspaces) => tracing::info!(workspaces, "removed other users' access to data of an earlier version"),
            Err(error) => tracing::warn!(%error, "failed to remove other users' access to all workspaces"),
        }
        self.remove_temporary_files().await
    }

    async fn sweep_tmp(&self, active: &[ConversationId], read_at: SystemTime) -> io::Result<u64> {
        self.empty_idle_tmp(active, read_at).await
    }
}

fn read(mount: &Dir, path: &WorkspacePath) -> Result<WorkspaceFile, WorkspaceError> {
    let failed = |error| failure(path, error);
    if path.relative().is_empty() || !mount.metadata(path.relative()).map_err(failed)?.is_file() {
        return Err(WorkspaceError::NotAFile(path.clone()));
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(O_NONBLOCK);
    let file = mount.open_with(path.relative(), &options).map_err(failed)?.into_std();
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(WorkspaceError::NotAFile(path.clone()));
    }
    let bytes = metadata.len();
    Ok(WorkspaceFile { bytes, content: copy::stream_file(file, 0..bytes) })
}

fn list(mount: &Dir, path: &WorkspacePath) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotADirectory => WorkspaceError::NotADirectory(path.clone()),
        _ => failure(path, error),
    };
    let directory = directory::open(mount, Path::new(path.relative())).map_err(failed)?;
    let mut entries = Vec::new();
    for entry in directory.entries().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(failed)?,
        };
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => WorkspaceEntryKind::Directory,
            kind if kind.is_file() => WorkspaceEntryKind::File,
            _ => continue,
        };
        // What no path can name, an operator put there; no tool could open it.
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !temp::is_temp_name(name)) else { continue };
        let Ok(path) = path.join(name) else { continue };
        let bytes = if kind == WorkspaceEntryKind::File { metadata.len() } else { 0 };
        entries.push(WorkspaceEntry { path, kind, bytes, modified_at: modified_at(&metadata).map_err(failed)? });
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

fn modified_at(metadata: &Metadata) -> io::Result<Timestamp> {
    let since = metadata.modified()?.into_std().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)))
}

/// Says that the disk has no room for what was to be written to a path.
fn no_room(path: &WorkspacePath, full: DiskFull) -> WorkspaceError {
    WorkspaceError::Failed { path: path.clone(), reason: remedy::for_others(&full.to_string()) }
}

/// Says what an error of the disk means for a path.
fn failure(path: &WorkspacePath, error: io::Error) -> WorkspaceError {
    let path = path.clone();
    match error.kind() {
        io::ErrorKind::NotFound => WorkspaceError::NotFound(path),
        io::ErrorKind::AlreadyExists => WorkspaceError::Exists(path),
        io::ErrorKind::IsADirectory => WorkspaceError::NotAFile(path),
        // A component before the last one is a file, so nothing can be beneath it.
        io::ErrorKind::NotADirectory => WorkspaceError::NotADirectory(parent_of(&path).unwrap_or(path)),
        // cap-std refuses with an error of its own, the system's have a number.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => WorkspaceError::Escapes(path),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            WorkspaceError::Failed { path, reason: remedy::for_others("no space is left on the disk") }
        }
        _ => WorkspaceError::Failed { path, reason: error.to_string() },
    }
}

/// The directory in which a path lies; none for a mount itself.
fn parent_of(path: &WorkspacePath) -> Option<WorkspacePath> {
    let name = path.file_name()?;
    let text = path.to_string();
    text.strip_suffix(name)?.parse().ok()
}
