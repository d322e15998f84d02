//! The reserve of free disk that only the ledger may use.

use crate::size::format_bytes;

/// The most that [`DiskReserve::Standard`] keeps free.
const MAX_STANDARD_BYTES: u64 = 1 << 30;

/// The reserve of a small disk is its size divided by this: 5 %.
const STANDARD_DIVISOR: u64 = 20;

/// How much of a disk stays free of files, so that the ledger can still write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskReserve {
    /// 1 GiB or 5 % of the disk, whichever is less.
    #[default]
    Standard,
    /// This many bytes; 0 keeps nothing free.
    Bytes(u64),
}

/// The size and the free space of a disk, as the system reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Its size in bytes; 0 if the system doesn't report it.
    pub total: u64,
    /// How many bytes of it may still be written.
    pub free: u64,
}

/// A disk that has no room for a file.
///
/// It doesn't know where the disk is: people and models read it, also where others read along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.user_text())]
pub struct DiskFull {
    /// How many bytes may still be written, the reserve included.
    pub free: u64,
    /// How many bytes stay free for the ledger.
    pub reserved: u64,
}

impl DiskReserve {
    /// No reserve.
    pub const NONE: Self = Self::Bytes(0);

    /// Returns how many bytes of a disk of this size stay free.
    #[must_use]
    pub fn reserved_bytes(self, total_bytes: u64) -> u64 {
        match self {
            Self::Standard => MAX_STANDARD_BYTES.min(total_bytes / STANDARD_DIVISOR),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns the free bytes above the reserve; `None` if there are none, or fewer than `needed`.
    #[must_use]
    pub fn available_bytes(self, space: DiskSpace, needed: u64) -> Option<u64> {
        if space.total == 0 {
            return Some(u64::MAX);
        }
        let available = space.free.saturating_sub(self.reserved_bytes(space.total));
        (available >= needed.max(1)).then_some(available)
    }
}

impl DiskFull {
    /// What an owner can do about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self.reserved {
            0 => "remove files with `/forget`, or free some space on the disk; `satchel doctor` names it",
            _ => {
                "remove files with `/forget`, free some space on the disk (`satchel doctor` names it), or lower \
                 `storage.reserve`"
            }
        }
    }

    fn user_text(self) -> String {
        match self.reserved {
            0 => "no space is left on the disk".to_owned(),
            reserved => {
                let (free, reserved) = (format_bytes(self.free), format_bytes(reserved));
                format!("the disk is nearly full: {free} free, {reserved} is kept free for the database")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn standard_reserve_is_one_gib_or_five_percent() {
        for (total, reserved) in [(1_000, 50), (10 * GIB, GIB / 2), (20 * GIB, GIB), (4_000 * GIB, GIB)] {
            assert_eq!(DiskReserve::Standard.reserved_bytes(total), reserved, "{total}");
        }
        assert_eq!(DiskReserve::NONE.reserved_bytes(GIB), 0);
    }

    #[test]
    fn room_is_what_is_free_above_the_reserve() {
        let room = |reserve: DiskReserve, free: u64, wanted: u64| {
            reserve.available_bytes(DiskSpace { total: 1_000, free }, wanted)
        };
        assert_eq!(room(DiskReserve::Standard, 60, 10), Some(10));
        assert_eq!(room(DiskReserve::Standard, 60, 11), None);
        assert_eq!(room(DiskReserve::Standard, 50, 0), None, "an empty file takes room, too");
        assert_eq!(room(DiskReserve::Bytes(900), 60, 0), None);
        assert_eq!(room(DiskReserve::NONE, 60, 60), Some(60));
        let silent = DiskSpace { total: 0, free: 0 };
        assert_eq!(
            DiskReserve::Standard.available_bytes(silent, 1),
            Some(u64::MAX),
            "a disk that says nothing may have room"
        );
    }

    #[test]
    fn full_disk_is_told_with_its_figures() {
        let full = DiskFull { free: 1_200_000_000, reserved: 1_000_000_000 };
        let words = "the disk is nearly full: 1.2 GB free, 1 GB is kept free for the database";
        assert_eq!(full.to_string(), words);
        assert!(full.remedy().ends_with(" or lower `storage.reserve`"));
        let last_byte = DiskFull { free: 0, reserved: 0 };
        assert_eq!(last_byte.to_string(), "no space is left on the disk");
        assert!(!last_byte.remedy().contains("storage.reserve"));
    }
}
