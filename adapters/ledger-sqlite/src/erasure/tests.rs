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

    /// Whether a word stands anywhere in the database or its log.
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
        let mut erasure = Erasure::new(self.directory.path().to_owned());
        erasure.start(now);
        erasure
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
        assert_eq!(erasure.delay(now), Some(Duration::ZERO));
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
    assert_eq!(erasure.delay(now), Some(LOG_RETRY_INTERVAL), "nobody waits for the reader");
    let timeout: u32 = harness.connection.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
    assert_eq!(timeout, 1_000, "other statements wait as before");
    reader.execute_batch("COMMIT").unwrap();
    erasure.run_due_step(&harness.connection, now + LOG_RETRY_INTERVAL);
    assert_eq!(harness.log_bytes(), 0);
}

/// The word is where no row leads: `secure_delete` doesn't reach it.
#[tokio::test]
async fn database_is_rewritten_once_nobody_writes() {
    let harness = EraseHarness::new().await;
    let insecure = "PRAGMA secure_delete = OFF;
         CREATE TABLE scratch (word TEXT); INSERT INTO scratch VALUES ('xylophone'); DROP TABLE scratch;
         PRAGMA secure_delete = ON; INSERT INTO pending_erasure (id, requests) VALUES (1, 1);";
    harness.connection.execute_batch(insecure).unwrap();
    let start = Instant::now();
    let mut erasure = harness.erasure(start);
    let run_all = |erasure: &mut Erasure, now: Instant| {
        while erasure.delay(now).is_some_and(|delay| delay.is_zero()) {
            erasure.run_due_step(&harness.connection, now);
        }
    };
    run_all(&mut erasure, start + MIN_QUIET_TIME - SECOND);
    assert!(harness.has_word(WORD) && is_requested(&harness.connection).unwrap());
    // Somebody writes, so that it has to wait once more.
    erasure.postpone(start + MIN_QUIET_TIME - SECOND);
    run_all(&mut erasure, start + MIN_QUIET_TIME);
    assert!(is_requested(&harness.connection).unwrap());
    run_all(&mut erasure, start + 2 * MIN_QUIET_TIME);
    assert!(!harness.has_word(WORD) && !is_requested(&harness.connection).unwrap());
    assert_eq!(erasure.delay(start), None, "nothing is left to do");
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
    let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
    drop(SqliteLedger::open(harness.directory.path(), Settings::default(), clock, ids).await.unwrap());
    assert!(!harness.has_word(WORD) && !is_requested(&harness.connection).unwrap());
}
