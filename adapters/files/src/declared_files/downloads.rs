//! Temporary files for downloads: within a quota, and gone with their last handle.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use cap_std::fs::Dir;
use futures::TryStreamExt;
use satchel_domain::{Sha256, path::Mount};
use satchel_ports::{
    BlobHint, ByteStream, DeclaredFileError, FileAccess, FileRunner, OpenedFile, file_runner::MountDirectory,
};
use sha2::{Digest, Sha256 as Hasher};

use super::{io_error, opened, run_blocking};
use crate::{DirectoryOpenError, NativeRunner, directory, temp, temp::TempFile};

/// The directory of the temporary files.
pub(super) struct Downloads {
    directory: Dir,
    path: PathBuf,
    quota: u64,
    used: AtomicU64,
}

/// A temporary file and the room that it takes up.
pub(super) struct DownloadedFile {
    /// Removes its name when it is dropped. Its writer isn't made for several threads.
    _file: Mutex<TempFile>,
    _room: DownloadReservation,
}

/// A part of the quota, given back when it is dropped.
struct DownloadReservation {
    downloads: Arc<Downloads>,
    bytes: u64,
}

impl Drop for DownloadReservation {
    fn drop(&mut self) {
        self.downloads.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl DownloadReservation {
    fn reserve(&mut self, bytes: u64) -> Result<(), DeclaredFileError> {
        let quota = self.downloads.quota;
        let taken = self.downloads.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|used| *used <= quota)
        });
        taken.map_err(|_| DeclaredFileError::QuotaExceeded { limit: quota })?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Downloads {
    pub(super) fn open(path: &Path, quota: u64) -> Result<Self, DirectoryOpenError> {
        let directory = directory::open_root(path, FileAccess::Owner)?;
        let downloads = Self { directory, path: path.to_owned(), quota, used: AtomicU64::new(0) };
        if let Err(error) = downloads.remove_leftovers() {
            tracing::warn!(directory = %path.display(), %error, "removing old temporary files failed; the next start tries again");
        }
        Ok(downloads)
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        for entry in self.directory.entries()? {
            if let Some(name) = entry?.file_name().to_str() {
                temp::remove_leftover(&self.directory, name)?;
            }
        }
        Ok(())
    }

    fn create(&self) -> Result<TempFile, DeclaredFileError> {
        let create = || {
            let directory = self.directory.try_clone()?.into_std_file();
            let mount = MountDirectory { mount: Mount::Tmp, directory, access: FileAccess::Owner };
            TempFile::create(NativeRunner.writer(mount)?, Path::new(""))
        };
        create().map_err(|error| io_error("create a temporary file in", &self.path, error))
    }
}

/// Stores a stream. Dropping the call removes what is there.
pub(super) async fn store(
    downloads: &Arc<Downloads>,
    mut content: ByteStream,
    hint: &BlobHint,
) -> Result<OpenedFile, DeclaredFileError> {
    let mut room = DownloadReservation { downloads: Arc::clone(downloads), bytes: 0 };
    let creator = Arc::clone(downloads);
    let mut file = run_blocking(move || creator.create()).await?;
    let mut hasher = Hasher::new();
    while let Some(chunk) = content.try_next().await.map_err(DeclaredFileError::Source)? {
        room.reserve(chunk.len() as u64)?;
        hasher.update(&chunk);
        let path = downloads.path.clone();
        file = run_blocking(move || {
            file.append(&chunk).map_err(|error| io_error("write", &path, error))?;
            Ok(file)
        })
        .await?;
    }
    let (bytes, sha256) = (room.bytes, Sha256(hasher.finalize().into()));
    let (hint, directory) = (hint.clone(), downloads.path.clone());
    run_blocking(move || {
        let handle = file.file().try_clone().map_err(|error| io_error("read", &directory, error))?;
        let path = directory.join(file.path());
        opened::check(handle, path, bytes, sha256, &hint, Some(DownloadedFile { _file: Mutex::new(file), _room: room }))
    })
    .await
}
