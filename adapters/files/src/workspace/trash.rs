//! The trash of a mount, `.deleted`: what was deleted stays there for a day, under its old path, and can be restored.
//!
//! In a directory that the operator shares, each conversation has a trash of its own.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
};

use cap_std::fs::Dir;
use satchel_domain::{ConversationId, Timestamp, WorkspacePath, path::Mount};
use satchel_ports::{
    FileProfile, FileReader, FileWriter, WorkspaceError,
    file_runner::{FileKind, LinkMode},
    workspace::{RestoredFiles, TrashBatch, TrashedEntry, WorkspaceEntryKind},
};
use uuid::Uuid;

use super::{root::WorkspaceRoot, usage, workspace_error, write};
use crate::temp;

const TRASH_DIRECTORY: &str = ".deleted";

/// Whether a path is in the trash, or the trash itself.
pub(super) fn is_trash(path: &WorkspacePath) -> bool {
    path.relative().split('/').next() == Some(TRASH_DIRECTORY)
}

/// Refuses a path in the trash, as if it weren't there.
pub(super) fn check_visible(path: &WorkspacePath) -> Result<(), WorkspaceError> {
    if is_trash(path) { Err(WorkspaceError::NotFound(path.clone())) } else { Ok(()) }
}

/// Moves what is at a path to the trash of its mount.
pub(super) fn move_to_trash(
    root: &WorkspaceRoot,
    conversation: &ConversationId,
    path: &WorkspacePath,
    batch: TrashBatch,
    recursive: bool,
) -> Result<TrashedEntry, WorkspaceError> {
    write::require_writable_name(path)?;
    check_visible(path)?;
    let map_error = |error| workspace_error(path, error);
    let source = Path::new(path.relative());
    let mut writer = root.writer(root.mount(conversation, path)?, path)?;
    let usage = root.usage(&conversation.to_file_name());
    let mut usage = write::lock_usage(&usage);
    let trashed = writer.stat(source, LinkMode::Keep).map_err(map_error)?;
    let kind = match trashed.kind {
        FileKind::File | FileKind::Link => WorkspaceEntryKind::File,
        FileKind::Directory if recursive || is_empty(root, conversation, path)? => WorkspaceEntryKind::Directory,
        FileKind::Directory => return Err(WorkspaceError::NotEmpty(path.clone())),
        FileKind::Other => return Err(WorkspaceError::NotAFile(path.clone())),
    };
    let target = trash_path(root, conversation, path.mount()).join(batch_name(batch, None)).join(source);
    // Room for these directories is not asked for: people delete to make room.
    usage.invalidate();
    match move_entry(&mut *writer, source, &target) {
        // A file in it was deleted before, so the trash has this directory.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && kind == WorkspaceEntryKind::Directory => {
            writer.remove_dir(source)
        }
        moved => moved,
    }
    .map_err(map_error)?;
    Ok(TrashedEntry { kind, bytes: trashed.bytes })
}

fn is_empty(root: &WorkspaceRoot, conversation: &ConversationId, path: &WorkspacePath) -> Result<bool, WorkspaceError> {
    let mut reader = root.reader(root.mount(conversation, path)?, path, FileProfile::FileReadOnly)?;
    let entries = reader.list(Path::new(path.relative()));
    Ok(entries.map_err(|error| workspace_error(path, error))?.is_empty())
}

/// Renames in place of nothing; missing parents are created. An error means that nothing was moved.
fn move_entry(writer: &mut dyn FileWriter, from: &Path, to: &Path) -> io::Result<()> {
    let parent = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
    writer.create_dirs(&parent(to))?;
    rename_new(writer, from, to)?;
    for directory in [parent(to), parent(from)] {
        // It is moved; after a power cut it may be in its old place.
        if let Err(error) = writer.sync_dir(&directory) {
            tracing::warn!(%error, "the disk did not confirm that a file was moved to or from the trash");
        }
    }
    Ok(())
}

/// Renames in place of nothing, also on file systems that can't promise it: the conversation's own files are published
/// under the lock that callers hold.
fn rename_new(writer: &mut dyn FileWriter, from: &Path, to: &Path) -> io::Result<()> {
    match writer.rename_new(from, to) {
        Err(error) if temp::is_rename_unsupported(&error) => match writer.stat(to, LinkMode::Keep) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => writer.rename(from, to),
            Err(error) => Err(error),
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        },
        renamed => renamed,
    }
}

/// Restores the newest batch that holds anything.
///
/// Its directory gets the request's name first, and keeps it when it is empty: a repeat finds the batch that it started
/// with, and not the one before.
pub(super) fn restore(
    root: &WorkspaceRoot,
    conversation: &ConversationId,
    request: Uuid,
) -> Result<RestoredFiles, WorkspaceError> {
    let usage = root.usage(&conversation.to_file_name());
    let mut usage = write::lock_usage(&usage);
    usage.invalidate();
    let mut mounts = Vec::new();
    for mount in [Mount::Shared, Mount::Tmp] {
        mounts.extend(OpenMount::open(root, conversation, mount)?);
    }
    let mut batches = Vec::new();
    for mount in &mut mounts {
        batches.extend(mount.batches().map_err(|error| workspace_error(&mount.path, error))?);
    }
    let chosen = batches
        .iter()
        .find(|batch| batch.request == Some(request))
        .or_else(|| batches.iter().filter(|batch| batch.holds_files).max_by_key(|batch| batch.batch));
    let mut restored = RestoredFiles::default();
    let Some(StoredBatch { batch, .. }) = chosen else { return Ok(restored) };
    for mount in &mut mounts {
        if let Err(error) = mount.restore_batch(*batch, request, &mut restored) {
            restored.failure = Some(workspace_error(&mount.path, error).to_string());
            break;
        }
    }
    Ok(restored)
}

/// A batch as its directory is named.
struct StoredBatch {
    batch: TrashBatch,
    /// The request that restores it, or has restored it.
    request: Option<Uuid>,
    name: String,
    holds_files: bool,
}

/// A mount whose trash is restored.
struct OpenMount {
    reader: Box<dyn FileReader>,
    writer: Box<dyn FileWriter>,
    path: WorkspacePath,
    /// Where its batches are.
    trash: PathBuf,
}

impl OpenMount {
    /// Opens a mount; none if nothing has been written to it yet.
    fn open(root: &WorkspaceRoot, conversation: &ConversationId, mount: Mount) -> Result<Option<Self>, WorkspaceError> {
        let path = WorkspacePath::root(mount);
        let directory = match root.mount(conversation, &path) {
            Err(WorkspaceError::NotFound(_)) => return Ok(None),
            opened => opened?,
        };
        let reader = root.reader(directory, &path, FileProfile::FileReadOnly)?;
        let writer = root.writer(root.mount(conversation, &path)?, &path)?;
        Ok(Some(Self { reader, writer, path, trash: trash_path(root, conversation, mount) }))
    }

    fn batches(&mut self) -> io::Result<Vec<StoredBatch>> {
        let mut batches = Vec::new();
        for (name, _) in list_existing(&mut *self.reader, &self.trash)? {
            let Some((name, (batch, request))) = name.to_str().and_then(|name| Some((name, parse_batch(name)?))) else {
                continue;
            };
            let holds_files = self.holds_files(&self.trash.join(name), Path::new(""))?;
            batches.push(StoredBatch { batch, request, name: name.to_owned(), holds_files });
        }
        Ok(batches)
    }

    /// Whether `relative` of a batch holds anything to restore. Where a deletion or a restore was cut off, a batch may
    /// hold nothing but directories that the mount has as well.
    fn holds_files(&mut self, batch: &Path, relative: &Path) -> io::Result<bool> {
        for (name, kind) in list_existing(&mut *self.reader, &batch.join(relative))? {
            let path = relative.join(name);
            let is_in_mount = kind == FileKind::Directory && self.find_kind(&path) == Some(FileKind::Directory);
            if !is_in_mount || self.holds_files(batch, &path)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn restore_batch(&mut self, batch: TrashBatch, request: Uuid, restored: &mut RestoredFiles) -> io::Result<()> {
        let Some(stored) = self.batches()?.into_iter().find(|stored| stored.batch == batch) else { return Ok(()) };
        let claimed = self.trash.join(batch_name(batch, Some(request)));
        if stored.request != Some(request) {
            move_entry(&mut *self.writer, &self.trash.join(stored.name), &claimed)?;
        }
        self.restore_directory(&claimed, Path::new(""), restored)
    }

    /// Restores what lies in `relative` of a batch, and removes the directory if nothing stays in it.
    fn restore_directory(&mut self, batch: &Path, relative: &Path, restored: &mut RestoredFiles) -> io::Result<()> {
        for (name, kind) in self.reader.list(&batch.join(relative))? {
            let (source, target) = (batch.join(relative).join(&name), relative.join(&name));
            match move_entry(&mut *self.writer, &source, &target) {
                Ok(()) => restored.restored.extend(self.workspace_path(&target)),
                Err(error) if !is_occupied(&error) => return Err(error),
                // A directory of that name is there: what lies in ours is restored into it.
                Err(_) if kind == FileKind::Directory && self.find_kind(&target) == Some(FileKind::Directory) => {
                    self.restore_directory(batch, &target, restored)?;
                }
                Err(_) => restored.blocked.extend(self.workspace_path(&target)),
            }
        }
        if relative.as_os_str().is_empty() {
            return Ok(());
        }
        match self.writer.remove_dir(&batch.join(relative)) {
            // Something in it is blocked.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => removed,
        }
    }

    fn find_kind(&mut self, path: &Path) -> Option<FileKind> {
        self.writer.stat(path, LinkMode::Follow).ok().map(|stat| stat.kind)
    }

    /// The path as tools know it; none for a name that no tool can write.
    fn workspace_path(&self, relative: &Path) -> Option<WorkspacePath> {
        format!("{}/{}", self.path, relative.to_str()?).parse().ok()
    }
}

/// Whether a rename that replaces nothing failed because the name is taken.
fn is_occupied(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory)
}

/// Removes the trash of a conversation for good, by the name of its directory; returns the bytes freed. Callers hold the
/// lock of its usage.
pub(super) fn empty(root: &WorkspaceRoot, directory: &str) -> io::Result<u64> {
    let mut freed = 0;
    for mount in root.own_mounts(directory)? {
        freed += remove_tree(&mount, Path::new(TRASH_DIRECTORY))?;
    }
    if let Some((shared, _)) = &root.shared {
        freed += remove_tree(shared, &Path::new(TRASH_DIRECTORY).join(directory))?;
    }
    if freed > 0 {
        tracing::info!(workspace = directory, freed, "removed deleted files for good, to make room for a new one");
    }
    Ok(freed)
}

/// Removes what was deleted before a time, in every trash.
pub(super) fn sweep(root: &WorkspaceRoot, before: Timestamp) -> io::Result<u64> {
    let mut freed = 0;
    for conversation in root.directory.entries()? {
        let Ok(directory) = conversation?.file_name().into_string() else { continue };
        let usage = root.usage(&directory);
        let mut usage = write::lock_usage(&usage);
        for mount in root.own_mounts(&directory)? {
            let bytes = sweep_batches(&mount, Path::new(TRASH_DIRECTORY), before)?;
            usage.free(bytes);
            freed += bytes;
        }
    }
    if let Some((shared, _)) = &root.shared
        && let Some(trash) = open_existing(shared, Path::new(TRASH_DIRECTORY))?
    {
        for conversation in trash.entries()? {
            freed += sweep_batches(&trash, Path::new(&conversation?.file_name()), before)?;
        }
    }
    Ok(freed)
}

/// Removes the batches in a directory that are older than `before`.
fn sweep_batches(parent: &Dir, trash: &Path, before: Timestamp) -> io::Result<u64> {
    let Some(directory) = open_existing(parent, trash)? else { return Ok(0) };
    let mut freed = 0;
    for entry in directory.entries()? {
        let name = entry?.file_name();
        if name.to_str().and_then(parse_batch).is_some_and(|(batch, _)| batch.deleted_at < before) {
            freed += remove_tree(&directory, Path::new(&name))?;
        }
    }
    Ok(freed)
}

/// Removes a directory with all that lies in it, and returns the bytes that it counted for.
fn remove_tree(parent: &Dir, path: &Path) -> io::Result<u64> {
    let Some(directory) = open_existing(parent, path)? else { return Ok(0) };
    let bytes = usage::measure_directory(&directory)? + usage::EMPTY_ENTRY_BYTES;
    parent.remove_dir_all(path)?;
    Ok(bytes)
}

fn open_existing(parent: &Dir, path: &Path) -> io::Result<Option<Dir>> {
    match parent.open_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// The directory of a conversation's batches in a mount.
fn trash_path(root: &WorkspaceRoot, conversation: &ConversationId, mount: Mount) -> PathBuf {
    let trash = PathBuf::from(TRASH_DIRECTORY);
    if root.is_counted(mount) { trash } else { trash.join(conversation.to_file_name()) }
}

/// The entries of a directory; none if it doesn't exist.
fn list_existing(reader: &mut dyn FileReader, path: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
    match reader.list(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries,
    }
}

/// The name of a batch's directory, with the request that restores it.
fn batch_name(batch: TrashBatch, request: Option<Uuid>) -> String {
    let name = format!("{:015}-{}", batch.deleted_at.0, batch.id.simple());
    request.map_or(name.clone(), |request| format!("{name}-{}", request.simple()))
}

fn parse_batch(name: &str) -> Option<(TrashBatch, Option<Uuid>)> {
    let mut fields = name.split('-');
    let deleted_at = Timestamp(fields.next()?.parse().ok()?);
    let id = Uuid::parse_str(fields.next()?).ok()?;
    let request = fields.next().map(Uuid::parse_str).transpose().ok()?;
    Some((TrashBatch { deleted_at, id }, request))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use rustix::io::Errno;
    use satchel_ports::{MockFileWriter, file_runner::FileStat};

    use super::*;

    /// A file system that can't rename without replacing, and doesn't confirm what it did.
    fn poor_file_system(occupied: bool) -> MockFileWriter {
        let mut writer = MockFileWriter::new();
        writer.expect_create_dirs().returning(|_| Ok(()));
        writer.expect_rename_new().returning(|_, _| Err(Errno::INVAL.into()));
        writer.expect_stat().returning(move |_, _| match occupied {
            true => Ok(FileStat { kind: FileKind::File, bytes: 1, modified_at: UNIX_EPOCH }),
            false => Err(io::ErrorKind::NotFound.into()),
        });
        writer.expect_rename().times(usize::from(!occupied)).returning(|_, _| Ok(()));
        writer.expect_sync_dir().returning(|_| Err(Errno::IO.into()));
        writer
    }

    #[test]
    fn file_is_moved_where_renames_always_replace() {
        let (from, to) = (Path::new("a"), Path::new(".deleted/b/a"));
        move_entry(&mut poor_file_system(false), from, to).unwrap();
        let refused = move_entry(&mut poor_file_system(true), from, to).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn batch_names_are_parsed_and_sorted_by_time() {
        let batch = |deleted_at| TrashBatch { deleted_at: Timestamp(deleted_at), id: Uuid::from_u128(7) };
        for request in [None, Some(Uuid::from_u128(8))] {
            assert_eq!(
                parse_batch(&batch_name(batch(1_764_000_000_000), request)),
                Some((batch(1_764_000_000_000), request))
            );
        }
        assert!(batch_name(batch(2), None) < batch_name(batch(10), None));
        for other in ["", "1", "1-x", "x-00000000000000000000000000000007", "1-00000000000000000000000000000007-x"] {
            assert_eq!(parse_batch(other), None, "{other}");
        }
    }
}
