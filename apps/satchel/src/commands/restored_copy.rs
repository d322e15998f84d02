//! A data directory that was restored from a backup: what it holds back, and its owner's decision.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use satchel_ledger_sqlite::{
    HeldBack, HeldChoice, ReleaseRequest, RestoredCopy, SqliteLedger, find_restored_copy, open_data_dirs,
};
use satchel_local::SystemClock;
use satchel_ports::{Clock, ledger::QueuedMessage};
use satchel_runtime::schedules::{MissedRun, list_missed, list_missed_reminders, skip_missed, skip_missed_reminders};
use serde_json::json;

use super::{
    UsageError, format_timestamp, message_text, one_line, summarize_content, summarize_message, write_json, write_table,
};
use crate::{
    cli::{MissedChoice, ReceivedChoice, ReleaseOptions, UnsettledChoice},
    config::Config,
    runtime::machine_zone,
    stores,
};

/// Checks that the data is no restored copy that still waits for its owner, and that its original doesn't run.
///
/// # Errors
/// When it must not run.
pub fn check_released(config: &Config) -> anyhow::Result<()> {
    let Some(directory) = stores::sqlite_dir(config) else { return Ok(()) };
    let Some(copy) = find_restored_copy(directory)? else { return Ok(()) };
    check_original_stopped(&copy, directory)?;
    if copy.released_at.is_none() {
        anyhow::bail!(
            "the data in {} was restored from a backup of {}, and waits for your decision: `satchel backup held` lists what \
             it holds back, `satchel backup release` decides about it",
            directory.display(),
            format_timestamp(copy.backup_at)
        );
    }
    Ok(())
}

/// Both would answer the same people. On another machine it can't be seen, but Telegram reports the second one.
fn check_original_stopped(copy: &RestoredCopy, directory: &Path) -> anyhow::Result<()> {
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let original = absolute(&copy.original);
    if original != absolute(directory) && open_data_dirs().contains(&original) {
        anyhow::bail!(
            "the Satchel that this data was copied from is running with the data in {}; stop it first, or both answer the \
             same people",
            original.display()
        );
    }
    Ok(())
}

/// The directory of a database that can be a restored copy.
fn restorable_dir(config: &Config) -> anyhow::Result<&Path> {
    stores::sqlite_dir(config).context("the ledger is in PostgreSQL, which is never restored from Satchel's backups")
}

/// Lists what the restored copy holds back.
///
/// # Errors
/// When the ledger fails or the output can't be written.
pub async fn list(config: &Config, json: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let ledger = stores::open_ledger(restorable_dir(config)?).await?;
    let held = ledger.held_back().await?;
    let missed = missed_runs(config, held.as_ref(), &ledger).await?;
    if json {
        return Ok(write_json(out, &to_json(held.as_ref(), &missed))?);
    }
    let Some(held) = held else {
        writeln!(out, "this data was not restored from a backup: nothing is held back")?;
        return Ok(());
    };
    print_held(&held, &missed, out)
}

/// Carries out the owner's decision.
///
/// # Errors
/// When something is held back about which nothing was decided, the original runs, or the ledger fails.
pub async fn release(options: &ReleaseOptions, config: &Config, out: &mut dyn Write) -> anyhow::Result<()> {
    let directory: PathBuf = restorable_dir(config)?.to_owned();
    let ledger = stores::open_ledger(&directory).await?;
    let held = ledger.held_back().await?;
    let missed = missed_runs(config, held.as_ref(), &ledger).await?;
    let Some(held) = held else {
        anyhow::bail!(
            "the data in {} was not restored from a backup: there is nothing to release",
            directory.display()
        );
    };
    check_original_stopped(&held.copy, &directory)?;
    let has_unsettled = !held.parts.is_empty() || !held.unanswered.is_empty();
    let undecided: Vec<&str> = [
        ("--unsettled send|drop", has_unsettled && options.unsettled.is_none()),
        ("--received answer|drop", !held.received.is_empty() && options.received.is_none()),
        ("--missed run|skip", !missed.is_empty() && options.missed.is_none()),
    ]
    .into_iter()
    .filter_map(|(option, is_undecided)| is_undecided.then_some(option))
    .collect();
    if !undecided.is_empty() {
        print_held(&held, &missed, out)?;
        return Err(UsageError(format!("decide about what is held back with {}", undecided.join(" and "))).into());
    }
    // Before the release, which makes the copy run.
    if held.copy.released_at.is_none() && options.missed != Some(MissedChoice::Run) {
        let now = SystemClock::new().wall();
        skip_missed(&*ledger, now).await?;
        skip_missed_reminders(&*ledger, &machine_zone().into(), now).await?;
    }
    let choose = |resumes: bool| if resumes { HeldChoice::Resume } else { HeldChoice::Drop };
    let request = ReleaseRequest {
        unsettled: choose(options.unsettled == Some(UnsettledChoice::Send)),
        received: choose(options.received == Some(ReceivedChoice::Answer)),
    };
    ledger.release_held(request).await?;
    writeln!(out, "released: `satchel run` can start with the data in {}", directory.display())?;
    Ok(())
}

/// The schedules and reminders that fell due since the backup; once the copy is released, they run as always.
async fn missed_runs(
    config: &Config,
    held: Option<&HeldBack>,
    ledger: &SqliteLedger,
) -> anyhow::Result<Vec<MissedRun>> {
    match held {
        Some(held) if held.copy.released_at.is_none() => {
            let now = SystemClock::new().wall();
            let mut missed = list_missed(&config.schedules, ledger, now).await?;
            missed.extend(list_missed_reminders(ledger, &machine_zone().into(), now).await?);
            Ok(missed)
        }
        _ => Ok(Vec::new()),
    }
}

fn to_json(held: Option<&HeldBack>, missed: &[MissedRun]) -> serde_json::Value {
    let messages = |messages: &[QueuedMessage]| -> Vec<serde_json::Value> {
        let message = |queued: &QueuedMessage| {
            let message = &queued.message;
            json!({
                "conversation": message.conversation, "sender": message.sender.name, "sent_at": message.sent_at,
                "received_at": queued.received_at, "text": message_text(message), "files": message.files.len(),
            })
        };
        messages.iter().map(message).collect()
    };
    let missed: Vec<_> = missed
        .iter()
        .map(|missed| json!({ "schedule": missed.schedule, "runs": missed.runs, "latest": missed.latest }))
        .collect();
    json!({
        "backup_at": held.map(|held| held.copy.backup_at),
        "released_at": held.and_then(|held| held.copy.released_at),
        "unsent": held.map_or(&[][..], |held| &held.parts),
        "unanswered": messages(held.map_or(&[], |held| &held.unanswered)),
        "received": messages(held.map_or(&[], |held| &held.received)),
        "missed": missed,
    })
}

fn print_held(held: &HeldBack, missed: &[MissedRun], out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "restored from a backup of {}", format_timestamp(held.copy.backup_at))?;
    let messages = |messages: &[QueuedMessage]| messages.iter().map(message_row).collect::<Vec<_>>();
    let parts = held.parts.iter().map(|part| {
        let content = part.content().map_or_else(|| "a deletion".to_owned(), summarize_content);
        vec![part.conversation.to_string(), format_timestamp(part.created_at), content]
    });
    let missed = missed.iter().map(|missed| vec![missed.schedule.clone(), missed.latest.clone()]);
    let lists = [
        ("replies that were not sent when the backup was made (--unsettled send|drop)", parts.collect()),
        (
            "messages that were not answered when the backup was made (--unsettled send|drop)",
            messages(&held.unanswered),
        ),
        ("messages that came in since, sent before the release (--received answer|drop)", messages(&held.received)),
        ("schedules and reminders that fell due since the backup (--missed run|skip)", missed.collect()),
    ];
    for (subject, rows) in lists {
        writeln!(out, "\n{subject}: {}", rows.len())?;
        write_table(out, &rows)?;
    }
    if held.copy.released_at.is_none() {
        writeln!(
            out,
            "\nDiscord's history brings back what people wrote since; such messages are held back and listed here, too"
        )?;
    }
    Ok(())
}

fn message_row(queued: &QueuedMessage) -> Vec<String> {
    let message = &queued.message;
    vec![
        message.conversation.to_string(),
        format_timestamp(message.sent_at.unwrap_or(queued.received_at)),
        one_line(&message.sender.name, 30),
        summarize_message(message),
    ]
}
