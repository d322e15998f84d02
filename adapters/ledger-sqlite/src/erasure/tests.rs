//! The steps by which what was forgotten is erased, by times that the test gives.

use std::sync::Arc;

use satchel_local::{SystemClock, UuidV7};
use tempfile::TempDir;

use super::*;
use crate::{Settings, SqliteLedger, database::connect};

const SECOND: Duration = Duration::from_secs(1);

/// A word that is nowhere else.
const WORD: &str = "xylophone";

/// A database without a process that works with it.
struct EraseHarness {
    directory: TempDir,
    connection: Connection,
}

impl EraseHarness {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
        drop(SqliteLedger::open(directory.path(), Settings::default(), clock, ids).await.unwrap());
        let connection = connect(&directory.path().join(DATABASE), SECOND).unwrap();
        Self { directory, connection }
    }

    /// Adds turns that are in the index, and forgets them.
    fn forget_turns(&self, count: u32) {
        let turns = format!(
            "INSERT INTO lanes (id, conversation, channel) VALUES (1, 'web:a', 'web');
             WITH RECURSIVE counted (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM counted WHERE n < {count})
             INSERT INTO turns (id, lane, state, ready_at, indexed) SELECT randomblob(16), 1, 'merged', 0, 1 FROM counted;
             INSERT INTO search_index (rowid, channel, text, files)
             SELECT sequence, 'c776562 l1', '{WORD} ' || sequence, '' FROM turns;
             INSERT INTO pending_erasure (id, requests) VALUES (1, 1);"
        );
        self.connection.execute_batch(&turns).unwrap();
    }

    fn count_indexed(&self) -> i64 {
        self.connection.query_row("SELECT COUNT(*) FROM search_index", [], |row| row.get(0)).unwrap()
    }

    /// Whether a word is anywhere in the database or its log.
    fn has_word(&self, word: &str) -> bool {
        ["satchel.db", "satchel.db-wal"].into_iter().any(|name| {
            let bytes = fs::read(self.directory.path().join(name)).unwrap_or_default();
            bytes.windows(word.len()).any(|window| window == word.as_bytes())
        })
    }

    fn log_bytes(&self) -> u64 {
        fs::metadata(self.directory.path().join("satchel.db-wal")).map_or(0, |log| log.len())
    }

    fn erasure(&self, now: Instant) -> Erasure {
        let mut erasure = Erasure::new(self.directory.path().to_owned(), now);
        erasure.start(now);
        erasure
    }

    /// Does all steps that are due at a time.
    fn run_all(&self, erasure: &mut Erasure, now: Instant) {
        while erasure.delay(now).is_zero() {
            erasure.run_due_step(&self.connection, now);
        }
    }

    /// Forgets a word where no row leads to it: `secure_delete` doesn't reach it.
    fn leave_word_in_unused_space(&self) {
        let insecure = format!(
            "PRAGMA secure_delete = OFF;
             CREATE TABLE scratch (word TEXT); INSERT INTO scratch VALUES ('{WORD}'); DROP TABLE scratch;
             PRAGMA secure_delete = ON; INSERT INTO pending_erasure (id, requests) VALUES (1, 1);"
        );
        self.connection.execute_batch(&insecure).unwrap();
    }

    /// Whether the word is anywhere, or a request says so.
    fn is_left(&self) -> (bool, bool) {
        (self.has_word(WORD), is_requested(&self.connection).unwrap())
    }

    /// Connects as another process.
    fn connect(&self) -> Connection {
        connect(&self.directory.path().join(DATABASE), SECOND).unwrap()
    }

    /// Opens and closes the ledger, as a later process does.
    async fn open_and_close(&self) {
        let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
        drop(SqliteLedger::open(self.directory.path(), Settings::default(), clock, ids).await.unwrap());
    }
}

#[tokio::test]
async fn forgotten_turns_leave_index_in_small_steps() {
    let harness = EraseHarness::new().await;
    harness.forget_turns(40);
    assert!(harness.has_word(WORD));
    let now = Instant::now();
    let mut erasure = harness.erasure(now);
    let mut counts = vec![harness.count_indexed()];
    while counts.last() != Some(&0) {
        assert_eq!(erasure.delay(now), Duration::ZERO);
        erasure.run_due_step(&harness.connection, now);
        counts.push(harness.count_indexed());
    }
    assert_eq!(counts, [40, 24, 8, 0]);
    // One that finds nothing left, and one that cuts the log.
    erasure.run_due_step(&harness.connection, now);
    erasure.run_due_step(&harness.connection, now);
    assert_eq!(harness.log_bytes(), 0);
    let left: i64 =
        harness.connection.query_row("SELECT COUNT(*) FROM turns WHERE indexed", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn log_is_cut_when_its_last_reader_ends() {
    let harness = EraseHarness::new().await;
    let reader = connect(&harness.directory.path().join(DATABASE), SECOND).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let _count: i64 = reader.query_row("SELECT COUNT(*) FROM lanes", [], |row| row.get(0)).unwrap();
    harness.forget_turns(1);
    let now = Instant::now();
    let mut erasure = harness.erasure(now);
    for _step in 0..3 {
        erasure.run_due_step(&harness.connection, now);
    }
    assert!(harness.log_bytes() > 0, "it is read");
    assert_eq!(erasure.delay(now), LOG_RETRY_INTERVAL, "nobody waits for the reader");
    let timeout: u32 = harness.connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
    assert_eq!(timeout, 1_000, "other statements wait as before");
    reader.execute_batch("COMMIT").unwrap();
    erasure.run_due_step(&harness.connection, now + LOG_RETRY_INTERVAL);
    assert_eq!(harness.log_bytes(), 0);
}

#[tokio::test]
async fn database_is_rewritten_once_nobody_writes() {
    let harness = EraseHarness::new().await;
    harness.leave_word_in_unused_space();
    let start = Instant::now();
    let mut erasure = harness.erasure(start);
    harness.run_all(&mut erasure, start + MIN_QUIET_TIME - SECOND);
    assert_eq!(harness.is_left(), (true, true));
    // A verb comes, so that it has to wait again.
    erasure.postpone(start + MIN_QUIET_TIME - SECOND);
    harness.run_all(&mut erasure, start + MIN_QUIET_TIME);
    assert_eq!(harness.is_left(), (true, true));
    harness.run_all(&mut erasure, start + 2 * MIN_QUIET_TIME);
    assert_eq!(harness.is_left(), (false, false));
    assert_eq!(erasure.delay(start), CHECK_INTERVAL, "nothing is left to do");
}

/// Their verbs would fail if they had to wait for too long.
#[tokio::test]
async fn rewriting_gives_way_to_other_processes_for_a_limited_time() {
    let harness = EraseHarness::new().await;
    harness.leave_word_in_unused_space();
    let other = harness.connect();
    other.pragma_update(None, "synchronous", false).unwrap();
    let start = Instant::now();
    let mut erasure = harness.erasure(start);
    harness.run_all(&mut erasure, start);
    let mut postponed = 0;
    while is_requested(&harness.connection).unwrap() {
        assert!(postponed < MAX_QUIET_TIMES, "the requests are never done");
        postponed += 1;
        other.execute("INSERT INTO lanes (conversation, channel) VALUES (?1, 'web')", [postponed]).unwrap();
        harness.run_all(&mut erasure, start + MIN_QUIET_TIME * postponed);
    }
    assert_eq!((harness.has_word(WORD), postponed), (false, MAX_QUIET_TIMES));
}

/// What was replaced is in the database until the log is copied into it, so a process that is killed before leaves it there.
#[tokio::test]
async fn request_stays_until_rewritten_pages_are_in_the_database() {
    let harness = EraseHarness::new().await;
    harness.leave_word_in_unused_space();
    let start = Instant::now();
    let mut erasure = harness.erasure(start);
    harness.run_all(&mut erasure, start);
    let reader = harness.connect();
    reader.execute_batch("BEGIN").unwrap();
    let _count: i64 = reader.query_row("SELECT COUNT(*) FROM lanes", [], |row| row.get(0)).unwrap();
    harness.run_all(&mut erasure, start + MIN_QUIET_TIME);
    assert_eq!(erasure.delay(start + MIN_QUIET_TIME), LOG_RETRY_INTERVAL, "it is rewritten");
    assert_eq!(harness.is_left(), (true, true));
    // The process is killed.
    drop(erasure);
    reader.execute_batch("COMMIT").unwrap();
    drop(reader);
    harness.open_and_close().await;
    assert_eq!(harness.is_left(), (false, false));
}

/// Another process is in the way for a moment: that is no reason to wait for an hour, as with a full disk.
#[tokio::test]
async fn locked_database_is_retried_soon() {
    let harness = EraseHarness::new().await;
    harness.forget_turns(1);
    harness.connection.busy_timeout(Duration::ZERO).unwrap();
    let other = harness.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    let mut erasure = harness.erasure(start);
    harness.run_all(&mut erasure, start);
    assert_eq!((harness.count_indexed(), erasure.index_due), (1, Some(start + BUSY_RETRY_INTERVAL)));
    other.execute_batch("COMMIT").unwrap();
    harness.run_all(&mut erasure, start + BUSY_RETRY_INTERVAL);
    assert_eq!(harness.count_indexed(), 0);
    harness.run_all(&mut erasure, start + 2 * BUSY_RETRY_INTERVAL + MIN_QUIET_TIME);
    assert_eq!(harness.is_left(), (false, false));
}

/// A process that is open longer than one that has died, and knows nothing of its request.
#[tokio::test]
async fn open_process_erases_what_a_dead_one_left() {
    let harness = EraseHarness::new().await;
    let start = Instant::now();
    let mut erasure = Erasure::new(harness.directory.path().to_owned(), start);
    harness.forget_turns(100);
    harness.run_all(&mut erasure, start + CHECK_INTERVAL - SECOND);
    assert_eq!(harness.is_left(), (true, true));
    harness.run_all(&mut erasure, start + CHECK_INTERVAL);
    harness.run_all(&mut erasure, start + CHECK_INTERVAL + MIN_QUIET_TIME);
    assert_eq!(harness.is_left(), (false, false));
}

#[tokio::test]
async fn closed_ledger_has_nothing_left_to_erase() {
    let harness = EraseHarness::new().await;
    harness.forget_turns(100);
    harness.erasure(Instant::now()).finish(&harness.connection);
    assert_eq!((harness.count_indexed(), harness.log_bytes()), (0, 0));
    assert!(!harness.has_word(WORD) && !is_requested(&harness.connection).unwrap());
}

/// A process that has died leaves its request to the next one.
#[tokio::test]
async fn next_process_erases_what_a_dead_one_left() {
    let harness = EraseHarness::new().await;
    harness.forget_turns(100);
    harness.open_and_close().await;
    assert!(!harness.has_word(WORD) && !is_requested(&harness.connection).unwrap());
}
