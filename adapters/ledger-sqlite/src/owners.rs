//! The OS locks by which processes on one data directory know whether an owner still lives.
//!
//! The lock falls with the process, however that ends, so a restart never waits for a lease to expire.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use satchel_ports::ledger::HolderId;
use uuid::Uuid;

/// The mode of a file that only its owner can use, whatever the umask.
pub(crate) const OWNER_ONLY: u32 = 0o600;

/// Makes a directory, and what is missing above it, for its owner alone.
pub(crate) fn make_private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The directory of the locks in a data directory.
const DIRECTORY: &str = "owners";

/// The name of the lock of a process that moves the ledger.
const MOVE_LOCK: &str = "move";

/// Whether a process moves the ledger of a data directory.
pub(crate) fn is_moving(data_dir: &Path) -> bool {
    let file = OpenOptions::new().write(true).open(data_dir.join(DIRECTORY).join(MOVE_LOCK));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// The directory of the locks.
#[derive(Debug)]
pub(crate) struct Owners {
    directory: PathBuf,
}

/// This process's own lock. It is given up when dropped.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    path: PathBuf,
    file: File,
}

impl Owners {
    /// Opens the directory of the locks and creates it where it is missing.
    pub(crate) fn open(data_dir: &Path) -> io::Result<Self> {
        let directory = data_dir.join(DIRECTORY);
        make_private_directory(&directory)?;
        Ok(Self { directory })
    }

    /// The directory of all locks.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Takes the lock of a new owner.
    pub(crate) fn lock(&self, owner: HolderId) -> io::Result<OwnerLock> {
        let path = self.path(owner);
        // Locked before it has its name: nobody can find it free and take its owner for dead.
        let unnamed = path.with_extension("new");
        let file = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&unnamed)?;
        file.try_lock()?;
        fs::rename(&unnamed, &path)?;
        Ok(OwnerLock { path, file })
    }

    /// Holds the lock under which one process at a time changes the schema, until the file is dropped.
    pub(crate) fn lock_schema(&self) -> io::Result<File> {
        self.lock_file("schema")
    }

    /// Holds the lock by which others know that this process moves the ledger, until the file is dropped. Only one process
    /// at a time has the ledger for itself, so that whoever else holds it is looking, for a moment.
    pub(crate) fn lock_move(&self) -> io::Result<File> {
        self.lock_file(MOVE_LOCK)
    }

    fn lock_file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(OWNER_ONLY);
        let file = options.open(self.directory.join(name))?;
        file.lock()?;
        Ok(file)
    }

    /// Whether the owner's process has ended. When that can't be told, it lives, and its lease must expire.
    pub(crate) fn is_gone(&self, owner: HolderId) -> bool {
        let path = self.path(owner);
        match OpenOptions::new().write(true).open(&path) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(file) => match file.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
            },
        }
    }

    /// How many owners live.
    pub(crate) fn living(&self) -> io::Result<usize> {
        let mut living = 0;
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let is_lock = path.extension().is_some_and(|extension| extension == "lock");
            living += usize::from(is_lock && Uuid::try_parse(name).is_ok_and(|owner| !self.is_gone(HolderId(owner))));
        }
        Ok(living)
    }

    /// Removes the lock files of owners that are gone.
    pub(crate) fn clean(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if let Ok(owner) = Uuid::try_parse(name)
                && path.extension().is_some_and(|extension| extension == "lock")
                && self.is_gone(HolderId(owner))
            {
                // Another process may have been faster.
                fs::remove_file(&path).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })?;
            }
        }
        Ok(())
    }

    fn path(&self, owner: HolderId) -> PathBuf {
        self.directory.join(format!("{}.lock", owner.0.hyphenated()))
    }
}

impl Drop for OwnerLock {
    fn drop(&mut self) {
        // Both are courtesies: the lock falls with the file, and an unlocked file means the same as none.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_lives_as_long_as_its_lock() {
        let directory = tempfile::tempdir().unwrap();
        let owners = Owners::open(directory.path()).unwrap();
        let owner = HolderId(Uuid::now_v7());
        assert!(owners.is_gone(owner), "nobody has heard of it");
        let lock = owners.lock(owner).unwrap();
        assert!(!owners.is_gone(owner));
        owners.clean().unwrap();
        assert!(owners.path(owner).exists(), "the lock of a living owner stays");
        drop(lock);
        assert!(owners.is_gone(owner));
    }

    #[test]
    fn the_locks_of_the_dead_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let owners = Owners::open(directory.path()).unwrap();
        let dead = HolderId(Uuid::now_v7());
        fs::write(owners.path(dead), "").unwrap();
        assert!(owners.is_gone(dead));
        owners.clean().unwrap();
        assert!(!owners.path(dead).exists());
    }
}
