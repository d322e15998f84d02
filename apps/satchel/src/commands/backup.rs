//! `satchel backup …`: makes, lists, checks and restores backups.

use std::{
    fs::File,
    io::{IsTerminal, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use satchel_domain::size::format_bytes;
use satchel_files::backup::{BackupManifest, BackupProgress, BackupReport, BackupRepository, PruneReport};
use satchel_local::SystemClock;
use satchel_ports::Clock;
use serde::Serialize;

use super::{UsageError, format_timestamp, print_error, write_json, write_table};
use crate::{
    backups::{BackupSource, RESTORE_LAYOUT, run_at_low_priority},
    cli::{BackupCreateOptions, BackupRestoreOptions},
    config::Config,
    stores,
};

/// How often a terminal shows how far a backup is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// How many of the paths and hashes that a backup lacks are listed.
const MAX_LISTED: usize = 10;

/// Makes a backup, also while other processes work with the data.
///
/// # Errors
/// When the data can't be read or the backup can't be written; the backups made before are unchanged.
pub async fn create(
    options: &BackupCreateOptions,
    config: &Config,
    cwd: &Path,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let source = BackupSource::new(config, options.with_secrets)?;
    if options.target == Path::new("-") {
        return match options.keep {
            None => create_archive(source).await,
            Some(_) => {
                Err(UsageError("`--keep` removes backups from a directory; an archive has none".to_owned()).into())
            }
        };
    }
    let target = cwd.join(&options.target);
    source.check_target(&target)?;
    let keep = options.keep.map(|keep| keep as usize);
    let directory = target.clone();
    let (report, pruned) = run_with_progress("written", move |written| {
        let mut repository = BackupRepository::create(&directory)?;
        let report = source.back_up(&mut repository, written)?;
        let pruned = keep.map(|keep| repository.prune(keep, &report.id)).transpose();
        Ok((report, pruned.context("the backup is complete, but old ones could not be removed")?))
    })
    .await?;
    let BackupReport { id, bytes, written, files, .. } = &report;
    let (bytes, written) = (format_bytes(*bytes), format_bytes(*written));
    writeln!(out, "backup {id} in {}: {files} files, {bytes}; {written} of it new", target.display())?;
    if let Some(PruneReport { backups, bytes }) = pruned.filter(|pruned| *pruned != PruneReport::default()) {
        writeln!(out, "removed old backups: {backups}; freed {}", format_bytes(bytes))?;
    }
    print_gaps(&report);
    Ok(())
}

/// Writes a backup to standard output; what there is to say about it goes to standard error.
async fn create_archive(source: BackupSource) -> anyhow::Result<()> {
    let stdout = std::io::stdout();
    if stdout.is_terminal() {
        let error = "a backup is not written to a terminal; send it to a file or a program, or name a directory";
        return Err(UsageError(error.to_owned()).into());
    }
    // Not line by line, as standard output is written otherwise.
    let out = File::from(stdout.as_fd().try_clone_to_owned().context("standard output can't be used")?);
    let report = run_with_progress("written", move |written| source.write_archive(out, written)).await?;
    let BackupReport { id, bytes, files, .. } = &report;
    print_error(&format!("backup {id}: {files} files, {}", format_bytes(*bytes)));
    print_gaps(&report);
    Ok(())
}

/// Warns of what a backup does not contain.
fn print_gaps(BackupReport { missing, skipped, .. }: &BackupReport) {
    let list = |subject: &str, items: Vec<String>| {
        if !items.is_empty() {
            print_error(&format!("warning: {subject}: {}", items.len()));
            items.iter().take(MAX_LISTED).for_each(|item| print_error(&format!("  {item}")));
        }
    };
    list(
        "files that are missing or damaged in the file store, and so are not in the backup (by SHA-256)",
        missing.iter().map(ToString::to_string).collect(),
    );
    list(
        "entries of workspaces that are no files or changed all the time, and are not in the backup",
        skipped.iter().map(|path| super::one_line(&path.to_string_lossy(), 200)).collect(),
    );
}

#[derive(Serialize)]
struct BackupRow {
    id: String,
    taken_at: satchel_domain::Timestamp,
    files: usize,
    bytes: u64,
    missing_files: usize,
    with_secrets: bool,
}

/// Lists the backups of a directory, oldest first.
///
/// # Errors
/// When the directory has no backups, or one of them can't be read.
pub fn list(directory: &Path, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let repository = BackupRepository::open(directory)?;
    let mut rows = Vec::new();
    for id in repository.list()? {
        match repository.manifest(&id) {
            Ok(manifest) => rows.push(BackupRow {
                id: id.to_string(),
                taken_at: manifest.taken_at,
                files: manifest.file_count(),
                bytes: manifest.bytes(),
                missing_files: manifest.missing.len(),
                with_secrets: manifest.with_secrets,
            }),
            Err(error) => print_error(&format!("warning: {error}")),
        }
    }
    if json {
        return Ok(write_json(out, &rows)?);
    }
    if rows.is_empty() {
        writeln!(out, "there is no backup in {}", directory.display())?;
    }
    let cells = |row: &BackupRow| {
        let missing = match row.missing_files {
            0 => String::new(),
            missing => format!("{missing} files missing"),
        };
        let secrets = if row.with_secrets { "with secrets" } else { "" };
        let (files, bytes) = (format!("{} files", row.files), format_bytes(row.bytes));
        vec![row.id.clone(), format_timestamp(row.taken_at), files, bytes, secrets.to_owned(), missing]
    };
    Ok(write_table(out, &rows.iter().map(cells).collect::<Vec<_>>())?)
}

/// Reads all backups of a directory and compares them with their hashes.
///
/// # Errors
/// When a backup is damaged, or the directory can't be read.
pub async fn verify(directory: PathBuf, out: &mut dyn Write) -> anyhow::Result<()> {
    let target = directory.clone();
    let verified = tokio::task::spawn_blocking(move || {
        let repository = BackupRepository::open(&directory)?;
        let report = repository.verify()?;
        // Says that there are none.
        if report.good.is_empty() && report.damaged.is_empty() {
            repository.newest(SystemClock::new().wall())?;
        }
        anyhow::Ok(report)
    });
    let report = verified.await.context("the check was interrupted")??;
    for id in &report.good {
        writeln!(out, "good     {id}")?;
    }
    for (id, reason) in &report.damaged {
        writeln!(out, "DAMAGED  {id}: {reason}")?;
    }
    writeln!(out, "read {} objects, {}", report.objects, format_bytes(report.bytes))?;
    if !report.damaged.is_empty() {
        anyhow::bail!(
            "{} of the backups in {} are damaged; `satchel backup create` stores what is lost again if the data still has \
             it, and backups are best kept on two disks",
            report.damaged.len(),
            target.display()
        );
    }
    Ok(())
}

/// Restores a backup into a new data directory.
///
/// # Errors
/// When the target is in use, or the backup is damaged; then nothing is restored.
pub async fn restore(options: &BackupRestoreOptions, cwd: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let (directory, target) = (cwd.join(&options.directory), cwd.join(&options.to));
    let wanted = options.backup.clone();
    let data_dir = target.clone();
    let (id, manifest, restored): (_, BackupManifest, _) = run_with_progress("restored", move |written| {
        let repository = BackupRepository::open(&directory)?;
        let (id, manifest) = match wanted {
            Some(id) => (id.clone(), repository.manifest(&id)?),
            None => repository.newest(SystemClock::new().wall())?,
        };
        let restored = repository.restore((&id, &manifest), &data_dir, RESTORE_LAYOUT, written)?;
        Ok((id, manifest, restored))
    })
    .await?;
    // Before it has its name: no copy ever runs that does not hold back what was unsettled.
    let ledger = stores::open_ledger(restored.path()).await?;
    ledger.hold_back(manifest.taken_at, manifest.data_dir.clone()).await?;
    drop(ledger);
    restored.publish()?;
    let (files, bytes) = (manifest.file_count(), format_bytes(manifest.bytes()));
    let taken_at = format_timestamp(manifest.taken_at);
    writeln!(out, "restored {id} of {taken_at} to {}: {files} files, {bytes}", target.display())?;
    let data = super::one_line(&target.to_string_lossy(), 200);
    writeln!(
        out,
        "it starts once you have decided about what it holds back: see `satchel backup held --set storage.data_dir={data}`"
    )?;
    if !manifest.missing.is_empty() {
        print_error(&format!("warning: files that the backup does not contain: {}", manifest.missing.len()));
    }
    Ok(())
}

/// Runs blocking work, and shows on a terminal how many bytes it has `done`.
async fn run_with_progress<T: Send + 'static>(
    done: &str,
    work: impl FnOnce(&BackupProgress) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let counter = Arc::new(BackupProgress::default());
    let working = Arc::clone(&counter);
    let mut work = pin!(run_at_low_priority(move || work(&working)));
    let mut stderr = std::io::stderr();
    let shows_progress = stderr.is_terminal();
    let mut interval = tokio::time::interval(PROGRESS_INTERVAL);
    let result = loop {
        tokio::select! {
            result = &mut work => break result,
            _ = interval.tick() => if shows_progress && counter.bytes() > 0 {
                let _ = write!(stderr, "\r{} {done}\u{1b}[K", format_bytes(counter.bytes()));
            },
        }
    };
    if shows_progress {
        let _ = write!(stderr, "\r\u{1b}[K");
    }
    result?
}
