//! Backups that `satchel run` makes: `backup`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{
    address::FilePath,
    amount::{ConfigDuration, Count},
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
