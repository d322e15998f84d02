//! Temporary files: what is written before it has its name, and is gone when it never gets it.

use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, JoinHandle},
};

use cap_std::fs::{Dir, OpenOptions};

const PREFIX: &str = ".satchel-";
const SUFFIX: &str = ".part";

/// After how many bytes the disk is asked to begin with them.
const SYNC_EVERY: u64 = 8 << 20;

/// A file under a temporary name in the directory where it will get its own.
///
/// The writer holds a lock on it for as long as it lives. The system frees the lock when a process dies, however it
/// dies, so a file with our kind of name and no lock is a leftover, and one with a lock is somebody's work.
pub(crate) struct TempFile {
    directory: Dir,
    name: String,
    file: File,
    published: bool,
    /// How many bytes were written since the disk was last asked to take them.
    unsynced: u64,
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl TempFile {
    /// Makes an empty file with a name that nobody has.
    pub(crate) fn create(directory: Dir) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        loop {
            let name = format!("{PREFIX}{}-{}{SUFFIX}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let file = match directory.open_with(&name, &options) {
                // A leftover of a dead process that had our process id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?.into_std(),
            };
            let directory = directory.try_clone()?;
            let temp = Self { directory, name, file, published: false, unsynced: 0, syncing: None };
            match temp.file.lock() {
                Ok(()) => {}
                // Where nothing can be locked, nothing is taken for a leftover either.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(temp),
                Err(error) => return Err(error),
            }
            // Between the two calls above, a cleaner could take the file for a leftover.
            if temp.directory.symlink_metadata(&temp.name).is_ok() {
                return Ok(temp);
            }
        }
    }

    /// The file, opened for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Writes at the file's end. The disk begins with what is there while more comes, so that [`TempFile::sync`] need not
    /// wait for all of it.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.unsynced += bytes.len() as u64;
        if self.unsynced >= SYNC_EVERY && self.syncing.as_ref().is_none_or(JoinHandle::is_finished) {
            self.await_sync()?;
            self.unsynced = 0;
            let file = self.file.try_clone()?;
            self.syncing = Some(thread::Builder::new().spawn(move || file.sync_data())?);
        }
        Ok(())
    }

    /// Returns when all bytes are on disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        // The system tells an error once, to whoever synced first: it must not be lost with that thread.
        self.await_sync()?;
        self.file.sync_all()
    }

    fn await_sync(&mut self) -> io::Result<()> {
        match self.syncing.take() {
            Some(syncing) => syncing.join().unwrap_or_else(|_| Err(io::Error::other("the thread that syncs panicked"))),
            None => Ok(()),
        }
    }

    /// The directory in which it lies.
    pub(crate) fn directory(&self) -> &Dir {
        &self.directory
    }

    /// Gives the file its name in `directory`, in place of what has that name.
    pub(crate) fn replace(mut self, directory: &Dir, name: &str) -> io::Result<()> {
        self.directory.rename(&self.name, directory, name)?;
        self.published = true;
        Ok(())
    }

    /// Gives the file its name, or fails with `AlreadyExists` when anything has it: a link is made by one call that
    /// never replaces.
    pub(crate) fn create_new(self, name: &str) -> io::Result<()> {
        // Dropping the file then takes away its first name.
        self.directory.hard_link(&self.name, &self.directory, name)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        if let Err(error) = self.directory.remove_file(&self.name)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file.name = self.name, error = %error, "a temporary file stays until the next start");
        }
    }
}

/// Tells whether a name is one of ours for temporary files.
pub(crate) fn is_temp_name(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Removes the file if it is a temporary file of a process that is dead. Returns whether it was.
pub(crate) fn remove_leftover(directory: &Dir, name: &str) -> io::Result<bool> {
    if !is_temp_name(name) || !directory.symlink_metadata(name)?.is_file() {
        return Ok(false);
    }
    let file = match directory.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        opened => opened?.into_std(),
    };
    match file.try_lock() {
        Ok(()) => {
            directory.remove_file(name)?;
            Ok(true)
        }
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
