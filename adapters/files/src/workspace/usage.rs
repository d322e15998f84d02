//! How much of its room a conversation uses.

use std::io;

use cap_std::fs::{Dir, Metadata};

use crate::{directory, temp};

/// What a directory or an empty file counts for: the block that most disks give it.
pub(super) const EMPTY_ENTRY_BYTES: u64 = 4096;

/// What a conversation's own mounts hold. Known after the first look at the disk, then kept by counting.
#[derive(Debug, Default)]
pub(super) struct QuotaUsage {
    /// Bytes of files that have their names; not known before the first write.
    settled: Option<u64>,
    /// Bytes of files that are being written.
    arriving: u64,
}

impl QuotaUsage {
    /// Takes room for bytes that arrive. `freed` is what goes when they have their name.
    ///
    /// Before it refuses it looks at the disk again, since people remove files by hand.
    pub(super) fn reserve(
        &mut self,
        bytes: u64,
        freed: u64,
        quota: u64,
        measure: impl Fn() -> io::Result<u64>,
    ) -> io::Result<bool> {
        let fits = |settled: u64, arriving: u64| {
            settled.saturating_add(arriving).saturating_add(bytes).saturating_sub(freed) <= quota
        };
        let known = self.settled.is_some();
        let settled = self.settled(&measure)?;
        if !fits(settled, self.arriving) {
            if known {
                self.settled = Some(measure()?);
            }
            if !fits(self.settled.unwrap_or(settled), self.arriving) {
                return Ok(false);
            }
        }
        self.arriving += bytes;
        Ok(true)
    }

    /// Bytes of files that have their names; the disk is looked at where they aren't known.
    pub(super) fn settled(&mut self, measure: impl Fn() -> io::Result<u64>) -> io::Result<u64> {
        let settled = match self.settled {
            Some(settled) => settled,
            None => measure()?,
        };
        self.settled = Some(settled);
        Ok(settled)
    }

    /// Bytes that were arriving have their name, in place of `freed` others.
    pub(super) fn commit(&mut self, bytes: u64, freed: u64) {
        self.abandon(bytes);
        self.settled = self.settled.map(|settled| settled.saturating_add(bytes).saturating_sub(freed));
    }

    /// Bytes that were arriving never will.
    pub(super) fn abandon(&mut self, bytes: u64) {
        self.arriving = self.arriving.saturating_sub(bytes);
    }

    /// What is on the disk is no longer known; it is looked at again before the next write.
    pub(super) fn invalidate(&mut self) {
        self.settled = None;
    }

    /// Bytes that had a name are gone.
    pub(super) fn free(&mut self, bytes: u64) {
        self.settled = self.settled.map(|settled| settled.saturating_sub(bytes));
    }
}

/// Counts what lies beneath a directory, without files that are being written.
pub(super) fn measure(root: &Dir) -> io::Result<u64> {
    let mut total: u64 = 0;
    directory::walk_all(root, |_, entry| {
        let arriving = entry.file_name().to_str().is_some_and(temp::is_temp_name);
        match entry.metadata() {
            Ok(metadata) if !arriving => total = total.saturating_add(counted_bytes(&metadata)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(())
    })?;
    Ok(total)
}

/// How many bytes an entry counts for. Directories and empty files use up a disk as well: its inodes.
pub(super) fn counted_bytes(metadata: &Metadata) -> u64 {
    match metadata.file_type() {
        kind if kind.is_dir() => EMPTY_ENTRY_BYTES,
        kind if kind.is_file() && metadata.len() == 0 => EMPTY_ENTRY_BYTES,
        kind if kind.is_file() => metadata.len(),
        _ => 0,
    }
}
