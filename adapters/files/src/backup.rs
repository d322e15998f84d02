//! Backups in a directory or an archive: objects named by their SHA-256, and one manifest per backup that lists them.
//!
//! An object gets its name once its bytes are verified and on the disk, and a manifest once all of its objects are. So a
//! backup exists as a whole or not at all, wherever a process is killed, and an object that is there already is not
//! stored twice.

mod archive;
mod create;
mod manifest;
mod objects;
mod repository;
mod restore;
mod verify;

use std::{io, path::PathBuf};

pub use self::{
    archive::BackupArchive,
    create::{BackupContents, BackupProgress, BackupReport},
    manifest::{BackupId, BackupManifest, DatabaseVersion},
    repository::{BackupRepository, PruneReport, StagingFile, is_own_entry},
    restore::{RestoreLayout, RestoredDirectory},
    verify::VerifyReport,
};

/// Why a backup can't be made, read or restored. The backups made before are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("no space is left for the backup in `{}`; the backups made before are unchanged", .0.display())]
    Full(PathBuf),
    #[error("the backup directory `{}` has vanished, or is another one now; the backup was not completed", .0.display())]
    Vanished(PathBuf),
    #[error("the backup directory `{}` is in use by another `satchel backup`; try again when that has finished", .0.display())]
    Busy(PathBuf),
    #[error("there is no backup in `{}`", .0.display())]
    Empty(PathBuf),
    #[error("there is no backup {id} in `{}`; `satchel backup list` shows those that there are", path.display())]
    Unknown { id: String, path: PathBuf },
    #[error("the backup {id} is damaged: {reason}")]
    Damaged { id: BackupId, reason: String },
    #[error("the backup {id} was made by a newer Satchel; update Satchel")]
    Newer { id: BackupId },
    #[error("`{}` is not empty; name a directory that is empty or doesn't exist", .0.display())]
    NotEmpty(PathBuf),
    #[error("the archive could not be written to its end, and contains no backup")]
    Stream(#[source] io::Error),
    #[error("failed to {doing} `{}`", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl BackupError {
    /// The error of a read or a change at a path.
    fn at(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}

#[cfg(test)]
mod tests;
