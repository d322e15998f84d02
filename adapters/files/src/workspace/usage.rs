//! How much of its quota a conversation uses.

use std::io;

use cap_std::fs::Dir;
use satchel_ports::file_runner::{FileKind, FileStat};

use crate::{directory, native_runner, temp};

/// The bytes counted for a directory or an empty file: the block that most disks allocate for it.
pub(super) const EMPTY_ENTRY_BYTES: u64 = 4096;

/// The bytes in a conversation's own mounts. Measured on first use, then updated by counting.
#[derive(Debug, Default)]
pub(super) struct QuotaUsage {
    /// Bytes of published files; `None` before they are measured.
    committed: Option<u64>,
    /// Bytes of files that are being written.
    pending: u64,
}

impl QuotaUsage {
    /// Reserves quota for incoming bytes. `freed` are the bytes that their publishing replaces.
    ///
    /// Before it refuses, it measures again, since people remove files by hand.
    pub(super) fn reserve(
        &mut self,
        bytes: u64,
        freed: u64,
        quota: u64,
        measure: impl Fn() -> io::Result<u64>,
    ) -> io::Result<bool> {
        let fits = |committed: u64, pending: u64| {
            committed.saturating_add(pending).saturating_add(bytes).saturating_sub(freed) <= quota
        };
        let was_known = self.committed.is_some();
        let committed = self.committed_bytes(&measure)?;
        if !fits(committed, self.pending) {
            if was_known {
                self.committed = Some(measure()?);
            }
            if !fits(self.committed.unwrap_or(committed), self.pending) {
                return Ok(false);
            }
        }
        self.pending += bytes;
        Ok(true)
    }

    /// Bytes of published files; measured where they aren't known.
    pub(super) fn committed_bytes(&mut self, measure: impl Fn() -> io::Result<u64>) -> io::Result<u64> {
        let committed = match self.committed {
            Some(committed) => committed,
            None => measure()?,
        };
        self.committed = Some(committed);
        Ok(committed)
    }

    /// Turns pending bytes into published ones, in place of `freed` others.
    pub(super) fn commit(&mut self, bytes: u64, freed: u64) {
        self.abandon(bytes);
        self.committed = self.committed.map(|committed| committed.saturating_add(bytes).saturating_sub(freed));
    }

    /// Returns the quota of pending bytes.
    pub(super) fn abandon(&mut self, bytes: u64) {
        self.pending = self.pending.saturating_sub(bytes);
    }

    /// Discards the count; the disk is measured again before the next write.
    pub(super) fn invalidate(&mut self) {
        self.committed = None;
    }

    /// Subtracts the bytes of a removed file.
    pub(super) fn free(&mut self, bytes: u64) {
        self.committed = self.committed.map(|committed| committed.saturating_sub(bytes));
    }
}

/// Sums the bytes beneath a directory, without files that are being written.
pub(super) fn measure_directory(root: &Dir) -> io::Result<u64> {
    let mut total: u64 = 0;
    directory::walk_all(root, |_, entry| {
        let is_pending = entry.file_name().to_str().is_some_and(temp::is_temp_name);
        match entry.metadata() {
            Ok(metadata) if !is_pending => {
                total = total.saturating_add(entry_bytes(&native_runner::to_stat(&metadata)?));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(())
    })?;
    Ok(total)
}

/// How many bytes an entry counts for. Directories and empty files use up a disk as well: its inodes.
pub(super) fn entry_bytes(entry: &FileStat) -> u64 {
    match entry.kind {
        FileKind::Directory => EMPTY_ENTRY_BYTES,
        FileKind::File => {
            if entry.bytes == 0 {
                EMPTY_ENTRY_BYTES
            } else {
                entry.bytes
            }
        }
        FileKind::Link | FileKind::Other => 0,
    }
}
