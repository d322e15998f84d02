//! `satchel migrate`: moves the ledger and the files to the storage of another configuration.
//!
//! Files come first, since the ledger names them; a file that is there already is compared and not copied again. The ledger
//! follows in one transaction, so a run that is cut off has copied all of it or nothing, and the next one goes on.

mod files;
mod ledger;
mod progress;

use std::io::Write;

use satchel_domain::size::format_bytes;

use self::{files::FileReport, progress::Progress};
use super::UsageError;
use crate::{
    cli::MigrateOptions,
    config::Config,
    server_wait::ServerWait,
    stores::{self, StorageLocation},
};

/// How many of the lost files are listed.
const MAX_LISTED: usize = 10;

/// Moves what is kept elsewhere in the target's configuration.
///
/// # Errors
/// When a store can't be used, files are lost, or the target has another ledger; the source is unchanged then.
pub async fn run(
    options: &MigrateOptions,
    source: &Config,
    target: &Config,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (ledgers, blobs) =
        ([source, target].map(stores::ledger_location), [source, target].map(stores::blobs_location));
    let (moves_ledger, moves_files) = (ledgers[0] != ledgers[1], blobs[0] != blobs[1]);
    if !moves_ledger && !moves_files {
        let file = options.to.display();
        return Err(UsageError(format!(
            "{file} keeps the ledger and the files where they are: set `storage.database_url` or `storage.blobs_url` there"
        ))
        .into());
    }
    let mut from = match ledger::open_source(source).await {
        Ok(from) => from,
        Err(refusal) => {
            if !(moves_ledger && ledger::finish(&refusal, target, &ledgers).await?) {
                return Err(refusal);
            }
            writeln!(
                out,
                "ledger: it was copied to {} by the command that was cut off, and starts there now",
                ledgers[1]
            )?;
            return print_next(options, source, target, out);
        }
    };
    if moves_ledger {
        ledger::check_source(&mut *from, &ledgers[0]).await?;
    }
    let mut to = match moves_ledger {
        true => Some(ledger::open_target(target, &mut *from, &ledgers[0]).await?),
        false => None,
    };
    if moves_files {
        let named = from.list_blobs().await?;
        let (source_blobs, target_blobs) = (
            stores::open_blobs(source, ServerWait::Never).await?,
            stores::open_blobs(target, ServerWait::Never).await?,
        );
        let bytes = named.iter().map(|blob| blob.bytes).sum();
        let progress = Progress::start("files", named.len() as u64, bytes);
        let report = files::copy(&named, &*source_blobs, &*target_blobs, &progress).await;
        progress.finish().await;
        print_files(&report?, &blobs, options.skip_lost, out)?;
    }
    if let Some(to) = to.take() {
        let rows = ledger::copy(from, to, &ledgers).await?;
        writeln!(out, "ledger: {rows} rows, read back and equal; it is in {} now", ledgers[1])?;
        writeln!(out, "nothing starts on the one in {} any more; it stays as it is until you remove it", ledgers[0])?;
    } else {
        writeln!(
            out,
            "don't start the old configuration again: it would look for files, and store them, in {}",
            blobs[0]
        )?;
    }
    print_next(options, source, target, out)
}

fn print_files(
    report: &FileReport,
    locations: &[StorageLocation; 2],
    skip_lost: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let FileReport { copied, present, bytes, lost } = report;
    let bytes = format_bytes(*bytes);
    writeln!(
        out,
        "files: {copied} copied to {}, {present} were there; {bytes}, all read back and equal",
        locations[1]
    )?;
    if lost.is_empty() {
        return Ok(());
    }
    for (sha256, reason) in lost.iter().take(MAX_LISTED) {
        super::print_error(&format!("warning: {sha256}: {reason}"));
    }
    if skip_lost {
        super::print_error(&format!("warning: {} files are not copied; they were lost before", lost.len()));
        return Ok(());
    }
    anyhow::bail!(
        "{} files that the ledger names are missing or damaged in {}; restore them from a backup, or go on without them by \
         `--skip-lost`. Nothing was moved, and what was copied is not copied again",
        lost.len(),
        locations[0]
    )
}

/// What is left to do.
fn print_next(options: &MigrateOptions, source: &Config, target: &Config, out: &mut dyn Write) -> anyhow::Result<()> {
    let (old, new) = (source.storage.data_dir(), target.storage.data_dir());
    if old != new {
        writeln!(
            out,
            "workspaces, and the key and the token of the page, are in {} as before: copy `workspaces`, `web-key` and \
             `web-token` to {}",
            old.display(),
            new.display()
        )?;
    }
    writeln!(out, "start with: satchel run --config {}", options.to.display())?;
    Ok(())
}
