//! Keeps the disk's reserve free: checks before a write starts, and while its bytes arrive.

use std::{
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use rustix::fs::fstatvfs;
use satchel_domain::{DiskFull, DiskReserve, DiskSpace};

/// After how many bytes the free space is checked again: others write to the disk, too.
const RECHECK_BYTES: u64 = 4 << 20;

/// How much one write may still use of its disk.
pub(crate) struct ReserveGuard {
    reserve: DiskReserve,
    /// The directory as operators know it.
    directory: PathBuf,
    /// How many bytes may be written before the free space is checked again.
    unchecked_bytes: u64,
}

impl ReserveGuard {
    pub(crate) fn new(reserve: DiskReserve, directory: &Path) -> Self {
        Self { reserve, directory: directory.to_owned(), unchecked_bytes: 0 }
    }

    /// Checks that the disk of `handle` has room for the `expected` bytes of a write that starts.
    pub(crate) fn check(&self, handle: impl AsFd, expected_bytes: u64) -> Result<(), DiskFull> {
        self.available_bytes(handle, expected_bytes).map(drop)
    }

    /// Allocates space for bytes that are about to be written to the disk of `handle`.
    pub(crate) fn allocate(&mut self, handle: impl AsFd, bytes: u64) -> Result<(), DiskFull> {
        if bytes > self.unchecked_bytes {
            self.unchecked_bytes = self.available_bytes(handle, bytes)?.min(RECHECK_BYTES.max(bytes));
        }
        self.unchecked_bytes -= bytes;
        Ok(())
    }

    /// The error for a disk that refused bytes, whatever free space it reports.
    pub(crate) fn disk_full_error(&self) -> DiskFull {
        self.log_refusal(DiskFull { free: 0, reserved: self.reserve.reserved_bytes(0) })
    }

    /// Logs that a file is refused, once nothing can make room for it.
    pub(crate) fn log_refusal(&self, full: DiskFull) -> DiskFull {
        let DiskFull { free, reserved } = full;
        tracing::warn!(directory = %self.directory.display(), free, reserved, "the disk is full; refusing a file");
        full
    }

    fn available_bytes(&self, handle: impl AsFd, bytes: u64) -> Result<u64, DiskFull> {
        if self.reserve == DiskReserve::NONE {
            return Ok(u64::MAX);
        }
        // If the system can't tell, a write that doesn't fit fails anyway.
        let Ok(disk) = fstatvfs(handle) else { return Ok(u64::MAX) };
        let in_bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        let space = DiskSpace { total: in_bytes(disk.f_blocks), free: in_bytes(disk.f_bavail) };
        let full = || DiskFull { free: space.free, reserved: self.reserve.reserved_bytes(space.total) };
        self.reserve.available_bytes(space, bytes).ok_or_else(full)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn disk_is_asked_again_after_a_few_mib() {
        let directory = tempfile::tempdir().unwrap();
        let handle = File::open(directory.path()).unwrap();
        let mut guard = ReserveGuard::new(DiskReserve::Bytes(1), directory.path());
        guard.allocate(&handle, 1000).unwrap();
        assert_eq!(guard.unchecked_bytes, RECHECK_BYTES - 1000);
        // From now on nothing is left besides the reserve.
        guard.reserve = DiskReserve::Bytes(u64::MAX);
        guard.allocate(&handle, RECHECK_BYTES - 1000).unwrap();
        let full = guard.allocate(&handle, 1).unwrap_err();
        assert!(full.free > 0 && full.reserved == u64::MAX, "{full:?}");
        guard.reserve = DiskReserve::NONE;
        guard.allocate(&handle, u64::MAX).unwrap();
    }

    #[test]
    fn full_disk_is_reported_without_figures() {
        let guard = ReserveGuard::new(DiskReserve::Standard, Path::new("/srv"));
        assert_eq!(guard.disk_full_error().to_string(), "no space is left on the disk");
    }
}
