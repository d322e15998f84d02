//! Restores a backup into a directory that nobody uses.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use cap_std::{ambient_authority, fs::Dir};
use satchel_domain::Sha256;
use satchel_ports::FileAccess;

use super::{
    BackupError, BackupId, BackupManifest, BackupProgress, BackupRepository,
    manifest::ObjectRef,
    objects::{self, ObjectError, create_temp_file},
};
use crate::{blobs, directory, temp::TempFile};

/// Where a backup is restored in the new data directory.
#[derive(Debug, Clone, Copy)]
pub struct RestoreLayout<'a> {
    /// The name of the database.
    pub database: &'a str,
    /// The name of the blobs' directory.
    pub blobs: &'a str,
}

/// What tells the directory of a restore from others; locked for as long as that runs.
const MARKER_FILE: &str = "restore-in-progress";

/// A new data directory beside its later place. It is removed when dropped, unless it was published.
#[derive(Debug)]
pub struct RestoredDirectory {
    path: PathBuf,
    target: PathBuf,
    _marker: File,
}

impl RestoredDirectory {
    /// Where it lies for now.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name, once everything in it is on the disk.
    ///
    /// # Errors
    /// When another directory has the name, and is not empty.
    pub fn publish(self) -> Result<(), BackupError> {
        let marker = self.path.join(MARKER_FILE);
        std::fs::remove_file(&marker).map_err(BackupError::at("remove", &marker))?;
        std::fs::rename(&self.path, &self.target).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                BackupError::NotEmpty(self.target.clone())
            }
            _ => BackupError::at("rename the restored directory to", &self.target)(error),
        })?;
        let parent = parent_of(&self.target);
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(BackupError::at("sync the directory", parent))
    }
}

impl Drop for RestoredDirectory {
    fn drop(&mut self) {
        // Nothing is left of it once it has its name.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl BackupRepository {
    /// Restores a backup beside a directory that is empty or doesn't exist; [`RestoredDirectory::publish`] puts it there.
    ///
    /// # Errors
    /// When the target is in use, the backup is damaged, or something can't be written; then nothing is left.
    pub fn restore(
        &self,
        (id, manifest): (&BackupId, &BackupManifest),
        target: &Path,
        layout: RestoreLayout<'_>,
        written: &BackupProgress,
    ) -> Result<RestoredDirectory, BackupError> {
        let restored = create_beside(target)?;
        let root = Dir::open_ambient_dir(&restored.path, ambient_authority())
            .map_err(BackupError::at("open the directory", &restored.path))?;
        let restore = Restore { repository: self, id, root, path: &restored.path, written };
        for path in &manifest.directories {
            restore.ensure_directory(path)?;
        }
        for file in &manifest.files {
            let modified = UNIX_EPOCH + Duration::from_nanos(u64::try_from(file.modified).unwrap_or(0));
            let temp = restore.copy(&[file.object], &file.path)?;
            temp.file().set_modified(modified).map_err(restore.write_error(&file.path))?;
            restore.name(temp, &file.path)?;
        }
        for blob in &manifest.blobs {
            let path = Path::new(layout.blobs).join(blobs::blob_path(&blob.sha256));
            restore.name(restore.copy(&[*blob], &path)?, &path)?;
        }
        let path = Path::new(layout.database);
        restore.name(restore.copy(&manifest.database.chunks, path)?, path)?;
        restore.sync_directories().map_err(restore.write_error(Path::new("")))?;
        Ok(restored)
    }
}

/// A restore in progress.
struct Restore<'a> {
    repository: &'a BackupRepository,
    id: &'a BackupId,
    root: Dir,
    path: &'a Path,
    written: &'a BackupProgress,
}

impl Restore<'_> {
    fn ensure_directory(&self, path: &Path) -> Result<(), BackupError> {
        directory::ensure(&self.root, path, FileAccess::Owner).map(drop).map_err(self.write_error(path))
    }

    /// Writes the bytes of these objects, one after the other.
    fn copy(&self, content: &[ObjectRef], path: &Path) -> Result<TempFile, BackupError> {
        let mut temp = create_temp_file(&self.root).map_err(self.write_error(path))?;
        for ObjectRef { sha256, .. } in content {
            let opened = self.repository.objects.open_object(sha256);
            let mut file = opened.map_err(|error| self.damaged(sha256, &error.to_string()))?;
            let copied = objects::copy_and_hash(&mut file, |block| {
                self.written.add(block.len() as u64);
                temp.append(block)
            });
            match copied {
                Ok(found) if found == *sha256 => {}
                Ok(_) | Err(ObjectError::Damaged) => return Err(self.damaged(sha256, "its bytes have changed")),
                Err(ObjectError::Source(error)) => return Err(self.damaged(sha256, &error.to_string())),
                Err(ObjectError::Target(error)) => return Err(self.write_error(path)(error)),
            }
        }
        Ok(temp)
    }

    /// Gives a file its name, once its bytes are on the disk.
    fn name(&self, mut temp: TempFile, path: &Path) -> Result<(), BackupError> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.ensure_directory(parent)?;
        }
        temp.sync().and_then(|()| temp.replace(path)).map_err(self.write_error(path))
    }

    /// Returns once all names are on the disk.
    fn sync_directories(&self) -> io::Result<()> {
        directory::walk_all(&self.root, |directory, entry| match entry.file_type()?.is_dir() {
            true => directory::sync(&directory.open_dir(entry.file_name())?),
            false => Ok(()),
        })?;
        directory::sync(&self.root)
    }

    fn damaged(&self, sha256: &Sha256, reason: &str) -> BackupError {
        BackupError::Damaged { id: self.id.clone(), reason: format!("object {sha256}: {reason}") }
    }

    fn write_error(&self, path: &Path) -> impl FnOnce(io::Error) -> BackupError + use<> {
        BackupError::at("write", self.path.join(path))
    }
}

/// Creates a directory beside the target, in place of what a killed restore has left there.
fn create_beside(target: &Path) -> Result<RestoredDirectory, BackupError> {
    match std::fs::read_dir(target).map(|mut entries| entries.next().is_none()) {
        Ok(true) => {}
        Ok(false) => return Err(BackupError::NotEmpty(target.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(BackupError::at("read the directory", target)(error)),
    }
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".restoring");
    let path = parent_of(target).join(name);
    remove_leftover(&path)?;
    let root = directory::open_root(&path, FileAccess::Owner);
    root.map_err(|error| BackupError::at("create the directory", &path)(io::Error::other(error)))?;
    let marker = path.join(MARKER_FILE);
    let created = File::create_new(&marker).and_then(|file| {
        file.try_lock()?;
        Ok(file)
    });
    let marker = created.map_err(BackupError::at("write", marker))?;
    Ok(RestoredDirectory { path, target: target.to_owned(), _marker: marker })
}

/// Removes what a killed restore has left, and nothing else that has its name.
fn remove_leftover(path: &Path) -> Result<(), BackupError> {
    if !path.exists() {
        return Ok(());
    }
    let marker = match File::open(path.join(MARKER_FILE)) {
        Ok(marker) => marker,
        // One that was killed at its very beginning has left an empty one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return std::fs::remove_dir(path).map_err(|_| BackupError::NotEmpty(path.to_owned()));
        }
        Err(error) => return Err(BackupError::at("read the directory", path)(error)),
    };
    match marker.try_lock() {
        Ok(()) => std::fs::remove_dir_all(path).map_err(BackupError::at("remove", path)),
        Err(TryLockError::WouldBlock) => Err(BackupError::Busy(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(BackupError::at("lock", path)(error)),
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
