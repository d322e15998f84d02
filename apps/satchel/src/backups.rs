//! Takes a backup of the stores of a configuration, beside processes that work with them.

use std::path::{Path, PathBuf};

use anyhow::Context;
use satchel_files::{
    DirectoryBlobs,
    backup::{BackupContents, BackupProgress, BackupReport, BackupRepository, RestoreLayout},
    blobs::CollectionPause,
};
use satchel_ledger_sqlite::{DATABASE, copy_database};
use satchel_local::SystemClock;
use satchel_ports::Clock;

use crate::{
    config::Config,
    ports::{BLOBS_DIR, WORKSPACES_DIR},
    stores,
};

/// The files of the data directory that only a backup with secrets contains: the key and the token of the page.
const SECRET_FILES: [&str; 2] = ["web-key", "web-token"];

/// Where a data directory has what a backup restores.
pub(crate) const RESTORE_LAYOUT: RestoreLayout<'_> = RestoreLayout { database: DATABASE, blobs: BLOBS_DIR };

/// The directories of the data that backups are made of.
#[derive(Debug, Clone)]
pub(crate) struct BackupSource {
    data_dir: PathBuf,
    database_dir: PathBuf,
    blobs_dir: PathBuf,
    /// Whether vaults, tokens and keys are included.
    with_secrets: bool,
}

impl BackupSource {
    /// The data of a configuration.
    ///
    /// # Errors
    /// When it is in no directories.
    pub(crate) fn new(config: &Config, with_secrets: bool) -> anyhow::Result<Self> {
        Ok(Self {
            data_dir: config.storage.data_dir().to_owned(),
            database_dir: stores::database_dir(config)?.to_owned(),
            blobs_dir: stores::blobs_dir(config)?,
            with_secrets,
        })
    }

    /// Checks that backups in a directory are not part of the data, nor the other way round.
    ///
    /// # Errors
    /// When they are.
    pub(crate) fn check_target(&self, target: &Path) -> anyhow::Result<()> {
        let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let parent = target.parent().map(absolute).unwrap_or_default();
        let target = target.canonicalize().unwrap_or_else(|_| parent.join(target.file_name().unwrap_or_default()));
        for data in [&self.data_dir, &self.database_dir, &self.blobs_dir].map(|data| absolute(data)) {
            if target.starts_with(&data) || data.starts_with(&target) {
                anyhow::bail!(
                    "the backup directory {} and the data in {} are within each other; choose a directory outside, best on \
                     another disk",
                    target.display(),
                    data.display()
                );
            }
        }
        Ok(())
    }

    /// Takes a backup, and returns once it is complete. It blocks.
    ///
    /// # Errors
    /// When the data can't be read or the backup can't be written; the backups made before are unchanged.
    pub(crate) fn back_up(
        &self,
        repository: &mut BackupRepository,
        written: &BackupProgress,
    ) -> anyhow::Result<BackupReport> {
        // From before the copy: what it names stays until it is stored.
        let _pause = self.pause_collection()?;
        let staging = repository.create_staging_file()?;
        let taken_at = SystemClock::new().wall();
        let copy = copy_database(&self.database_dir, staging.path()).context("failed to copy the database")?;
        let contents = BackupContents {
            taken_at,
            time: &time_in_id(taken_at),
            data_dir: &self.data_dir,
            database: staging.path(),
            database_version: copy.version,
            blobs_dir: &self.blobs_dir,
            blobs: &copy.blobs,
            workspaces: WORKSPACES_DIR,
            secrets: self.with_secrets.then_some(&SECRET_FILES),
        };
        Ok(repository.add(&contents, written)?)
    }

    fn pause_collection(&self) -> anyhow::Result<Option<CollectionPause>> {
        // It is created with the first process that runs on the data.
        match self.blobs_dir.exists() {
            true => Ok(Some(DirectoryBlobs::pause_collection(&self.blobs_dir)?)),
            false => Ok(None),
        }
    }
}

fn time_in_id(taken_at: satchel_domain::Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(taken_at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y%m%dT%H%M%S%.3fZ").to_string()
}
