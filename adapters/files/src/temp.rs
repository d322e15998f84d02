//! Temporary files: written before they get their names, and removed if they never do.

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

/// After how many bytes a background sync starts.
const SYNC_BYTES: u64 = 8 << 20;

/// A file under a temporary name in the directory where it will get its own.
///
/// The writer holds a lock on it for its lifetime. The system frees the lock when the process dies, so a file with such
/// a name and no lock is a leftover, and one with a lock is in use.
pub(crate) struct TempFile {
    directory: Dir,
    name: String,
    file: File,
    is_published: bool,
    /// How many bytes were written since the last sync started.
    unsynced_bytes: u64,
    sync_thread: Option<JoinHandle<io::Result<()>>>,
}

impl TempFile {
    /// Creates an empty file with a unique name.
    pub(crate) fn create(directory: Dir, access: FileAccess) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        access.apply_to(options.read(true).write(true).create_new(true));
        loop {
            let name = format!("{PREFIX}{}-{}{SUFFIX}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let file = match directory.open_with(&name, &options) {
                // A leftover of a dead process with the same process id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?.into_std(),
            };
            let directory = directory.try_clone()?;
            let temp = Self { directory, name, file, is_published: false, unsynced_bytes: 0, sync_thread: None };
            match temp.file.lock() {
                Ok(()) => {}
                // Where locks are unsupported, no file is taken for a leftover either.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(temp),
                Err(error) => return Err(error),
            }
            // Between the two calls above, a cleaner could have removed the file as a leftover.
            if temp.directory.symlink_metadata(&temp.name).is_ok() {
                return Ok(temp);
            }
        }
    }

    /// The file, opened for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Appends bytes. A background sync starts while more arrive, so that [`TempFile::sync`] needn't wait for all of
    /// them.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.unsynced_bytes += bytes.len() as u64;
        if self.unsynced_bytes >= SYNC_BYTES && self.sync_thread.as_ref().is_none_or(JoinHandle::is_finished) {
            self.wait_for_sync()?;
            self.unsynced_bytes = 0;
            let file = self.file.try_clone()?;
            self.sync_thread = Some(thread::Builder::new().spawn(move || file.sync_data())?);
        }
        Ok(())
    }

    /// Returns when all bytes are on disk.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        // The system reports an error only to the first sync: it must not be lost with that thread.
        self.wait_for_sync()?;
        self.file.sync_all()
    }

    fn wait_for_sync(&mut self) -> io::Result<()> {
        match self.sync_thread.take() {
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
        self.is_published = true;
        Ok(())
    }

    /// Gives the file its name, or fails with `AlreadyExists` when anything has it: by one call that never replaces.
    pub(crate) fn create_new(self, name: &str) -> io::Result<()> {
        let link_result = self.directory.hard_link(&self.name, &self.directory, name);
        self.or_rename(link_result, name)
    }

    /// Renames the file where the file system has no hard links, as exFAT and most network mounts. Renaming comes
    /// second, because not every file system with links can rename without replacing.
    fn or_rename(mut self, link_result: io::Result<()>, name: &str) -> io::Result<()> {
        match link_result {
            Err(error) if is_link_unsupported(&error) => {
                let rename_result =
                    renameat_with(&self.directory, &self.name, &self.directory, name, RenameFlags::NOREPLACE);
                rename_result.map_err(rename_error)?;
                self.is_published = true;
                Ok(())
            }
            // Dropping the file removes its temporary name.
            result => result,
        }
    }
}

/// Whether creating a link failed because links are unsupported. Linux reports `EPERM` then, others vary.
fn is_link_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::PERM, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS];
    Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno))
}

/// Maps an error of the rename, which is the last way to create a new file.
fn rename_error(errno: Errno) -> io::Error {
    if [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS].contains(&errno) {
        let message = "the file system supports neither hard links nor renaming without replacing, so new files can't be \
                       created safely; write with `overwrite` instead";
        return io::Error::new(io::ErrorKind::Unsupported, message);
    }
    errno.into()
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        if let Err(error) = self.directory.remove_file(&self.name)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file.name = self.name, error = %error, "removing a temporary file failed; the next start removes it");
        }
    }
}

/// Whether a name is that of a temporary file.
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
            written(b"first").or_rename(Err(no_links.into()), "a.txt").unwrap();
            let taken = written(b"second").or_rename(Err(no_links.into()), "a.txt").unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(directory.read("a.txt").unwrap(), b"first");
            assert_eq!(names(&directory), ["a.txt"], "nothing is left over");
        }
    }

    #[test]
    fn other_link_errors_are_returned_unchanged() {
        let (_temporary, directory) = directory();
        let temp = TempFile::create(directory.try_clone().unwrap(), FileAccess::Owner).unwrap();
        let failed = temp.or_rename(Err(Errno::ACCESS.into()), "a.txt").unwrap_err();
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
