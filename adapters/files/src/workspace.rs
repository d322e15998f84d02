//! The workspaces of conversations: directories beneath one root, reached only through handles that can't be escaped.

mod housekeeping;
mod root;
mod trash;
mod usage;
mod write;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use satchel_blob_content::copy::{self, BlockSource};
use satchel_domain::{ConversationId, DiskFull, DiskReserve, Timestamp, WorkspacePath, path::Mount, remedy};
use satchel_ports::{
    ByteStream, FileProfile, FileReader, FileRunner, Workspace, WorkspaceError, WriteMode,
    file_runner::{FileKind, FileStat, LinkMode},
    workspace::{
        MAX_SECRET_BYTES, RestoredFiles, TrashBatch, TrashedEntry, WorkspaceEntry, WorkspaceEntryKind, WorkspaceFile,
    },
};
use secrecy::SecretString;
use uuid::Uuid;

use crate::{DirectoryOpenError, reserve::ReserveGuard, temp};

use root::WorkspaceRoot;
use write::PendingWrite;

/// The [`Workspace`] on a disk: `<root>/<conversation>/{shared,tmp,vault}`, or one directory as `/shared` of all.
///
/// Links in a mount are followed as long as they stay in it. The quota counts what a conversation has in its own
/// `/shared` and `/tmp`; a directory that the operator shares is not limited.
#[derive(Clone)]
pub struct DirectoryWorkspace {
    root: Arc<WorkspaceRoot>,
    reserve: DiskReserve,
}

impl DirectoryWorkspace {
    /// Opens the workspaces beneath `root`, which is created if missing; `shared` is the one `/shared` of all
    /// conversations, each has its own without it; `quota` is the limit of each conversation in bytes; `runner` reads
    /// and changes the files.
    ///
    /// # Errors
    /// When a directory can't be created or opened.
    pub fn open(
        root: &Path,
        shared: Option<&Path>,
        quota: u64,
        runner: Arc<dyn FileRunner>,
    ) -> Result<Self, DirectoryOpenError> {
        let root = WorkspaceRoot::open(root, shared, quota, runner)?;
        Ok(Self { root: Arc::new(root), reserve: DiskReserve::Standard })
    }

    /// Keeps this much of each disk free instead of the standard reserve.
    #[must_use]
    pub fn with_reserve(self, reserve: DiskReserve) -> Self {
        Self { reserve, ..self }
    }

    /// The path of a mount on the disk, for operators: they put secrets into `/vault` by hand.
    #[must_use]
    pub fn host_directory(&self, conversation: &ConversationId, mount: Mount) -> PathBuf {
        self.root.host_directory(conversation, mount)
    }

    /// Whether files in a mount count for its conversation's quota; those in the operator's shared directory don't.
    #[must_use]
    pub fn is_counted(&self, mount: Mount) -> bool {
        self.root.is_counted(mount)
    }

    /// Returns how many bytes count for a conversation, without files that are being written.
    ///
    /// # Errors
    /// When its directories can't be read.
    pub async fn used_bytes(&self, conversation: &ConversationId) -> io::Result<u64> {
        let (root, conversation) = (Arc::clone(&self.root), conversation.clone());
        let measure = tokio::task::spawn_blocking(move || write::used_bytes(&root, &conversation));
        measure.await.map_err(io::Error::other)?
    }

    /// Removes what a conversation deleted for good, and returns the bytes freed.
    ///
    /// # Errors
    /// When the trash can't be read or emptied.
    pub async fn empty_trash(&self, conversation: &ConversationId) -> io::Result<u64> {
        let directory = conversation.to_file_name();
        self.run_in_background(move |root| {
            let usage = root.usage(&directory);
            let mut usage = write::lock_usage(&usage);
            usage.invalidate();
            trash::empty(root, &directory)
        })
        .await
    }

    /// Discards the counted usage of a conversation, so that it is measured again.
    pub fn forget_usage(&self, conversation: &ConversationId) {
        write::forget_usage(&self.root, conversation);
    }

    async fn spawn_disk_task<T: Send + 'static>(
        &self,
        path: &WorkspacePath,
        work: impl FnOnce(&Arc<WorkspaceRoot>, &WorkspacePath) -> Result<T, WorkspaceError> + Send + 'static,
    ) -> Result<T, WorkspaceError> {
        let root = Arc::clone(&self.root);
        let task_path = path.clone();
        match tokio::task::spawn_blocking(move || work(&root, &task_path)).await {
            Ok(result) => result,
            Err(error) => Err(WorkspaceError::Failed { path: path.clone(), reason: error.to_string() }),
        }
    }
}

#[async_trait]
impl Workspace for DirectoryWorkspace {
    async fn read(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<WorkspaceFile, WorkspaceError> {
        let conversation = conversation.clone();
        self.spawn_disk_task(path, move |root, path| {
            check_readable(path)?;
            let mount = root.mount(&conversation, path)?;
            open_file(root.reader(mount, path, FileProfile::FileReadOnly)?, path)
        })
        .await
    }

    async fn read_secret(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<SecretString, WorkspaceError> {
        let conversation = conversation.clone();
        self.spawn_disk_task(path, move |root, path| {
            let mount = root.mount(&conversation, path)?;
            read_secret(root.reader(mount, path, FileProfile::VaultRead)?, path)
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
        let guard = ReserveGuard::new(self.reserve, &self.root.host_directory(&conversation, path.mount()));
        let opening =
            self.spawn_disk_task(path, move |root, path| PendingWrite::open(root, &conversation, path, mode, guard));
        let pending = opening.await?;
        let complete =
            copy::copy_to_sink(copy::into_blocks(content, limit), pending).await.map_err(|error| match error {
                copy::CopyError::TooLarge => WorkspaceError::TooLarge { path: path.clone(), limit },
                copy::CopyError::Source(error) => {
                    WorkspaceError::Failed { path: path.clone(), reason: format!("the bytes ended early: {error}") }
                }
                copy::CopyError::Sink(error) => error,
                copy::CopyError::Stopped(error) => {
                    WorkspaceError::Failed { path: path.clone(), reason: error.to_string() }
                }
            })?;
        // Lives as long as this future: the thread checks it, because dropping the future can't stop the thread.
        let caller_token = Arc::new(());
        let caller = Arc::downgrade(&caller_token);
        self.spawn_disk_task(path, move |_, _| complete.publish(mode, &caller)).await
    }

    async fn list(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        let conversation = conversation.clone();
        self.spawn_disk_task(path, move |root, path| {
            check_readable(path)?;
            match root.mount(&conversation, path) {
                // Nothing has been written yet: the mount is listed as empty.
                Err(WorkspaceError::NotFound(_)) if path.relative().is_empty() => Ok(Vec::new()),
                mount => list_directory(&mut *root.reader(mount?, path, FileProfile::FileReadOnly)?, path),
            }
        })
        .await
    }

    async fn remove(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<u64, WorkspaceError> {
        let conversation = conversation.clone();
        self.spawn_disk_task(path, move |root, path| write::remove(root, &conversation, path)).await
    }

    async fn trash(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
        batch: TrashBatch,
        recursive: bool,
    ) -> Result<TrashedEntry, WorkspaceError> {
        let conversation = conversation.clone();
        self.spawn_disk_task(path, move |root, path| trash::move_to_trash(root, &conversation, path, batch, recursive))
            .await
    }

    async fn restore(&self, conversation: &ConversationId, request: Uuid) -> Result<RestoredFiles, WorkspaceError> {
        let conversation = conversation.clone();
        let restore = move |root: &Arc<WorkspaceRoot>, _: &WorkspacePath| trash::restore(root, &conversation, request);
        self.spawn_disk_task(&WorkspacePath::root(Mount::Shared), restore).await
    }

    async fn sweep_trash(&self, before: Timestamp) -> io::Result<u64> {
        self.run_in_background(move |root| trash::sweep(root, before)).await
    }

    async fn rename_conversation(&self, from: &ConversationId, to: &ConversationId) -> Result<bool, WorkspaceError> {
        let (from, to) = (from.clone(), to.clone());
        self.spawn_disk_task(&WorkspacePath::root(Mount::Shared), move |root, path| {
            root.rename_conversation(&from, &to).map_err(|error| workspace_error(path, error))
        })
        .await
    }

    async fn remove_conversation(&self, conversation: &ConversationId) -> io::Result<()> {
        let directory = conversation.to_file_name();
        self.run_in_background(move |root| root.remove_conversation(&directory)).await
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
        self.sweep_idle_tmp(active, read_at).await
    }
}

/// Refuses paths that are not for reading like others: secrets, and what was deleted.
fn check_readable(path: &WorkspacePath) -> Result<(), WorkspaceError> {
    match path.mount() {
        Mount::Vault => Err(WorkspaceError::Secret(path.clone())),
        Mount::Shared | Mount::Tmp => trash::check_visible(path),
    }
}

fn read_secret(mut reader: Box<dyn FileReader>, path: &WorkspacePath) -> Result<SecretString, WorkspaceError> {
    let opened = open_regular_file(&mut *reader, path)?;
    if opened.bytes > MAX_SECRET_BYTES {
        return Err(WorkspaceError::TooLarge { path: path.clone(), limit: MAX_SECRET_BYTES });
    }
    let mut content = vec![0; usize::try_from(opened.bytes).unwrap_or_default()];
    let length = reader.read(&mut content).map_err(|error| workspace_error(path, error))?;
    content.truncate(length);
    let text = String::from_utf8(content)
        .map_err(|_| WorkspaceError::Failed { path: path.clone(), reason: "it is not text (UTF-8)".to_owned() })?;
    Ok(SecretString::from(text.trim_end_matches(['\r', '\n'])))
}

fn open_file(mut reader: Box<dyn FileReader>, path: &WorkspacePath) -> Result<WorkspaceFile, WorkspaceError> {
    let opened = open_regular_file(&mut *reader, path)?;
    let content = copy::stream_blocks(FileSource(reader), 0..opened.bytes);
    Ok(WorkspaceFile { bytes: opened.bytes, content })
}

fn open_regular_file(reader: &mut dyn FileReader, path: &WorkspacePath) -> Result<FileStat, WorkspaceError> {
    let map_error = |error| workspace_error(path, error);
    let (target, not_a_file) = (Path::new(path.relative()), || WorkspaceError::NotAFile(path.clone()));
    if reader.stat(target, LinkMode::Follow).map_err(map_error)?.kind != FileKind::File {
        return Err(not_a_file());
    }
    let opened = reader.open(target).map_err(map_error)?;
    if opened.kind != FileKind::File {
        return Err(not_a_file());
    }
    Ok(opened)
}

/// The open file of a reader.
struct FileSource(Box<dyn FileReader>);

impl BlockSource for FileSource {
    fn read_block(&mut self, block: &mut [u8]) -> io::Result<usize> {
        self.0.read(block)
    }
}

fn list_directory(reader: &mut dyn FileReader, path: &WorkspacePath) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
    let map_error = |error: io::Error| match error.kind() {
        io::ErrorKind::NotADirectory => WorkspaceError::NotADirectory(path.clone()),
        _ => workspace_error(path, error),
    };
    let directory = Path::new(path.relative());
    let mut entries = Vec::new();
    for (name, _) in reader.list(directory).map_err(map_error)? {
        // A name that is no valid path comes from an operator; no tool could open it.
        let Some(name) = name.to_str().filter(|name| !temp::is_temp_name(name)) else { continue };
        let Ok(path) = path.join(name) else { continue };
        if trash::is_trash(&path) {
            continue;
        }
        let entry = match reader.stat(&directory.join(name), LinkMode::Keep) {
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(map_error)?,
        };
        let kind = match entry.kind {
            FileKind::Directory => WorkspaceEntryKind::Directory,
            FileKind::File => WorkspaceEntryKind::File,
            FileKind::Link | FileKind::Other => continue,
        };
        entries.push(WorkspaceEntry { path, kind, bytes: entry.bytes, modified_at: to_timestamp(entry.modified_at) });
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

fn to_timestamp(time: SystemTime) -> Timestamp {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// The error for a write to a path when the disk is full.
fn disk_full_error(path: &WorkspacePath, full: DiskFull) -> WorkspaceError {
    WorkspaceError::Failed { path: path.clone(), reason: remedy::public_message(&full.to_string()) }
}

/// Maps an I/O error to one about a path.
fn workspace_error(path: &WorkspacePath, error: io::Error) -> WorkspaceError {
    let path = path.clone();
    match error.kind() {
        io::ErrorKind::NotFound => WorkspaceError::NotFound(path),
        io::ErrorKind::AlreadyExists => WorkspaceError::Exists(path),
        io::ErrorKind::IsADirectory => WorkspaceError::NotAFile(path),
        // A component before the last one is a file, so nothing can be beneath it.
        io::ErrorKind::NotADirectory => WorkspaceError::NotADirectory(parent_path(&path).unwrap_or(path)),
        // cap-std refuses with an error of its own, the system's have a number.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => WorkspaceError::Escapes(path),
        kind => {
            let reason = match kind {
                io::ErrorKind::StorageFull => "no space is left on the disk",
                io::ErrorKind::QuotaExceeded => "the disk quota of the user that Satchel runs as is used up",
                io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only",
                _ => return WorkspaceError::Failed { path, reason: error.to_string() },
            };
            WorkspaceError::Failed { path, reason: remedy::public_message(reason) }
        }
    }
}

/// The directory in which a path lies; none for a mount itself.
fn parent_path(path: &WorkspacePath) -> Option<WorkspacePath> {
    let name = path.file_name()?;
    let text = path.to_string();
    text.strip_suffix(name)?.parse().ok()
}
