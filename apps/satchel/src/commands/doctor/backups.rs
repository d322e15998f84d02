//! Checks the age of the newest backup, and whether this data is a restored copy.

use satchel_domain::Timestamp;
use satchel_files::backup::{BackupError, BackupRepository};
use satchel_ledger_sqlite::find_restored_copy;

use super::Finding;
use crate::{commands::format_timestamp, config::Config, stores};

const CHECK: &str = "backup";

/// Checks the backups that the configuration wants.
pub(super) fn check_backups(config: &Config, now: Timestamp) -> Vec<Finding> {
    let backups = config.backup.to.as_ref().map(|directory| check_newest(&directory.0, config, now));
    check_restored_copy(config).into_iter().chain(backups).collect()
}

fn check_newest(directory: &std::path::Path, config: &Config, now: Timestamp) -> Finding {
    let display = directory.display();
    match BackupRepository::open(directory).and_then(|repository| repository.newest(now)) {
        Ok((id, manifest)) => {
            let found = format!("the newest backup in {display} is {id} of {}", format_timestamp(manifest.taken_at));
            // One may be late because it takes long, or because Satchel was stopped.
            match now.saturating_duration_since(manifest.taken_at) > config.backup.every.0 * 2 {
                true => {
                    Finding::warning(CHECK, found, "see the log of `satchel run`, which makes backups while it runs")
                }
                false => Finding::ok(CHECK, found),
            }
        }
        Err(BackupError::Busy(_)) => Finding::ok(CHECK, format!("a backup is being made in {display}")),
        Err(BackupError::Empty(_)) => {
            Finding::warning(CHECK, format!("there is no backup in {display}"), "start `satchel run`, which makes one")
        }
        Err(error) => {
            let advice = "create the directory of `backup.to`, or mount its disk";
            Finding::problem(CHECK, format!("no backup can be made in {display}: {error}"), advice)
        }
    }
}

/// Reports what waits for the owner of a restored copy.
fn check_restored_copy(config: &Config) -> Option<Finding> {
    let copy = find_restored_copy(stores::sqlite_dir(config)?).ok()??;
    let found = format!("this data was restored from a backup of {}", format_timestamp(copy.backup_at));
    let advice = "`satchel backup held` lists what it holds back, `satchel backup release` decides about it";
    Some(match copy.released_at {
        None => Finding::problem(CHECK, format!("{found}, and does not start before you have decided"), advice),
        Some(released_at) => {
            let found = format!("{found}; what people sent before {} is held back", format_timestamp(released_at));
            Finding { advice: Some(advice.to_owned()), ..Finding::ok(CHECK, found) }
        }
    })
}
