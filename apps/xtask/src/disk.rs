//! How much of the disk a build takes.

use std::{collections::HashSet, fs, io, os::unix::fs::MetadataExt, path::Path};

use anyhow::{Context, Result};

/// A build from nothing, and the files of the tests beside it.
const REQUIRED_BYTES: u64 = 15_000_000_000;

const GB: f64 = 1e9;

/// Returns the bytes that the files of a directory take on the disk. One that has several names counts once.
pub(crate) fn directory_bytes(directory: &Path) -> u64 {
    let (mut pending, mut counted, mut bytes) = (vec![directory.to_owned()], HashSet::new(), 0);
    while let Some(directory) = pending.pop() {
        // Another process may remove what was listed just now.
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                pending.push(entry.path());
            } else if metadata.nlink() == 1 || counted.insert((metadata.dev(), metadata.ino())) {
                bytes += metadata.blocks() * 512;
            }
        }
    }
    bytes
}

/// Describes how much of the disk is taken, and warns where the rest may not be enough.
pub(crate) fn describe(target: &Path) -> Result<String> {
    fs::create_dir_all(target).with_context(|| format!("failed to create `{}`", target.display()))?;
    let free =
        free_bytes(target).with_context(|| format!("failed to read the free space of `{}`", target.display()))?;
    Ok(describe_bytes(target, directory_bytes(target), free))
}

fn describe_bytes(target: &Path, taken: u64, free: u64) -> String {
    let (shown, taken_gb, free_gb) = (target.display(), taken as f64 / GB, free as f64 / GB);
    let description = format!("{shown} takes {taken_gb:.1} GB, and {free_gb:.1} GB are free");
    if taken + free >= REQUIRED_BYTES {
        return description;
    }
    let required_gb = REQUIRED_BYTES as f64 / GB;
    format!(
        "{description}: the build and the tests take up to {required_gb:.0} GB in all. Where that is too much, free some, or \
         name another disk with CARGO_TARGET_DIR and TMPDIR"
    )
}

fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail * disk.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_with_two_names_counts_once() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("one"), vec![1; 100_000]).unwrap();
        let once = directory_bytes(directory.path());
        assert!((100_000..200_000).contains(&once), "{once}");
        fs::hard_link(inner.join("one"), directory.path().join("two")).unwrap();
        assert_eq!(directory_bytes(directory.path()), once);
    }

    #[test]
    fn disk_that_may_be_too_small_is_reported_with_the_way_out() {
        let path = Path::new("/t");
        assert_eq!(describe_bytes(path, 9_000_000_000, 6_000_000_000), "/t takes 9.0 GB, and 6.0 GB are free");
        let warning = describe_bytes(path, 0, 14_900_000_000);
        assert!(warning.contains("14.9 GB are free: ") && warning.contains("CARGO_TARGET_DIR"), "{warning}");
    }
}
