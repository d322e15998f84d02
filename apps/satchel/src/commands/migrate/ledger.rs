//! Moves the ledger: all rows in one transaction of the new database, compared by hash before it is committed. At most one
//! of the two starts at any time, so nothing is answered twice; see [`satchel_ledger::transfer`].

use anyhow::Context;
use satchel_ledger::transfer::{ExclusiveLedger, LedgerDigest, Row, TransferError, copy_rows, digest, is_empty};
use satchel_ports::ledger::LedgerError;

use super::progress::Progress;
use crate::{
    config::Config,
    stores::{self, StorageLocation},
};

/// The new ledger, and whether a run that was cut off has filled it.
pub(super) struct TargetLedger {
    ledger: Box<dyn ExclusiveLedger>,
    is_complete: bool,
}

/// Opens the ledger that is to be moved.
///
/// # Errors
/// When it can't be used, or is itself the copy of a move that is not finished.
pub(super) async fn open_source(source: &Config) -> anyhow::Result<Box<dyn ExclusiveLedger>> {
    let mut ledger = stores::open_exclusive(source).await?;
    if let Some(origin) = ledger.find_origin().await? {
        let location = stores::ledger_location(source);
        anyhow::bail!("the ledger in {location} is a copy of the one in {origin}: finish that move first");
    }
    Ok(ledger)
}

/// Checks that a ledger can be moved: it has rows, and nothing of a restored copy waits for its owner.
///
/// # Errors
/// When it can't.
pub(super) async fn check_source(source: &mut dyn ExclusiveLedger, location: &StorageLocation) -> anyhow::Result<()> {
    if is_empty(source).await? {
        anyhow::bail!("the ledger in {location} is empty: there is nothing to move; check that it is the right one");
    }
    for name in ["held_turns", "held_parts"] {
        let table = source.table(name).await?;
        if !source.read(&table, None).await?.is_empty() {
            anyhow::bail!(
                "the ledger in {location} is a restored copy that holds something back: see `satchel backup held`, and \
                 decide with `satchel backup release` before it moves"
            );
        }
    }
    Ok(())
}

/// Opens the ledger that is to be filled. One that was moved to the source before makes room, in the transaction in which
/// it comes back. So does the copy of a move that was cut off before the source was marked, if the source has gone on since:
/// no process has ever started on that copy, so everything that it has is still in the source.
///
/// # Errors
/// When it can't be used, or holds another ledger than the source.
pub(super) async fn open_target(
    target: &Config,
    source: &mut dyn ExclusiveLedger,
    origin: &StorageLocation,
) -> anyhow::Result<TargetLedger> {
    let opened = stores::open_exclusive_for_return(target, origin).await;
    let mut ledger = opened.context("the new ledger can't be used")?;
    let was_moved = ledger.find_new_location().await?.is_some();
    let has_rows = !is_empty(&mut *ledger).await?;
    let is_complete = !was_moved && has_rows && digest(source, &|_| ()).await? == digest(&mut *ledger, &|_| ()).await?;
    if was_moved {
        require_later(source, &mut *ledger, &format!("the ledger in {origin} isn't the one that was moved there"))
            .await?;
        ledger.clear().await?;
    } else if has_rows && !is_complete {
        let location = stores::ledger_location(target);
        require_copy(ledger.find_origin().await?, &location, origin)?;
        let refusal = format!("the ledger in {origin} isn't the one that was copied to {location}");
        require_later(source, &mut *ledger, &refusal).await?;
        ledger.clear().await?;
    }
    Ok(TargetLedger { ledger, is_complete })
}

/// Checks that a ledger in this location is a copy of the one at `origin` that is not activated yet. `copied_from` is what its
/// mark says.
fn require_copy(
    copied_from: Option<String>,
    location: &StorageLocation,
    origin: &StorageLocation,
) -> anyhow::Result<()> {
    let found = match copied_from {
        Some(copied_from) if copied_from == origin.to_string() => return Ok(()),
        Some(copied_from) => format!("the copy of a move that was cut off, of the ledger in {copied_from}"),
        None => "another ledger already".to_owned(),
    };
    anyhow::bail!("{location} holds {found}; choose an empty database, or another schema or directory")
}

/// Checks that a ledger is a later state of another one: it has every turn of it, and its numbers continue those. Otherwise
/// `refusal` says what it isn't.
async fn require_later(
    source: &mut dyn ExclusiveLedger,
    earlier: &mut dyn ExclusiveLedger,
    refusal: &str,
) -> anyhow::Result<()> {
    let (now, before) = (source.counters().await?, earlier.counters().await?);
    let is_behind = |(table, last): (&String, &i64)| now.get(table).is_some_and(|now| now < last);
    if before.iter().any(is_behind) || !has_turns_of(source, earlier).await? {
        anyhow::bail!("{refusal}: it lacks what that had; choose an empty database, or another schema or directory");
    }
    Ok(())
}

/// Whether a ledger begins with the turns of an earlier one, of which there is one at least: no turn is ever removed, and
/// later ones have higher numbers.
async fn has_turns_of(
    source: &mut dyn ExclusiveLedger,
    earlier: &mut dyn ExclusiveLedger,
) -> Result<bool, LedgerError> {
    let table = earlier.table("turns").await?;
    if source.table("turns").await? != table {
        return Ok(false);
    }
    let is_kept: Vec<bool> = table.columns.iter().map(|column| ["id", "sequence"].contains(&column.as_str())).collect();
    let names = |row: &Row| -> Row {
        row.iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept).map(|(value, _)| value.clone()).collect()
    };
    let mut last = None;
    loop {
        let before = earlier.read(&table, last.as_ref()).await?;
        let now = source.read(&table, last.as_ref()).await?;
        if now.len() < before.len() || before.iter().zip(&now).any(|(before, now)| names(before) != names(now)) {
            return Ok(false);
        }
        match before.into_iter().next_back() {
            Some(row) => last = Some(row),
            None => return Ok(last.is_some()),
        }
    }
}

/// Finishes a move that was cut off behind the mark on the old ledger, which can't be opened since; whether it was that.
///
/// # Errors
/// When the new ledger can't be used.
pub(super) async fn finish(
    refusal: &anyhow::Error,
    target: &Config,
    [old, new]: &[StorageLocation; 2],
) -> anyhow::Result<bool> {
    if stores::find_new_location(refusal).is_none_or(|location| location != new.to_string()) {
        return Ok(false);
    }
    let mut ledger = stores::open_exclusive(target).await.with_context(|| format!("the ledger was moved to {new}"))?;
    if ledger.find_origin().await? != Some(old.to_string()) {
        return Ok(false);
    }
    activate(ledger).await?;
    Ok(true)
}

async fn activate(ledger: Box<dyn ExclusiveLedger>) -> anyhow::Result<()> {
    let activated = ledger.activate().await;
    activated.context("both ledgers are marked, so that neither of them starts yet; run the same command again")
}

/// Copies the ledger, and marks the source as moved; returns how many rows it has.
///
/// # Errors
/// When one of them fails. Then nothing has changed, or the next run goes on behind what was committed.
pub(super) async fn copy(
    mut source: Box<dyn ExclusiveLedger>,
    target: TargetLedger,
    [old, new]: &[StorageLocation; 2],
) -> anyhow::Result<u64> {
    let TargetLedger { ledger: mut target, is_complete } = target;
    let progress = Progress::start("rows", 0, 0);
    let on_rows = |rows| progress.add(rows as u64, 0);
    let copied: Result<LedgerDigest, TransferError> = match is_complete {
        true => digest(&mut *target, &on_rows).await.map_err(TransferError::from),
        false => copy_rows(&mut *source, &mut *target, &on_rows).await,
    };
    progress.finish().await;
    let rows = copied.context("copying the ledger failed; nothing was moved")?.rows();
    if !is_complete {
        let published = target.publish(&old.to_string()).await;
        published.context("storing the new ledger failed; run the same command again")?;
    }
    let retired = source.retire(&new.to_string()).await;
    retired.context("the new ledger is complete, but the old one could not be marked; run the same command again")?;
    activate(target).await?;
    Ok(rows)
}

#[cfg(test)]
mod tests;
