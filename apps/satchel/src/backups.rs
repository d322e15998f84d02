//! Takes a backup of the stores of a configuration, beside processes that work with them.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::Context;
use satchel_domain::{Timestamp, size::format_bytes};
use satchel_files::{
    DirectoryBlobs,
    backup::{
        BackupArchive, BackupContents, BackupError, BackupProgress, BackupReport, BackupRepository, RestoreLayout,
        StagingFile,
    },
    blobs::CollectionPause,
};
use satchel_ledger_sqlite::{DATABASE, copy_database};
use satchel_local::SystemClock;
use satchel_ports::Clock;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    config::Config,
    ports::{BLOBS_DIR, WORKSPACES_DIR},
    stores,
};

/// How soon a backup that failed is tried again, and how often the clock is read: it may be set.
const RETRY_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How far the priority of the threads of a backup is lowered: people who talk come first.
const NICENESS: i32 = 5;

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
        let database_dir = stores::sqlite_dir(config).context(
            "the ledger is in PostgreSQL, which Satchel's backups don't copy: back it up with `pg_dump` or by its server",
        )?;
        let blobs_dir = stores::blobs_dir(config).context(
            "a backup needs the bytes of files in a directory, and `storage.blobs_url` keeps them in a bucket: back up \
             the bucket by its own means, such as versions or a replica, and the data directory while Satchel is stopped",
        )?;
        Ok(Self {
            data_dir: config.storage.data_dir().to_owned(),
            database_dir: database_dir.to_owned(),
            blobs_dir,
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

    /// Takes a backup into a directory of backups, and returns once it is complete. It blocks.
    ///
    /// # Errors
    /// When the data can't be read or the backup can't be written; the backups made before are unchanged.
    pub(crate) fn back_up(
        &self,
        repository: &mut BackupRepository,
        written: &BackupProgress,
    ) -> anyhow::Result<BackupReport> {
        let staging = repository.create_staging_file()?;
        self.copy(&staging, |contents| repository.add(contents, written))
    }

    /// Writes a backup to a stream as an archive, and returns once that has all of it. It blocks.
    ///
    /// # Errors
    /// When the data can't be read or the stream is closed.
    pub(crate) fn write_archive(&self, out: impl Write, written: &BackupProgress) -> anyhow::Result<BackupReport> {
        let archive = BackupArchive::new(out, &self.data_dir)?;
        let staging = archive.create_staging_file()?;
        self.copy(&staging, |contents| archive.write(contents, written))
    }

    /// Copies the database, and stores what it is and names.
    fn copy(
        &self,
        staging: &StagingFile,
        store: impl FnOnce(&BackupContents<'_>) -> Result<BackupReport, BackupError>,
    ) -> anyhow::Result<BackupReport> {
        // From before the copy: what it names stays until it is stored.
        let _pause = self.pause_collection()?;
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
        Ok(store(&contents)?)
    }

    fn pause_collection(&self) -> anyhow::Result<Option<CollectionPause>> {
        // It is created with the first process that runs on the data.
        match self.blobs_dir.exists() {
            true => Ok(Some(DirectoryBlobs::pause_collection(&self.blobs_dir)?)),
            false => Ok(None),
        }
    }
}

/// Runs blocking work on a thread of its own, whose priority, and that of the threads that it starts, is lowered. Work that
/// nobody waits for any more goes on.
///
/// # Errors
/// When no thread can be started, or the work panics.
pub(crate) async fn run_at_low_priority<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (sender, receiver) = oneshot::channel();
    let started = thread::Builder::new().name("backup".to_owned()).spawn(move || {
        // Elsewhere it is the priority of the whole process.
        if cfg!(target_os = "linux") {
            // Where the system doesn't allow it, the work is done with the usual priority.
            let _ = rustix::process::nice(NICENESS);
        }
        // The caller may wait no longer.
        let _ = sender.send(work());
    });
    started.context("failed to start a thread")?;
    receiver.await.context("the work was interrupted")
}

/// Makes backups while Satchel runs.
pub(crate) struct BackupTask {
    source: BackupSource,
    directory: PathBuf,
    /// How long after a backup the next one is made.
    interval: Duration,
    /// How many backups stay.
    keep: usize,
    clock: Arc<dyn Clock>,
}

impl BackupTask {
    /// The backups that the configuration wants; `None` if it wants none.
    ///
    /// # Errors
    /// When the backups would be part of the data.
    pub(crate) fn new(config: &Config, clock: Arc<dyn Clock>) -> anyhow::Result<Option<Self>> {
        let Some(directory) = &config.backup.to else { return Ok(None) };
        let source = BackupSource::new(config, false)?;
        source.check_target(&directory.0)?;
        let (interval, keep) = (config.backup.every.0, config.backup.keep.as_usize());
        Ok(Some(Self { source, directory: directory.0.clone(), interval, keep, clock }))
    }

    /// Makes a backup whenever one is due, until `stop` is cancelled. One that is cut short does not count.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let task = Arc::new(self);
        loop {
            let due = Arc::clone(&task);
            let made = run_at_low_priority(move || due.back_up_if_due());
            let Some(made) = stop.run_until_cancelled(made).await else { return };
            let delay = made.flatten().unwrap_or_else(|error| {
                tracing::warn!(
                    directory = %task.directory.display(),
                    error = format!("{error:#}"),
                    "making a backup failed; the backups made before are unchanged, retrying later"
                );
                RETRY_INTERVAL.min(task.interval)
            });
            if stop.run_until_cancelled(tokio::time::sleep(delay)).await.is_none() {
                return;
            }
        }
    }

    /// Makes a backup if the newest one is old enough, and returns when to look again.
    fn back_up_if_due(&self) -> anyhow::Result<Duration> {
        let mut repository = BackupRepository::open_for_writing(&self.directory)?;
        let now = self.clock.wall();
        let newest = repository.newest(now).ok().map(|(_, manifest)| manifest.taken_at);
        let wait = newest.map_or(Duration::ZERO, |newest| time_to_next(newest, now, self.interval));
        if !wait.is_zero() {
            return Ok(wait.min(RETRY_INTERVAL));
        }
        let report = self.source.back_up(&mut repository, &BackupProgress::default())?;
        let BackupReport { id, bytes, written, missing, skipped, .. } = report;
        tracing::info!(
            directory = %self.directory.display(),
            bytes,
            written,
            "made the backup {id}: {}, {} of it new",
            format_bytes(bytes),
            format_bytes(written)
        );
        if !missing.is_empty() || !skipped.is_empty() {
            tracing::warn!(
                missing = missing.len(),
                skipped = skipped.len(),
                first = skipped.first().map(|path| path.display().to_string()),
                "the backup is without some files: missing or damaged in the file store, unreadable, or changed all the \
                 time; `satchel backup create` names them"
            );
        }
        match repository.prune(self.keep, &id) {
            Ok(pruned) if pruned.backups > 0 => {
                tracing::info!(removed = pruned.backups, freed = pruned.bytes, "removed old backups");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "old backups could not be removed; `satchel backup verify` names one that is damaged"
            ),
        }
        Ok(self.interval.min(RETRY_INTERVAL))
    }
}

/// How long after `now` the next backup is due. One from the future tells nothing: the clock was wrong.
pub(crate) fn time_to_next(newest: Timestamp, now: Timestamp, interval: Duration) -> Duration {
    match newest > now {
        true => Duration::ZERO,
        false => newest.saturating_add(interval).saturating_duration_since(now),
    }
}

fn time_in_id(taken_at: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(taken_at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y%m%dT%H%M%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_backup_is_due_an_interval_after_the_newest() {
        let hour = Duration::from_secs(60 * 60);
        for (newest, now, expected) in
            [(0, 0, 3_600), (0, 3_599_000, 1), (0, 3_600_000, 0), (0, 9_000_000, 0), (5, 4, 0)]
        {
            let wait = time_to_next(Timestamp(newest), Timestamp(now), hour);
            assert_eq!(wait, Duration::from_secs(expected), "{newest} {now}");
        }
    }
}
