//! Temporary files: what is written before it has its name, and is gone when it never gets it.

use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, JoinHandle},
};

use cap_std::fs::{Dir, OpenOptions};
use rustix::{
    fs::{RenameFlags, renameat_with},
    io::Errno,
};

use crate::modes::FileAccess;

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
    pub(crate) fn create(directory: Dir, audience: FileAccess) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        audience.of_file(options.read(true).write(true).create_new(true));
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

    /// Gives the file its name, or fails with `AlreadyExists` when anything has it: by one call that never replaces.
    pub(crate) fn create_new(self, name: &str) -> io::Result<()> {
        let linked = self.directory.hard_link(&self.name, &self.directory, name);
        self.or_renamed(linked, name)
    }

    /// Renames the file where the system has no links: exFAT has none, nor has most of what is mounted from elsewhere.
    /// Renaming comes second, because not every system that has links can rename without replacing.
    fn or_renamed(mut self, linked: io::Result<()>, name: &str) -> io::Result<()> {
        match linked {
            Err(error) if has_no_links(&error) => {
                let renamed = renameat_with(&self.directory, &self.name, &self.directory, name, RenameFlags::NOREPLACE);
                renamed.map_err(rename_error)?;
                self.published = true;
                Ok(())
            }
            // Dropping the file takes away its first name.
            linked => linked,
        }
    }
}

/// Whether making a link failed because there are none. Linux says `EPERM` of a system without them, others vary.
fn has_no_links(error: &io::Error) -> bool {
    let none = [Errno::PERM, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS];
    Errno::from_io_error(error).is_some_and(|errno| none.contains(&errno))
}

/// Why renaming failed, where it is the last way to make a new file.
fn rename_error(errno: Errno) -> io::Error {
    if [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS].contains(&errno) {
        let missing = "the file system supports neither hard links nor renaming without replacing, so new files can't be \
                       created safely; write with `overwrite` instead";
        return io::Error::new(io::ErrorKind::Unsupported, missing);
    }
    errno.into()
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        if let Err(error) = self.directory.remove_file(&self.name)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file.name = self.name, error = %error, "removing a temporary file failed; the next start removes it");
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

#[cfg(test)]
mod tests {
    use cap_std::ambient_authority;

    use super::*;

    fn directory() -> (tempfile::TempDir, Dir) {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Dir::open_ambient_dir(temporary.path(), ambient_authority()).unwrap();
        (temporary, directory)
    }

    fn names(directory: &Dir) -> Vec<String> {
        directory.entries().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn file_is_renamed_without_replacing_where_links_fail() {
        for no_links in [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS] {
            let (_temporary, directory) = directory();
            let written = |content: &[u8]| {
                let mut temp = TempFile::create(directory.try_clone().unwrap(), FileAccess::Owner).unwrap();
                temp.append(content).unwrap();
                temp
            };
            written(b"first").or_renamed(Err(no_links.into()), "a.txt").unwrap();
            let taken = written(b"second").or_renamed(Err(no_links.into()), "a.txt").unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(directory.read("a.txt").unwrap(), b"first");
            assert_eq!(names(&directory), ["a.txt"], "nothing is left over");
        }
    }

    #[test]
    fn other_link_errors_are_returned_unchanged() {
        let (_temporary, directory) = directory();
        let temp = TempFile::create(directory.try_clone().unwrap(), FileAccess::Owner).unwrap();
        let failed = temp.or_renamed(Err(Errno::ACCESS.into()), "a.txt").unwrap_err();
        assert_eq!(Errno::from_io_error(&failed), Some(Errno::ACCESS));
        assert_eq!(names(&directory), [] as [&str; 0]);
    }

    #[test]
    fn missing_no_replace_support_is_explained() {
        for missing in [Errno::INVAL, Errno::NOSYS] {
            let error = rename_error(missing);
            assert!(error.to_string().contains("supports neither hard links"), "{error}");
        }
        assert_eq!(rename_error(Errno::EXIST).kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(rename_error(Errno::NOSPC).kind(), io::ErrorKind::StorageFull);
    }
}
