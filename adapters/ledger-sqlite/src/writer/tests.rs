//! Verbs that share a transaction, and those that fail in it.

use std::{sync::mpsc, time::Duration};

use rusqlite::Connection;
use satchel_ledger_sql::VerbError;
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{Ids, ledger::HolderId};

use super::*;
use crate::{
    owners::Owners,
    process::{Process, Settings},
};

/// A writer on a table of names.
fn writer(directory: &tempfile::TempDir) -> Writer {
    let connection = Connection::open(directory.path().join("some.db")).unwrap();
    connection.execute_batch("CREATE TABLE names (name TEXT NOT NULL)").unwrap();
    let process = Process {
        holder: HolderId(UuidV7.next()),
        owners: Owners::open(directory.path()).unwrap(),
        settings: Settings::default(),
        clock: Arc::new(SystemClock::new()),
        ids: Arc::new(UuidV7),
        held_before: None,
    };
    let erasure = Erasure::new(directory.path().to_owned(), Instant::now());
    Writer::start(Database::new(connection, Arc::new(process)).unwrap(), erasure).unwrap()
}

fn insert(db: &Database, name: &str) -> Result<()> {
    db.run("INSERT INTO names VALUES (?1)", [name])?;
    Ok(())
}

async fn names(writer: &Writer) -> Vec<String> {
    let names: Vec<(String,)> = writer.run("reading", |db| db.all("SELECT name FROM names", [])).await.unwrap();
    names.into_iter().map(|(name,)| name).collect()
}

/// Submits a verb without waiting for it.
async fn submit(writer: &Writer, verb: impl FnOnce(&Database) -> Result<()> + Send + 'static) {
    let submitted = writer.run("working", verb);
    tokio::pin!(submitted);
    assert!(futures::poll!(submitted).is_pending());
}

/// Keeps the writer busy until the returned sender is dropped, so that what is submitted meanwhile is one group.
async fn block(writer: &Writer) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel();
    let (begin, begun) = oneshot::channel();
    let wait = move |_: &Database| {
        let _ = begin.send(());
        let _ = released.recv();
        Ok(())
    };
    submit(writer, wait).await;
    begun.await.unwrap();
    release
}

#[tokio::test]
async fn failing_verb_is_undone_alone() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(&directory);
    let release = block(&writer).await;
    let refused = |db: &Database| -> Result<()> {
        insert(db, "refused")?;
        Err(VerbError::Unknown("name".to_owned()).into())
    };
    let (first, failed, last, ()) = tokio::join!(
        writer.run("inserting", |db| insert(db, "first")),
        writer.run("inserting", refused),
        writer.run("inserting", |db| insert(db, "last")),
        async { drop(release) },
    );
    assert!(first.is_ok() && last.is_ok());
    assert!(matches!(failed, Err(LedgerError::Unknown { .. })), "{failed:?}");
    assert_eq!(names(&writer).await, ["first", "last"]);
    assert_eq!(writer.commits(), 1, "they shared it");
}

#[tokio::test]
async fn panicking_verb_leaves_writer_usable() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(&directory);
    let panicking = |db: &Database| -> Result<()> {
        insert(db, "lost")?;
        panic!("as the test wants it")
    };
    let failed = writer.run("inserting", panicking).await;
    assert!(matches!(failed, Err(LedgerError::Store { .. })), "{failed:?}");
    let release = block(&writer).await;
    let (first, failed, last, ()) = tokio::join!(
        writer.run("inserting", |db| insert(db, "first")),
        writer.run("inserting", panicking),
        writer.run("inserting", |db| insert(db, "last")),
        async { drop(release) },
    );
    assert!(first.is_ok() && failed.is_err() && last.is_ok());
    assert_eq!(names(&writer).await, ["first", "last"]);
}

#[tokio::test]
async fn foreign_lock_is_awaited_once_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(&directory);
    writer.run("hurrying", |db| Ok(db.busy_timeout(Duration::from_millis(20))?)).await.unwrap();
    let other = Connection::open(directory.path().join("some.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let failed = writer.run("inserting", |db| insert(db, "refused")).await;
    assert!(matches!(failed, Err(LedgerError::Store { .. })), "{failed:?}");
    other.execute_batch("ROLLBACK").unwrap();
    writer.run("inserting", |db| insert(db, "next")).await.unwrap();
    assert_eq!((names(&writer).await, writer.commits()), (vec!["next".to_owned()], 1));
}

/// As SQLite does where there is no room.
#[tokio::test]
async fn rollback_of_the_transaction_fails_the_whole_group() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(&directory);
    let release = block(&writer).await;
    let rolled_back = |db: &Database| -> Result<()> {
        db.run("ROLLBACK", [])?;
        Err(Error::Full)
    };
    let (first, full, last, ()) = tokio::join!(
        writer.run("inserting", |db| insert(db, "first")),
        writer.run("inserting", rolled_back),
        writer.run("inserting", |db| insert(db, "last")),
        async { drop(release) },
    );
    for outcome in [first, full, last] {
        assert!(matches!(outcome, Err(LedgerError::Full)), "{outcome:?}");
    }
    assert_eq!(names(&writer).await, [""; 0]);
    assert_eq!(writer.commits(), 0);
}

#[tokio::test]
async fn dropped_writer_completes_what_it_was_given() {
    let directory = tempfile::tempdir().unwrap();
    let writer = writer(&directory);
    let release = block(&writer).await;
    let slow = |db: &Database| {
        // Slow enough to be seen where nobody waits for it.
        thread::sleep(Duration::from_millis(50));
        insert(db, "given")
    };
    submit(&writer, slow).await;
    drop(release);
    drop(writer);
    let connection = Connection::open(directory.path().join("some.db")).unwrap();
    let name: String = connection.query_row("SELECT name FROM names", [], |row| row.get(0)).unwrap();
    assert_eq!(name, "given");
}
