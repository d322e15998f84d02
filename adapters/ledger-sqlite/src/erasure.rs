//! Erases what was forgotten where removing its rows leaves it: in the search index, in the log, and in unused space of the
//! database.
//!
//! The writer does it behind the commit, a step between two groups, so that verbs wait for one step at most. A row of
//! `pending_erasure` outlives a crash: the next process goes on. Deleted rows are overwritten in the commit itself
//! (`secure_delete`), but not the copies that the splitting of a page has left in its unused bytes; only rewriting the
//! database erases those (ADR 0039).

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::open::DATABASE;

/// How soon a log that somebody still reads is cut again.
const LOG_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How soon a step that failed is tried again, such as on a full disk.
const FAILURE_RETRY_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How long no verb must have come before a small database is rewritten: whoever writes meanwhile waits for it.
const MIN_QUIET_TIME: Duration = Duration::from_secs(10);

/// How many bytes of the database add a second to that: the longer it takes, the likelier somebody comes meanwhile.
const BYTES_PER_QUIET_SECOND: u64 = 16 << 20;

/// The largest database that is rewritten while its ledger is closed: nobody should wait long for that.
const MAX_BYTES_AT_CLOSE: u64 = 64 << 20;

/// How long closing a ledger goes on with steps. The next process does the rest.
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
    /// When the database is rewritten, unless a verb comes before.
    rewrite_due: Option<Instant>,
}

impl Erasure {
    /// Nothing is left to erase in a data directory.
    pub(crate) fn new(data_dir: PathBuf) -> Self {
        Self { data_dir, index_due: None, log_due: None, rewrite_due: None }
    }

    /// Erases what was forgotten just now, or by a process that has died.
    pub(crate) fn start(&mut self, now: Instant) {
        self.index_due = Some(now);
        self.log_due = Some(now);
        self.rewrite_due = Some(now + self.quiet_time());
    }

    /// Postpones what others would wait for: somebody has just used the ledger.
    pub(crate) fn postpone(&mut self, now: Instant) {
        if self.rewrite_due.is_some() {
            self.rewrite_due = self.rewrite_due.max(Some(now + self.quiet_time()));
        }
    }

    /// How long until the next step is due; `None` if nothing is left.
    pub(crate) fn delay(&self, now: Instant) -> Option<Duration> {
        let due = [self.index_due, self.log_due, self.rewrite_due].into_iter().flatten().min()?;
        Some(due.saturating_duration_since(now))
    }

    /// Does the first step that is due, if one is.
    pub(crate) fn run_due_step(&mut self, connection: &Connection, now: Instant) {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if is_due(self.index_due) {
            match remove_from_index(connection) {
                Ok(0) => self.index_due = None,
                Ok(_) => self.log_due = Some(now),
                Err(error) => self.index_due = Some(retry_time(&error, now)),
            }
        } else if is_due(self.log_due) {
            self.log_due = match truncate_log(connection) {
                Ok(true) => None,
                Ok(false) => Some(now + LOG_RETRY_INTERVAL),
                Err(error) => Some(retry_time(&error, now)),
            };
        } else if is_due(self.rewrite_due) {
            match rewrite_database(connection, &self.data_dir) {
                Ok(()) => (self.rewrite_due, self.log_due) = (None, Some(now)),
                Err(error) => self.rewrite_due = Some(retry_time(&error, now)),
            }
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
            let is_due = self.delay(now).is_some_and(|delay| delay.is_zero());
            if !is_due || now.duration_since(started_at) >= CLOSE_TIMEOUT {
                break;
            }
            self.run_due_step(connection, now);
        }
    }

    fn quiet_time(&self) -> Duration {
        MIN_QUIET_TIME + Duration::from_secs(self.database_bytes() / BYTES_PER_QUIET_SECOND)
    }

    fn database_bytes(&self) -> u64 {
        fs::metadata(self.data_dir.join(DATABASE)).map_or(0, |metadata| metadata.len())
    }
}

fn retry_time(error: &rusqlite::Error, now: Instant) -> Instant {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "erasing what was forgotten failed; it will be retried");
    now + FAILURE_RETRY_INTERVAL
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
pub(crate) fn truncate_log(connection: &Connection) -> rusqlite::Result<bool> {
    let timeout: u32 = connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0))?;
    connection.busy_timeout(Duration::ZERO)?;
    let is_busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    connection.busy_timeout(Duration::from_millis(timeout.into()))?;
    Ok(!is_busy?)
}

/// Rewrites the database if something was forgotten, so that unused space holds nothing of it.
pub(crate) fn rewrite_database(connection: &Connection, data_dir: &Path) -> rusqlite::Result<()> {
    let requests: Option<i64> =
        connection.query_row("SELECT requests FROM pending_erasure", [], |row| row.get(0)).optional()?;
    // Another process has done it.
    let Some(requests) = requests else { return Ok(()) };
    let started_at = Instant::now();
    vacuum(connection, data_dir)?;
    // What was forgotten meanwhile stays to be erased.
    let done = "DELETE FROM pending_erasure WHERE requests = ?1 \
         AND NOT EXISTS (SELECT 1 FROM turns WHERE indexed AND state = 'merged')";
    connection.execute(done, [requests])?;
    let duration_ms = u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(duration_ms, "rewrote the database; unused space holds nothing of what was forgotten");
    Ok(())
}

fn vacuum(connection: &Connection, data_dir: &Path) -> rusqlite::Result<()> {
    // It writes a copy first: a large one doesn't fit into memory, and people's words belong into no other directory.
    if let Some(directory) = data_dir.to_str() {
        connection.pragma_update(None, "temp_store_directory", directory)?;
        connection.pragma_update(None, "temp_store", "FILE")?;
    }
    let vacuumed = connection.execute_batch("VACUUM");
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Or the pages of all tables stay in memory.
    connection.release_memory()?;
    vacuumed
}

#[cfg(test)]
mod tests;
