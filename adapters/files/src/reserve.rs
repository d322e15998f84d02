//! Keeps the reserve of the disk free of files: before a write starts, and while its bytes come.

use std::{
    os::fd::AsFd,
    path::{Path, PathBuf},
};

use rustix::fs::fstatvfs;
use satchel_domain::{DiskFull, DiskReserve, DiskSpace};

/// After how many bytes the disk is asked again: others write to it, too.
const RECHECK_AFTER: u64 = 4 << 20;

/// What one write may still take of its disk.
pub(crate) struct ReserveGuard {
    reserve: DiskReserve,
    /// The directory as operators know it.
    directory: PathBuf,
    /// How many bytes may be written before the disk is asked again.
    allowed: u64,
}

impl ReserveGuard {
    pub(crate) fn new(reserve: DiskReserve, directory: &Path) -> Self {
        Self { reserve, directory: directory.to_owned(), allowed: 0 }
    }

    /// Checks that the disk of `handle` has room for the `expected` bytes of a write that starts.
    pub(crate) fn check(&self, handle: impl AsFd, expected: u64) -> Result<(), DiskFull> {
        self.room(handle, expected).map(drop)
    }

    /// Takes room for bytes that are about to be written to the disk of `handle`.
    pub(crate) fn allocate(&mut self, handle: impl AsFd, bytes: u64) -> Result<(), DiskFull> {
        if bytes > self.allowed {
            self.allowed = self.room(handle, bytes)?.min(RECHECK_AFTER.max(bytes));
        }
        self.allowed -= bytes;
        Ok(())
    }

    /// A disk that took no more bytes, whatever it says of its room.
    pub(crate) fn exhausted(&self) -> DiskFull {
        self.full(DiskSpace { total: 0, free: 0 })
    }

    fn room(&self, handle: impl AsFd, wanted: u64) -> Result<u64, DiskFull> {
        if self.reserve == DiskReserve::NONE {
            return Ok(u64::MAX);
        }
        // Where the system can't tell, a write that doesn't fit fails by itself.
        let Ok(disk) = fstatvfs(handle) else { return Ok(u64::MAX) };
        let in_bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        let space = DiskSpace { total: in_bytes(disk.f_blocks), free: in_bytes(disk.f_bavail) };
        self.reserve.room(space, wanted).ok_or_else(|| self.full(space))
    }

    fn full(&self, space: DiskSpace) -> DiskFull {
        let (free, reserved) = (space.free, self.reserve.bytes_of(space.total));
        let directory = self.directory.display();
        tracing::warn!(%directory, free, reserved, "the disk is full; refusing a file");
        DiskFull { free, reserved }
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
        assert_eq!(guard.allowed, RECHECK_AFTER - 1000);
        // From now on nothing is left besides the reserve.
        guard.reserve = DiskReserve::Bytes(u64::MAX);
        guard.allocate(&handle, RECHECK_AFTER - 1000).unwrap();
        let full = guard.allocate(&handle, 1).unwrap_err();
        assert!(full.free > 0 && full.reserved == u64::MAX, "{full:?}");
        guard.reserve = DiskReserve::NONE;
        guard.allocate(&handle, u64::MAX).unwrap();
    }

    #[test]
    fn full_disk_is_reported_without_figures() {
        let guard = ReserveGuard::new(DiskReserve::Standard, Path::new("/srv"));
        assert_eq!(guard.exhausted().to_string(), "no space is left on the disk");
    }
}
