//! Temporary files: written before they get their names, and removed if they never do.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, JoinHandle},
};

use cap_std::fs::Dir;
use rustix::io::Errno;
use satchel_ports::{
    FileWriter,
    file_runner::{FileStat, LinkMode},
};

const PREFIX: &str = ".satchel-";
const SUFFIX: &str = ".part";

/// How many names are tried for one file. Each process has names of its own, so that the first one is nearly always free.
const MAX_ATTEMPTS: usize = 10_000;

/// After how many bytes a background sync starts.
const SYNC_BYTES: u64 = 8 << 20;

/// A file under a temporary name in the directory where it will get its own, or beside it.
///
/// The writer holds a lock on it for its lifetime. The system frees the lock when the process dies, so a file with such
/// a name and no lock is a leftover, and one with a lock is in use.
pub(crate) struct TempFile {
    writer: Box<dyn FileWriter>,
    path: PathBuf,
    file: File,
    /// Whether the temporary name is still there.
    has_name: bool,
    /// How many bytes were written since the last sync started.
    unsynced_bytes: u64,
    sync_thread: Option<JoinHandle<io::Result<()>>>,
}

impl TempFile {
    /// Creates an empty file with a unique name in this directory of the writer.
    pub(crate) fn create(mut writer: Box<dyn FileWriter>, directory: &Path) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let path = directory.join(unique_name());
            let file = match writer.create(&path) {
                // A leftover of a dead process with the same process id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                created => created?,
            };
            match file.lock() {
                Ok(()) => {}
                // Where locks are unsupported, no file is taken for a leftover either.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(error) => {
                    writer.remove_file(&path)?;
                    return Err(error);
                }
            }
            match writer.stat(&path, LinkMode::Keep) {
                Ok(_) => return Ok(Self { writer, path, file, has_name: true, unsynced_bytes: 0, sync_thread: None }),
                // Between the two calls above, a cleaner removed the file as a leftover.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    writer.remove_file(&path)?;
                    return Err(error);
                }
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "every name for a temporary file is taken"))
    }

    /// The file, opened for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Its temporary name, relative to the directory of its writer.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes. A background sync starts while more arrive, so that [`TempFile::sync`] needn't wait for all of
    /// them.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write(bytes)?;
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
        self.writer.sync()
    }

    fn wait_for_sync(&mut self) -> io::Result<()> {
        match self.sync_thread.take() {
            Some(syncing) => syncing.join().unwrap_or_else(|_| Err(io::Error::other("the thread that syncs panicked"))),
            None => Ok(()),
        }
    }

    /// Gives the file its name, in place of the file that has it.
    pub(crate) fn replace(&mut self, path: &Path) -> io::Result<()> {
        self.writer.rename(&self.path, path)?;
        self.has_name = false;
        Ok(())
    }

    /// Gives the file its name, or fails with `AlreadyExists` when anything has it: by one call that never replaces.
    pub(crate) fn create_new(&mut self, path: &Path) -> io::Result<()> {
        let link_result = self.writer.link(&self.path, path);
        self.or_rename(link_result, path)
    }

    /// Renames the file where the file system has no hard links, as exFAT and most network mounts. Renaming comes
    /// second, because not every file system with links can rename without replacing.
    fn or_rename(&mut self, link_result: io::Result<()>, path: &Path) -> io::Result<()> {
        match link_result {
            Ok(()) => {
                self.remove_name();
                Ok(())
            }
            Err(error) if is_link_unsupported(&error) => {
                self.writer.rename_new(&self.path, path).map_err(rename_error)?;
                self.has_name = false;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns when the names in a directory of the writer are on disk.
    pub(crate) fn sync_dir(&mut self, directory: &Path) -> io::Result<()> {
        self.writer.sync_dir(directory)
    }

    /// The size and kind of what is at a path of the writer.
    pub(crate) fn stat(&mut self, path: &Path) -> io::Result<FileStat> {
        self.writer.stat(path, LinkMode::Keep)
    }

    fn remove_name(&mut self) {
        if !std::mem::replace(&mut self.has_name, false) {
            return;
        }
        if let Err(error) = self.writer.remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(file.name = %self.path.display(), error = %error, "removing a temporary file failed; the next start removes it");
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        self.remove_name();
    }
}

/// A name that no other temporary file of this process has.
fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{PREFIX}{}-{}{SUFFIX}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether creating a link failed because links are unsupported. Linux reports `EPERM` then, others vary.
fn is_link_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::PERM, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS];
    Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno))
}

/// Whether a rename that never replaces failed because the file system has none.
pub(crate) fn is_rename_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS];
    Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno))
}

/// Maps an error of the rename, which is the last way to create a new file.
fn rename_error(error: io::Error) -> io::Error {
    if is_rename_unsupported(&error) {
        let message = "the file system supports neither hard links nor renaming without replacing, so new files can't be \
                       created safely; write with `overwrite` instead";
        return io::Error::new(io::ErrorKind::Unsupported, message);
    }
    error
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
    use satchel_ports::FileAccess;

    use super::*;
    use crate::native_runner::NativeWriter;

    fn directory() -> (tempfile::TempDir, Dir) {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Dir::open_ambient_dir(temporary.path(), ambient_authority()).unwrap();
        (temporary, directory)
    }

    fn temp_file(directory: &Dir) -> TempFile {
        let writer = NativeWriter::new(directory.try_clone().unwrap(), FileAccess::Owner);
        TempFile::create(Box::new(writer), Path::new("")).unwrap()
    }

    fn names(directory: &Dir) -> Vec<String> {
        directory.entries().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn file_is_renamed_without_replacing_where_links_fail() {
        for no_links in [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS] {
            let (_temporary, directory) = directory();
            let written = |content: &[u8]| {
                let mut temp = temp_file(&directory);
                temp.append(content).unwrap();
                temp
            };
            written(b"first").or_rename(Err(no_links.into()), Path::new("a.txt")).unwrap();
            let taken = written(b"second").or_rename(Err(no_links.into()), Path::new("a.txt")).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(directory.read("a.txt").unwrap(), b"first");
            assert_eq!(names(&directory), ["a.txt"], "nothing is left over");
        }
    }

    #[test]
    fn other_link_errors_are_returned_unchanged() {
        let (_temporary, directory) = directory();
        let mut temp = temp_file(&directory);
        let failed = temp.or_rename(Err(Errno::ACCESS.into()), Path::new("a.txt")).unwrap_err();
        drop(temp);
        assert_eq!(Errno::from_io_error(&failed), Some(Errno::ACCESS));
        assert_eq!(names(&directory), [] as [&str; 0]);
    }

    #[test]
    fn missing_no_replace_support_is_explained() {
        for missing in [Errno::INVAL, Errno::NOSYS] {
            let error = rename_error(missing.into());
            assert!(error.to_string().contains("supports neither hard links"), "{error}");
        }
        assert_eq!(rename_error(Errno::EXIST.into()).kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(rename_error(Errno::NOSPC.into()).kind(), io::ErrorKind::StorageFull);
    }
}
