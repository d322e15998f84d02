//! The reserve of free disk that only the ledger may use.

use crate::size::format_bytes;

/// The most that [`DiskReserve::Standard`] keeps free.
const STANDARD_BYTES: u64 = 1 << 30;

/// Of a small disk it keeps one of so many bytes free: 5 %.
const STANDARD_SHARE: u64 = 20;

/// How much of a disk stays free of files, so that the ledger can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DiskReserve {
    /// 1 GiB or 5 % of the disk, whichever is less.
    #[default]
    Standard,
    /// This many bytes; 0 keeps nothing free.
    Bytes(u64),
}

/// What a disk says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Its size in bytes; 0 where it doesn't say.
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
    pub fn bytes_of(self, total: u64) -> u64 {
        match self {
            Self::Standard => STANDARD_BYTES.min(total / STANDARD_SHARE),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Returns how many bytes a disk has room for besides the reserve; `None` when it has room for none, or for fewer
    /// than `wanted`.
    #[must_use]
    pub fn room(self, space: DiskSpace, wanted: u64) -> Option<u64> {
        if space.total == 0 {
            return Some(u64::MAX);
        }
        let room = space.free.saturating_sub(self.bytes_of(space.total));
        (room >= wanted.max(1)).then_some(room)
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
            assert_eq!(DiskReserve::Standard.bytes_of(total), reserved, "{total}");
        }
        assert_eq!(DiskReserve::NONE.bytes_of(GIB), 0);
    }

    #[test]
    fn room_is_what_is_free_above_the_reserve() {
        let room =
            |reserve: DiskReserve, free: u64, wanted: u64| reserve.room(DiskSpace { total: 1_000, free }, wanted);
        assert_eq!(room(DiskReserve::Standard, 60, 10), Some(10));
        assert_eq!(room(DiskReserve::Standard, 60, 11), None);
        assert_eq!(room(DiskReserve::Standard, 50, 0), None, "an empty file takes room, too");
        assert_eq!(room(DiskReserve::Bytes(900), 60, 0), None);
        assert_eq!(room(DiskReserve::NONE, 60, 60), Some(60));
        let silent = DiskSpace { total: 0, free: 0 };
        assert_eq!(DiskReserve::Standard.room(silent, 1), Some(u64::MAX), "a disk that says nothing may have room");
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
