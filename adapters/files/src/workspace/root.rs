//! The directories of the mounts on the disk.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use cap_std::fs::Dir;
use satchel_domain::{ConversationId, WorkspacePath, path::Mount};
use satchel_ports::{
    FileAccess, FileProfile, FileReader, FileRunner, FileWriter, WorkspaceError, file_runner::MountDirectory,
};
use uuid::Uuid;

use super::{usage::QuotaUsage, workspace_error, write::lock_usage};
use crate::{DirectoryOpenError, directory, modes};

/// How the directory of a removed conversation is called until it is gone. No conversation's name begins with a dot.
const DISCARDED_PREFIX: &str = ".discarded-";

/// The root of all workspaces.
pub(super) struct WorkspaceRoot {
    pub(super) directory: Dir,
    runner: Arc<dyn FileRunner>,
    path: PathBuf,
    pub(super) shared: Option<(Dir, PathBuf)>,
    pub(super) quota: u64,
    usages: Mutex<HashMap<String, Arc<Mutex<QuotaUsage>>>>,
}

impl WorkspaceRoot {
    pub(super) fn open(
        root: &Path,
        shared: Option<&Path>,
        quota: u64,
        runner: Arc<dyn FileRunner>,
    ) -> Result<Self, DirectoryOpenError> {
        let shared = match shared {
            Some(path) => Some((directory::open_root(path, FileAccess::Umask)?, path.to_owned())),
            None => None,
        };
        let path = root.to_owned();
        let root = directory::open_root(root, FileAccess::Owner)?;
        // What earlier versions left open beneath it is closed in the background: other users can't reach it any more.
        modes::close_directory(&root, &path);
        Ok(Self { directory: root, runner, path, shared, quota, usages: Mutex::default() })
    }

    pub(super) fn host_directory(&self, conversation: &ConversationId, mount: Mount) -> PathBuf {
        match &self.shared {
            Some((_, path)) if mount == Mount::Shared => path.clone(),
            _ => self.path.join(conversation.to_file_name()).join(mount.name()),
        }
    }

    /// Opens the mount of a path.
    pub(super) fn mount(&self, conversation: &ConversationId, path: &WorkspacePath) -> Result<Dir, WorkspaceError> {
        match &self.shared {
            Some((shared, _)) if path.mount() == Mount::Shared => shared.try_clone(),
            _ => self.directory.open_dir(Self::mount_path(conversation, path.mount())),
        }
        .map_err(|error| workspace_error(path, error))
    }

    /// Opens the mount of a path, which is created if missing.
    pub(super) fn ensure_mount(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<Dir, WorkspaceError> {
        match &self.shared {
            Some((shared, _)) if path.mount() == Mount::Shared => shared.try_clone(),
            _ => directory::ensure(&self.directory, &Self::mount_path(conversation, path.mount()), FileAccess::Owner),
        }
        .map_err(|error| workspace_error(path, error))
    }

    /// Begins to read in the mount of a path, which the profile must allow.
    pub(super) fn reader(
        &self,
        mount: Dir,
        path: &WorkspacePath,
        profile: FileProfile,
    ) -> Result<Box<dyn FileReader>, WorkspaceError> {
        let reader = self.runner.reader(self.mount_directory(mount, path.mount()), profile);
        reader.map_err(|error| workspace_error(path, error))
    }

    /// Begins to change files in the mount of a path.
    pub(super) fn writer(&self, mount: Dir, path: &WorkspacePath) -> Result<Box<dyn FileWriter>, WorkspaceError> {
        let writer = self.runner.writer(self.mount_directory(mount, path.mount()));
        writer.map_err(|error| workspace_error(path, error))
    }

    fn mount_directory(&self, directory: Dir, mount: Mount) -> MountDirectory {
        MountDirectory { mount, directory: directory.into_std_file(), access: self.file_access(mount) }
    }

    /// The access to the files of a mount: those in the operator's shared directory follow the umask.
    fn file_access(&self, mount: Mount) -> FileAccess {
        match mount == Mount::Shared && self.shared.is_some() {
            true => FileAccess::Umask,
            false => FileAccess::Owner,
        }
    }

    /// Whether files in the mount count for the conversation's quota.
    pub(super) fn is_counted(&self, mount: Mount) -> bool {
        mount == Mount::Tmp || self.shared.is_none()
    }

    /// The conversation's usage; also the lock under which its files are published and its directories are created.
    pub(super) fn usage(&self, conversation_directory: &str) -> Arc<Mutex<QuotaUsage>> {
        let mut usages = self.usages.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(usages.entry(conversation_directory.to_owned()).or_default())
    }

    /// Renames a conversation's directory, if the other's isn't there or is empty.
    pub(super) fn rename_conversation(&self, from: &ConversationId, to: &ConversationId) -> io::Result<bool> {
        let (from, to) = (from.to_file_name(), to.to_file_name());
        match self.directory.rename(&from, &self.directory, &to) {
            Ok(()) => directory::sync(&self.directory)?,
            Err(error) if is_not_renamed(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
        // Both are measured again.
        self.usages.lock().unwrap_or_else(PoisonError::into_inner).retain(|name, _| *name != from && *name != to);
        Ok(true)
    }

    /// Removes a conversation's directory with all that is in it: first its name, so that what comes later has a directory of
    /// its own. Links are removed, not what they lead to.
    pub(super) fn remove_conversation(&self, directory: &str) -> io::Result<()> {
        let discarded = format!("{DISCARDED_PREFIX}{}", Uuid::now_v7());
        {
            let usage = self.usage(directory);
            // No file is published meanwhile.
            let mut usage = lock_usage(&usage);
            usage.invalidate();
            match self.directory.rename(directory, &self.directory, &discarded) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                renamed => renamed?,
            }
            directory::sync(&self.directory)?;
        }
        self.directory.remove_dir_all(&discarded)
    }

    /// Removes the directories of removed conversations that a process left when it died; returns how many there were.
    pub(super) fn remove_discarded(&self) -> io::Result<u64> {
        let mut removed = 0;
        for entry in self.directory.entries()? {
            let name = entry?.file_name();
            if name.to_string_lossy().starts_with(DISCARDED_PREFIX) {
                match self.directory.remove_dir_all(&name) {
                    // Another process was quicker.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    outcome => outcome.map(|()| removed += 1)?,
                }
            }
        }
        Ok(removed)
    }

    /// The mounts of a conversation that exist and that it alone uses, by the name of its directory.
    pub(super) fn own_mounts(&self, directory: &str) -> io::Result<Vec<Dir>> {
        let mut mounts = Vec::new();
        for mount in [Mount::Shared, Mount::Tmp] {
            match self.directory.open_dir(Path::new(directory).join(mount.name())) {
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                opened => mounts.push(opened?),
            }
        }
        Ok(mounts)
    }

    fn mount_path(conversation: &ConversationId, mount: Mount) -> PathBuf {
        Path::new(&conversation.to_file_name()).join(mount.name())
    }
}

/// Whether there was nothing to rename, or something in its place.
fn is_not_renamed(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotFound};
    matches!(error.kind(), NotFound | DirectoryNotEmpty | AlreadyExists)
}
