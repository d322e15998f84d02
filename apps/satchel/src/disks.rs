//! The disks that hold files: their free space and the part of it that is reserved for the database.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::fs::statvfs;
use satchel_domain::{DiskReserve, DiskSpace};

use crate::config::{Config, storage::BlobBackend};

/// A directory for files, and the reserve of its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDirectory {
    /// `data`, `files`, `shared` or `database`; a metric label.
    pub role: &'static str,
    pub path: PathBuf,
    /// How much of its disk files must leave free.
    pub reserve: DiskReserve,
}

/// The directories that hold files. The data directory is always one of them, because it holds the workspaces.
#[must_use]
pub fn file_directories(config: &Config) -> Vec<FileDirectory> {
    let reserve = config.storage.reserve();
    let directory = |role, path: &Path| FileDirectory { role, path: path.to_owned(), reserve };
    let mut directories = vec![directory("data", config.storage.data_dir())];
    if let Some(BlobBackend::Directory(path)) = &config.storage.blobs_url {
        directories.push(directory("files", path));
    }
    directories.extend(config.workspace.shared_dir.as_ref().map(|path| directory("shared", &path.0)));
    directories
}

/// Reads the total and the free space of a directory's disk.
///
/// # Errors
/// When the system call fails.
pub fn read_space(directory: &Path) -> io::Result<DiskSpace> {
    let disk = statvfs(directory)?;
    let in_bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Ok(DiskSpace { total: in_bytes(disk.f_blocks), free: in_bytes(disk.f_bavail) })
}
