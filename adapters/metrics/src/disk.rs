//! The space of the disks that hold files.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::fs::statvfs;
use satchel_domain::{DiskReserve, DiskSpace};

/// A directory for files, and the reserve of its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDirectory {
    /// `data`, `files`, `shared` or `database`; a metric label.
    pub role: &'static str,
    pub path: PathBuf,
    /// How much of its disk files must leave free.
    pub reserve: DiskReserve,
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
