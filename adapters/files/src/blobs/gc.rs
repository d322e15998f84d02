//! Garbage collection of blobs: stale, mark, sweep.
//!
//! A mark is an empty file named by the address. Mark and sweep hold the lock exclusively, puts hold it shared: a put
//! completes before the mark, and the blob is too young to be marked; or between mark and sweep, and removes the mark;
//! or after the sweep, and stores the bytes again.

use std::{
    fs::{File, TryLockError},
    io,
    time::{Duration, SystemTime},
};

use cap_std::fs::{Dir, Metadata, OpenOptions, OpenOptionsExt};
use satchel_domain::Sha256;
use satchel_ports::FileAccess;

use super::{BlobDirectory, COLLECTION_LOCK_FILE, blob_path, lock_file};

impl BlobDirectory {
    /// Lists the blobs that were last put at least `grace` ago.
    pub(super) fn list_stale(&self, grace: Duration) -> io::Result<Vec<Sha256>> {
        let mut stale = Vec::new();
        for first in list_shards(&self.root)? {
            let parent = self.root.open_dir(first)?;
            for second in list_shards(&parent)? {
                for entry in parent.read_dir(second)? {
                    let entry = entry?;
                    let Some(sha256) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
                    match entry.metadata() {
                        Ok(metadata) if age(&metadata)? >= grace => stale.push(sha256),
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                }
            }
        }
        Ok(stale)
    }

    /// Marks a blob, unless it is gone or was put, or put again, within the grace.
    pub(super) fn mark(&self, sha256: &Sha256, grace: Duration) -> io::Result<()> {
        let _exclusive_lock = self.lock(File::lock)?;
        match self.root.symlink_metadata(blob_path(sha256)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(metadata) if age(&metadata)? < grace => Ok(()),
            Ok(_) => self.write_mark(sha256),
        }
    }

    fn write_mark(&self, sha256: &Sha256) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).mode(FileAccess::Owner.file_mode());
        self.marked.open_with(sha256.to_string(), &options).map(drop)
    }

    /// Removes a mark, if there is one.
    pub(super) fn unmark(&self, sha256: &Sha256) -> io::Result<()> {
        match self.marked.remove_file(sha256.to_string()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the marked blobs; each takes the lock again, so that puts wait for one removal at most. While the collection
    /// is paused, they stay until a later sweep.
    pub(super) fn sweep(&self) -> io::Result<u64> {
        let Some(_collection_lock) = self.try_lock_collection()? else {
            tracing::info!("a backup is being made; unused stored files are removed later");
            return Ok(0);
        };
        let mut freed = 0;
        for entry in self.marked.entries()? {
            if let Some(sha256) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                freed += self.sweep_one(&sha256)?;
            }
        }
        Ok(freed)
    }

    /// Takes the lock of the collection, unless it is paused.
    fn try_lock_collection(&self) -> io::Result<Option<File>> {
        let file = lock_file(&self.root, COLLECTION_LOCK_FILE, |_| Ok(()))?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn sweep_one(&self, sha256: &Sha256) -> io::Result<u64> {
        let _exclusive_lock = self.lock(File::lock)?;
        let mark = match self.marked.symlink_metadata(sha256.to_string()) {
            // A put removed it, or another process swept it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            found => found?,
        };
        let freed = match self.root.symlink_metadata(blob_path(sha256)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            // A put whose process died before it could remove the mark.
            Ok(blob) if blob.modified()? > mark.modified()? => 0,
            found => {
                let bytes = found?.len();
                self.root.remove_file(blob_path(sha256))?;
                bytes
            }
        };
        self.unmark(sha256)?;
        Ok(freed)
    }
}

/// Lists the directories named by two hexadecimal digits; by name, because 256 open directories are too many.
fn list_shards(parent: &Dir) -> io::Result<Vec<String>> {
    let mut shards = Vec::new();
    for entry in parent.entries()? {
        if let Ok(name) = entry?.file_name().into_string()
            && name.len() == 2
            && u8::from_str_radix(&name, 16).is_ok()
        {
            shards.push(name);
        }
    }
    Ok(shards)
}

/// How long ago a file was written; zero for one from the future.
fn age(metadata: &Metadata) -> io::Result<Duration> {
    let modified = metadata.modified()?.into_std();
    Ok(SystemTime::now().duration_since(modified).unwrap_or_default())
}
