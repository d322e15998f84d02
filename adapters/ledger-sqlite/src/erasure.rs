//! Erases what was forgotten where removing its rows leaves it: in the search index, in the log, and in unused space of the
//! database.
//!
//! The writer does it behind the commit, a step between two groups, so that verbs wait for one step at most. A row of
//! `pending_erasure` outlives a crash: the next process continues, or one that is open looks at it once an hour. The row goes
//! when the log is cut behind the rewriting, since the pages that were replaced are in the database until then. Deleted rows
//! are overwritten in the commit itself (`secure_delete`), but not the copies that the splitting of a page has left in its
//! unused bytes; only rewriting the database erases those (ADR 0039).

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::{error::is_busy, open::DATABASE};

/// How soon a log that is still being read is cut again.
const LOG_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How soon a step is tried again for which another process was in the way. It has waited for that already.
const BUSY_RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// How soon a step that failed otherwise is tried again, such as on a full disk.
const FAILURE_RETRY_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How often an open process looks whether one that has died left something to erase.
const CHECK_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How long nobody must have used the ledger before a small database is rewritten: a verb that comes meanwhile waits for it.
const MIN_QUIET_TIME: Duration = Duration::from_secs(10);

/// How many bytes of the database add a second to that: the longer it takes, the likelier somebody comes meanwhile.
const BYTES_PER_QUIET_SECOND: u64 = 16 << 20;

/// How many times as long the rewriting is postponed at most: an hour for a small database, which takes a fraction of a
/// second.
const MAX_QUIET_TIMES: u32 = 360;

/// The largest database that is rewritten while others use it, in bytes. A larger one would keep them waiting longer than
/// their leases last.
const MAX_BYTES_IN_USE: u64 = 1 << 30;

/// The largest database that is rewritten while its ledger is closed: nobody should wait long for that.
const MAX_BYTES_AT_CLOSE: u64 = 64 << 20;

/// How long closing a ledger does further steps. The next process does the rest.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Forgotten turns that are still in the search index, as many as leave it in one commit: about a millisecond each.
macro_rules! forgotten_turns {
    () => {
        "(SELECT sequence FROM turns WHERE indexed AND state = 'merged' ORDER BY sequence LIMIT 16)"
    };
}

/// What is left to erase, and when.
#[derive(Debug)]
pub(crate) struct Erasure {
    data_dir: PathBuf,
    /// When turns leave the search index.
    index_due: Option<Instant>,
    /// When the log is cut.
    log_due: Option<Instant>,
    /// When the database is rewritten, unless the ledger is used before.
    rewrite_due: Option<Instant>,
    /// When it is rewritten even if the ledger is used.
    rewrite_deadline: Option<Instant>,
    /// The requests for which the database is rewritten and the log is still to be cut.
    rewritten_requests: Option<i64>,
    /// When it is looked whether a process that has died left something.
    check_due: Instant,
    /// Changes with each commit of another process; as it was behind the last step.
    data_version: Option<i64>,
}

impl Erasure {
    /// Nothing is left to erase in a data directory.
    pub(crate) fn new(data_dir: PathBuf, now: Instant) -> Self {
        Self {
            data_dir,
            index_due: None,
            log_due: None,
            rewrite_due: None,
            rewrite_deadline: None,
            rewritten_requests: None,
            check_due: now + CHECK_INTERVAL,
            data_version: None,
        }
    }

    /// Erases what was forgotten just now, or by a process that has died.
    pub(crate) fn start(&mut self, now: Instant) {
        self.index_due = Some(now);
        self.log_due = Some(now);
        self.schedule_rewrite(now);
    }

    /// Postpones what others would wait for: the ledger was used just now.
    pub(crate) fn postpone(&mut self, now: Instant) {
        if self.rewrite_due.is_some() {
            self.schedule_rewrite(now);
        }
    }

    /// How long until the next step is due.
    pub(crate) fn delay(&self, now: Instant) -> Duration {
        let steps = [self.index_due, self.log_due, self.rewrite_due];
        let due = steps.into_iter().flatten().fold(self.check_due, Instant::min);
        due.saturating_duration_since(now)
    }

    /// Does the first step that is due, if one is. If another process has used the ledger since the last step, the rewriting
    /// is postponed: its verbs would fail after a while, instead of waiting as long as those of this process.
    pub(crate) fn run_due_step(&mut self, connection: &Connection, now: Instant) {
        if !self.delay(now).is_zero() {
            return;
        }
        if self.data_version.is_some_and(|last| read_data_version(connection) != Some(last)) {
            self.postpone(now);
        }
        self.run_step(connection, now);
        self.data_version = read_data_version(connection);
    }

    fn run_step(&mut self, connection: &Connection, now: Instant) {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.index_due) {
            match remove_from_index(connection) {
                Ok(0) => self.index_due = None,
                Ok(_) => self.log_due = Some(now),
                Err(error) => self.index_due = Some(retry_time(&error, now)),
            }
        } else if is_due(self.log_due) {
            match truncate_log(connection) {
                Ok(true) => {
                    self.log_due = None;
                    self.finish_requests(connection, now);
                }
                Ok(false) => self.log_due = Some(now + LOG_RETRY_INTERVAL),
                Err(error) => self.log_due = Some(retry_time(&error, now)),
            }
        } else if is_due(self.rewrite_due) {
            self.run_rewrite(connection, now);
        } else if self.check_due <= now {
            self.check_due = now + CHECK_INTERVAL;
            match is_requested(connection) {
                Ok(true) if self.rewrite_due.is_none() && self.rewritten_requests.is_none() => self.start(now),
                Ok(_) => {}
                Err(error) => self.check_due = retry_time(&error, now),
            }
        }
    }

    fn run_rewrite(&mut self, connection: &Connection, now: Instant) {
        // As long as turns are in the index, the requests stay, and the database would be rewritten in vain.
        if let Some(index_due) = self.index_due {
            self.rewrite_due = Some(index_due + self.quiet_time());
            return;
        }
        match rewrite_database(connection, &self.data_dir) {
            // Another process has done it.
            Ok(None) => (self.rewrite_due, self.rewrite_deadline) = (None, None),
            Ok(requests) => {
                (self.rewritten_requests, self.log_due) = (requests, Some(now));
                // What is forgotten from now on has a deadline of its own.
                (self.rewrite_due, self.rewrite_deadline) = (None, None);
            }
            Err(error) => self.rewrite_due = Some(retry_time(&error, now)),
        }
    }

    /// Removes the requests for which the database was rewritten, now that no log has pages of before.
    fn finish_requests(&mut self, connection: &Connection, now: Instant) {
        let Some(requests) = self.rewritten_requests.take() else { return };
        match remove_requests(connection, requests) {
            Ok(true) => self.log_due = Some(now),
            // Something was forgotten meanwhile, in another process as well.
            Ok(false) => self.start(now),
            Err(error) => (self.rewritten_requests, self.log_due) = (Some(requests), Some(retry_time(&error, now))),
        }
    }

    /// Erases what can be erased quickly, because the ledger is being closed.
    pub(crate) fn finish(mut self, connection: &Connection) {
        let started_at = Instant::now();
        self.index_due = self.index_due.map(|_| started_at);
        self.log_due = self.log_due.map(|_| started_at);
        let is_small = self.database_bytes() <= MAX_BYTES_AT_CLOSE;
        self.rewrite_due = self.rewrite_due.filter(|_| is_small).map(|_| started_at);
        loop {
            let now = Instant::now();
            if !self.delay(now).is_zero() || now.duration_since(started_at) >= CLOSE_TIMEOUT {
                break;
            }
            self.run_step(connection, now);
        }
    }

    /// Has the database rewritten once the ledger is quiet, and not before a time at which a failed step is tried again.
    fn schedule_rewrite(&mut self, now: Instant) {
        let quiet_time = self.quiet_time();
        let deadline = *self.rewrite_deadline.get_or_insert(now + quiet_time * MAX_QUIET_TIMES);
        let is_short = self.database_bytes() <= MAX_BYTES_IN_USE;
        let due = if is_short { (now + quiet_time).min(deadline) } else { now + quiet_time };
        self.rewrite_due = self.rewrite_due.max(Some(due));
    }

    fn quiet_time(&self) -> Duration {
        MIN_QUIET_TIME + Duration::from_secs(self.database_bytes() / BYTES_PER_QUIET_SECOND)
    }

    fn database_bytes(&self) -> u64 {
        fs::metadata(self.data_dir.join(DATABASE)).map_or(0, |metadata| metadata.len())
    }
}

fn retry_time(error: &rusqlite::Error, now: Instant) -> Instant {
    if is_busy(error) {
        return now + BUSY_RETRY_INTERVAL;
    }
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "erasing what was forgotten failed; it will be retried");
    now + FAILURE_RETRY_INTERVAL
}

/// Reads what changes with each commit of another connection, and with none of this one; `None` if that fails.
fn read_data_version(connection: &Connection) -> Option<i64> {
    connection.query_row("PRAGMA data_version", [], |row| row.get(0)).ok()
}

/// Whether something was forgotten that is not erased everywhere yet.
pub(crate) fn is_requested(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT EXISTS (SELECT 1 FROM pending_erasure)", [], |row| row.get(0))
}

/// Takes all forgotten turns out of the search index.
pub(crate) fn clear_index(connection: &Connection) -> rusqlite::Result<()> {
    while remove_from_index(connection)? > 0 {}
    Ok(())
}

/// Takes some forgotten turns out of the search index, in a transaction of its own, and returns how many.
fn remove_from_index(connection: &Connection) -> rusqlite::Result<usize> {
    let is_any_left = concat!("SELECT EXISTS ", forgotten_turns!());
    if !connection.query_row(is_any_left, [], |row| row.get::<_, bool>(0))? {
        return Ok(0);
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    transaction.execute(concat!("DELETE FROM search_index WHERE rowid IN ", forgotten_turns!()), [])?;
    let removed =
        transaction.execute(concat!("UPDATE turns SET indexed = FALSE WHERE sequence IN ", forgotten_turns!()), [])?;
    transaction.commit()?;
    Ok(removed)
}

/// Copies the log into the database and cuts it to nothing. Returns `false`, without waiting, if a connection still reads
/// what it would take away, or writes.
fn truncate_log(connection: &Connection) -> rusqlite::Result<bool> {
    let timeout: u32 = connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0))?;
    connection.busy_timeout(Duration::ZERO)?;
    let is_busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    connection.busy_timeout(Duration::from_millis(timeout.into()))?;
    Ok(!is_busy?)
}

/// Erases what is in unused space and in the log, without waiting for a connection that reads the log: then the request
/// stays, and the writer does it.
pub(crate) fn rewrite_at_once(connection: &Connection, data_dir: &Path) -> rusqlite::Result<()> {
    if let Some(requests) = rewrite_database(connection, data_dir)?
        && truncate_log(connection)?
    {
        remove_requests(connection, requests)?;
    }
    Ok(())
}

/// Rewrites the database if something was forgotten, so that unused space holds nothing of it once the log is cut. Returns
/// the number that the next request changes; `None` if nothing was forgotten, or another process has done it.
fn rewrite_database(connection: &Connection, data_dir: &Path) -> rusqlite::Result<Option<i64>> {
    let requests: Option<i64> =
        connection.query_row("SELECT requests FROM pending_erasure", [], |row| row.get(0)).optional()?;
    if requests.is_some() {
        let started_at = Instant::now();
        vacuum(connection, data_dir)?;
        let duration_ms = u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(duration_ms, "rewrote the database; unused space holds nothing of what was forgotten");
    }
    Ok(requests)
}

/// Removes the requests, unless something was forgotten since their number was read. Returns whether none is left.
fn remove_requests(connection: &Connection, requests: i64) -> rusqlite::Result<bool> {
    let remove = "DELETE FROM pending_erasure WHERE requests = ?1 \
         AND NOT EXISTS (SELECT 1 FROM turns WHERE indexed AND state = 'merged')";
    connection.execute(remove, [requests])?;
    Ok(!is_requested(connection)?)
}

fn vacuum(connection: &Connection, data_dir: &Path) -> rusqlite::Result<()> {
    // It writes a copy first: a large one doesn't fit into memory, and people's words belong into no other directory.
    if let Some(directory) = data_dir.to_str() {
        connection.pragma_update(None, "temp_store_directory", directory)?;
        connection.pragma_update(None, "temp_store", "FILE")?;
    }
    let vacuumed = connection.execute_batch("VACUUM");
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // All connections of the process have it in common.
    connection.pragma_update(None, "temp_store_directory", "")?;
    // Or the pages of all tables stay in memory.
    connection.release_memory()?;
    vacuumed
}

#[cfg(test)]
mod tests;
