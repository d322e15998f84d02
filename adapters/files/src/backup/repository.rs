//! A directory of backups: its lock, its manifests, and the removal of old ones.

use std::{
    collections::HashSet,
    fs::{File, TryLockError},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt},
};
use satchel_domain::{Sha256, Timestamp};
use satchel_ports::FileAccess;

use super::{
    BackupError, BackupId, BackupManifest,
    objects::{OBJECTS_DIRECTORY, ObjectStore, create_temp_file},
};
use crate::{
    directory, modes,
    temp::{self, TempFile},
};

pub(super) const MANIFESTS_DIRECTORY: &str = "manifests";

/// The lock between processes: exclusive to write, shared to read.
const LOCK_FILE: &str = "lock";

/// What SQLite adds to the name of a database to name the journal beside it.
const JOURNAL_SUFFIX: &str = "-journal";

/// Whether an entry of a directory of backups is the repository's own. Temporary files are hidden.
#[must_use]
pub fn is_own_entry(name: &str) -> bool {
    [MANIFESTS_DIRECTORY, OBJECTS_DIRECTORY, LOCK_FILE].contains(&name)
}

/// A directory of backups. Dropping it gives up its lock.
#[derive(Debug)]
pub struct BackupRepository {
    pub(super) path: PathBuf,
    pub(super) root: Dir,
    pub(super) objects: ObjectStore,
    manifests: Dir,
    _lock: Option<File>,
}

/// A file for what a backup is made of. It is removed when dropped, or else by the next backup.
pub struct StagingFile {
    path: PathBuf,
    _temp: TempFile,
}

impl StagingFile {
    /// Creates an empty one in a directory, by its handle and its path.
    pub(super) fn create(root: &Dir, path: &Path) -> io::Result<Self> {
        let temp = create_temp_file(root)?;
        Ok(Self { path: path.join(temp.path()), _temp: temp })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What was removed with old backups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneReport {
    pub backups: usize,
    pub bytes: u64,
}

impl BackupRepository {
    /// Opens the repository of a directory for a new backup. A missing directory is created, but not the one above it: that
    /// of a disk that is not mounted is missing, too.
    ///
    /// # Errors
    /// When it can't be used, or another process works in it.
    pub fn create(path: &Path) -> Result<Self, BackupError> {
        match modes::create_dir(&open_parent(path)?, Path::new(path.file_name().unwrap_or_default()), FileAccess::Owner)
        {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(write_error("create the directory", path)(error));
            }
            _ => {}
        }
        Self::open_for_writing(path)
    }

    /// Opens the repository of a directory that exists, for changes.
    ///
    /// # Errors
    /// When it can't be used, or another process works in it.
    pub fn open_for_writing(path: &Path) -> Result<Self, BackupError> {
        let root = open_directory(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(FileAccess::Owner.file_mode());
        let file = root.open_with(LOCK_FILE, &options).map_err(write_error("lock", path))?.into_std();
        let lock = lock(file, path, File::try_lock)?;
        for directory in [OBJECTS_DIRECTORY, MANIFESTS_DIRECTORY] {
            directory::ensure(&root, Path::new(directory), FileAccess::Owner)
                .map_err(write_error("create the directory", path.join(directory)))?;
        }
        let repository = Self::open_locked(path, root, Some(lock))?;
        remove_leftovers(&repository.root).map_err(write_error("clean the directory", path))?;
        Ok(repository)
    }

    /// Opens the repository of a directory that exists, to read it. Nothing is written: its disk may be read-only.
    ///
    /// # Errors
    /// When it can't be read, or another process writes to it.
    pub fn open(path: &Path) -> Result<Self, BackupError> {
        let root = open_directory(path)?;
        if !root.exists(MANIFESTS_DIRECTORY) {
            return Err(BackupError::Empty(path.to_owned()));
        }
        // A copy of the directory may lack it.
        let lock = match root.open(LOCK_FILE) {
            Ok(file) => Some(lock(file.into_std(), path, File::try_lock_shared)?),
            Err(_) => None,
        };
        Self::open_locked(path, root, lock)
    }

    fn open_locked(path: &Path, root: Dir, lock: Option<File>) -> Result<Self, BackupError> {
        let failed = || BackupError::at("open the directory", path);
        let objects = ObjectStore::new(root.try_clone().map_err(failed())?);
        let manifests = root.open_dir(MANIFESTS_DIRECTORY).map_err(failed())?;
        Ok(Self { path: path.to_owned(), root, objects, manifests, _lock: lock })
    }

    /// The ids of all complete backups, oldest first.
    ///
    /// # Errors
    /// When the directory can't be read.
    pub fn list(&self) -> Result<Vec<BackupId>, BackupError> {
        let path = self.path.join(MANIFESTS_DIRECTORY);
        let entries = self.manifests.entries().and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.map_err(BackupError::at("read the directory", path))?;
        let names = entries.into_iter().map(|entry| entry.file_name());
        let mut ids: Vec<_> = names.filter_map(|name| BackupId::from_file_name(name.to_str()?)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Reads the manifest of a backup.
    ///
    /// # Errors
    /// When there is none, it is damaged, or it can't be read.
    pub fn manifest(&self, id: &BackupId) -> Result<BackupManifest, BackupError> {
        match self.manifests.read(id.to_file_name()) {
            Ok(bytes) => BackupManifest::decode(id, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(BackupError::Unknown { id: id.to_string(), path: self.path.clone() })
            }
            Err(error) => Err(BackupError::at("read the manifest", self.path.join(id.to_file_name()))(error)),
        }
    }

    /// The newest backup whose manifest can be read. One from the future was made by a clock that was wrong, and counts for
    /// none.
    ///
    /// # Errors
    /// When there is none, or the directory can't be read.
    pub fn newest(&self, now: Timestamp) -> Result<(BackupId, BackupManifest), BackupError> {
        let mut first_error = None;
        for id in self.list()?.into_iter().rev() {
            match self.manifest(&id) {
                Ok(manifest) if manifest.taken_at > now => {}
                Ok(manifest) => return Ok((id, manifest)),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        Err(first_error.unwrap_or_else(|| BackupError::Empty(self.path.clone())))
    }

    /// Creates an empty file that only its owner can read, for the copy of the database.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn create_staging_file(&self) -> Result<StagingFile, BackupError> {
        StagingFile::create(&self.root, &self.path).map_err(|error| self.write_error("write to", error))
    }

    /// Makes a backup complete: once its objects are on the disk, its manifest gets its name.
    pub(super) fn publish(&self, time: &str, manifest: &BackupManifest) -> Result<BackupId, BackupError> {
        self.check_present()?;
        let failed = || write_error("write the manifest", self.path.clone());
        self.objects.sync().map_err(failed())?;
        self.check_objects(manifest).map_err(failed())?;
        let (id, bytes) = manifest.encode(time);
        let mut temp = create_temp_file(&self.root).map_err(failed())?;
        temp.append(&bytes).and_then(|()| temp.sync()).map_err(failed())?;
        temp.replace(&Path::new(MANIFESTS_DIRECTORY).join(id.to_file_name())).map_err(failed())?;
        directory::sync(&self.manifests).map_err(failed())?;
        Ok(id)
    }

    /// Removes all backups but the newest ones and the one that was made just now, and the objects that no other backup
    /// needs.
    ///
    /// # Errors
    /// When a manifest can't be read, whose objects are then unknown, or something can't be removed.
    pub fn prune(&self, keep: usize, made: &BackupId) -> Result<PruneReport, BackupError> {
        let failed = |source| BackupError::Io { doing: "remove old backups from", path: self.path.clone(), source };
        let ids = self.list()?;
        let others = keep.saturating_sub(1);
        let (current, others_first): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| id == made);
        let (old, newest) = others_first.split_at(others_first.len().saturating_sub(others));
        let wanted = newest.iter().chain(&current);
        let mut objects: HashSet<Sha256> = HashSet::new();
        for id in wanted {
            objects.extend(self.manifest(id)?.objects().map(|object| object.sha256));
        }
        for id in old {
            self.manifests.remove_file(id.to_file_name()).map_err(failed)?;
        }
        // A backup without its objects would be worse than objects without their backup.
        directory::sync(&self.manifests).map_err(failed)?;
        let bytes = self.objects.retain(|sha256| objects.contains(sha256)).map_err(failed)?;
        Ok(PruneReport { backups: old.len(), bytes })
    }

    /// Fails if an object is gone: where a file system has no locks, another process may have removed it.
    fn check_objects(&self, manifest: &BackupManifest) -> io::Result<()> {
        let needed: HashSet<Sha256> = manifest.objects().map(|object| object.sha256).collect();
        for sha256 in needed {
            if self.objects.find(&sha256)?.is_none() {
                return Err(io::Error::new(io::ErrorKind::NotFound, format!("object {sha256} was removed meanwhile")));
            }
        }
        Ok(())
    }

    /// Fails if the path leads elsewhere by now: a disk that was unmounted leaves its directory behind.
    fn check_present(&self) -> Result<(), BackupError> {
        let vanished = || BackupError::Vanished(self.path.clone());
        let opened = self.root.dir_metadata().map_err(|_| vanished())?;
        let present = std::fs::metadata(&self.path).map_err(|_| vanished())?;
        match (opened.dev(), opened.ino()) == (present.dev(), present.ino()) {
            true => Ok(()),
            false => Err(vanished()),
        }
    }

    /// The error of a write to the repository.
    pub(super) fn write_error(&self, doing: &'static str, error: io::Error) -> BackupError {
        match self.check_present() {
            Err(vanished) => vanished,
            Ok(()) => write_error(doing, &self.path)(error),
        }
    }
}

/// Removes the temporary files that processes left in a directory when they were killed, with the journals that SQLite kept
/// beside them.
pub(super) fn remove_leftovers(root: &Dir) -> io::Result<()> {
    for entry in root.entries()? {
        if let Some(name) = entry?.file_name().to_str() {
            temp::remove_leftover(root, name)?;
        }
    }
    // Behind the files: a journal whose file is still there belongs to a process that lives.
    for entry in root.entries()? {
        let name = entry?.file_name();
        let staged = name.to_str().and_then(|name| name.strip_suffix(JOURNAL_SUFFIX));
        if staged.is_some_and(|staged| temp::is_temp_name(staged) && !root.exists(staged)) {
            root.remove_file(&name)?;
        }
    }
    Ok(())
}

/// The error of a write beneath a path, by what it means for the backup.
fn write_error(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.into();
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BackupError::Full(path),
        _ => BackupError::Io { doing, path, source },
    }
}

fn open_parent(path: &Path) -> Result<Dir, BackupError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    open_directory(parent)
}

pub(super) fn open_directory(path: &Path) -> Result<Dir, BackupError> {
    Dir::open_ambient_dir(path, ambient_authority()).map_err(BackupError::at("open the directory", path))
}

fn lock(
    file: File,
    path: &Path,
    try_lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> Result<File, BackupError> {
    match try_lock(&file) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BackupError::Busy(path.to_owned())),
        // Not every network file system has locks.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
        Err(TryLockError::Error(error)) => Err(BackupError::at("lock", path)(error)),
    }
}
