//! Which data directories have a database, and which of them a process on this machine has open.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::schema::COPY_SUFFIX;

/// Whether a data directory holds a database. Nothing is created.
///
/// # Errors
/// When it can't be looked at, such as for want of permission: there may be one.
pub fn has_database(data_dir: &Path) -> io::Result<bool> {
    match fs::metadata(data_dir.join("satchel.db")) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether an entry of a data directory is the ledger's own.
#[must_use]
pub fn is_own_entry(name: &str) -> bool {
    let database = name.strip_prefix("satchel.db");
    let is_of_database = |rest: &str| ["", "-wal", "-shm", "-journal"].contains(&rest) || rest.starts_with(COPY_SUFFIX);
    name == "owners" || database.is_some_and(is_of_database)
}

/// Returns the data directories that processes of this user have open, as far as the system shows it: Linux does, in
/// `/proc`. Each process holds the lock of its owner open for as long as it lives.
#[must_use]
pub fn open_data_dirs() -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let files = processes.flat_map(|process| fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten());
    let mut directories: Vec<PathBuf> = files
        .filter_map(|file| data_dir_of(&fs::read_link(file.path()).ok()?))
        .filter(|dir| has_database(dir).is_ok_and(|has_one| has_one))
        .collect();
    directories.sort_unstable();
    directories.dedup();
    directories
}

/// The data directory whose owner's lock this is.
fn data_dir_of(lock: &Path) -> Option<PathBuf> {
    let is_lock = lock.extension().is_some_and(|extension| extension == "lock");
    let owners = lock.parent().filter(|parent| is_lock && parent.ends_with("owners"))?;
    owners.parent().map(Path::to_owned)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;

    use satchel_local::{SystemClock, UuidV7};

    use super::*;
    use crate::{Settings, SqliteLedger};

    #[tokio::test]
    async fn open_ledger_shows_its_data_directory() {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path().canonicalize().unwrap();
        assert!(!has_database(&data_dir).unwrap());
        assert!(!open_data_dirs().contains(&data_dir));
        let ledger = SqliteLedger::open(&data_dir, Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7))
            .await
            .unwrap();
        assert!(has_database(&data_dir).unwrap());
        assert!(open_data_dirs().contains(&data_dir));
        drop(ledger);
        assert!(!open_data_dirs().contains(&data_dir));
    }

    /// Whoever may read everything meets no want of permission, so what can't be looked at is a loop here.
    #[test]
    fn uninspectable_database_path_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let around = directory.path().join("loop");
        std::os::unix::fs::symlink(&around, &around).unwrap();
        assert!(has_database(&around).is_err());
        fs::write(directory.path().join("file"), "").unwrap();
        for nothing in ["none", "file"] {
            assert!(!has_database(&directory.path().join(nothing)).unwrap(), "{nothing}");
        }
    }
}
