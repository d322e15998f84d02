//! Backups that `satchel run` makes: `backup`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    leaf::{
        address::FilePath,
        amount::{ConfigDuration, Count},
    },
    resolver::Resolver,
    storage::{BlobBackend, DatabaseBackend, StorageConfig},
};

/// Backups that `satchel run` makes. Off unless `to` is set.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BackupConfig {
    /// The directory of backups, best on another disk. It must exist: that of a disk which is not mounted doesn't.
    pub to: Option<FilePath>,
    /// How long after a backup the next one is made.
    pub every: ConfigDuration,
    /// How many backups stay; the others are removed after each new one, with what only they need.
    pub keep: Count<1, 10_000>,
}

impl Default for BackupConfig {
    fn default() -> Self {
        Self { to: None, every: ConfigDuration(Duration::from_secs(24 * 60 * 60)), keep: Count(7) }
    }
}

impl BackupConfig {
    /// Checks that everything to be backed up is in directories.
    pub(super) fn resolve(&self, storage: &StorageConfig, resolver: &mut Resolver<'_>) {
        if self.to.is_none() {
            return;
        }
        if let Some(DatabaseBackend::Postgres(_)) = &storage.database_url {
            let message = "`backup.to` can't be used with a ledger in PostgreSQL, which Satchel doesn't copy: remove it, and \
                           back the database up with `pg_dump` or by its server";
            resolver.report("backup.to", message.to_owned());
        }
        if let Some(BlobBackend::S3(_)) = &storage.blobs_url {
            let message = "`backup.to` can't be used with files in a bucket, which Satchel doesn't copy: remove it, and use \
                           the versions or a replica of the bucket";
            resolver.report("backup.to", message.to_owned());
        }
    }
}
