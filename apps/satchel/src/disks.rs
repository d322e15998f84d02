//! The disks that hold files: how much of each is free, and how much stays so for the database.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::fs::statvfs;
use satchel_domain::{DiskReserve, DiskSpace};

use crate::config::{Config, storage::BlobBackend};

/// A directory whose files leave the reserve of its disk free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDirectory {
    /// What it holds, as operators read it: `data`, `files` or `shared`.
    pub holds: &'static str,
    pub path: PathBuf,
    /// How much of its disk stays free.
    pub reserve: DiskReserve,
}

/// The directories in which files are kept; the data directory is always one, because the workspaces lie in it.
#[must_use]
pub fn file_directories(config: &Config) -> Vec<FileDirectory> {
    let reserve = config.storage.reserve();
    let directory = |holds, path: &Path| FileDirectory { holds, path: path.to_owned(), reserve };
    let mut directories = vec![directory("data", config.storage.data_dir())];
    if let Some(BlobBackend::Directory(path)) = &config.storage.blobs_url {
        directories.push(directory("files", path));
    }
    directories.extend(config.workspace.shared_dir.as_ref().map(|path| directory("shared", &path.0)));
    directories
}

/// Asks the system about the disk of a directory.
///
/// # Errors
/// When it can't tell.
pub fn space(directory: &Path) -> io::Result<DiskSpace> {
    let disk = statvfs(directory)?;
    let in_bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok(DiskSpace { total: in_bytes(disk.f_blocks), free: in_bytes(disk.f_bavail) })
}
