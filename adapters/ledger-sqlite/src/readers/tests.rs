//! A pool that is bounded, and queries that fail, are abandoned or last.

use std::{sync::mpsc, time::Duration};

use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{Ids, ledger::HolderId};

use super::*;
use crate::{owners::Owners, process::Settings};

const LONG: Duration = Duration::from_secs(10);

fn readers(directory: &tempfile::TempDir, max: u32) -> Arc<Readers> {
    let process = Process {
        holder: HolderId(UuidV7.next()),
        owners: Owners::open(directory.path()).unwrap(),
        settings: Settings { readers: max, ..Settings::default() },
        clock: Arc::new(SystemClock::new()),
        ids: Arc::new(UuidV7),
        held_before: None,
    };
    Arc::new(Readers::new(directory.path().join("some.db"), Arc::new(process)))
}

fn idle(readers: &Readers) -> usize {
    lock(&readers.idle).len()
}

#[tokio::test]
async fn reader_pool_is_bounded_and_reuses_connections() {
    let directory = tempfile::tempdir().unwrap();
    let readers = readers(&directory, 2);
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
    let queries: Vec<_> = (0..3)
        .map(|_| {
            let (readers, released, started) = (Arc::clone(&readers), Arc::clone(&released), started.clone());
            tokio::spawn(async move {
                let wait = move |_: &Database| {
                    started.send(()).unwrap();
                    let _ = released.lock().unwrap().recv();
                    Ok(())
                };
                readers.run(wait).await
            })
        })
        .collect();
    for _ in 0..2 {
        tokio::time::timeout(LONG, has_started.recv()).await.unwrap();
    }
    assert_eq!(readers.permits.available_permits(), 0, "a third has to wait");
    drop(release);
    for query in queries {
        query.await.unwrap().unwrap();
    }
    assert_eq!(idle(&readers), 2, "none is opened while one is idle");
}

#[tokio::test]
async fn reader_of_failed_query_is_closed_and_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let readers = readers(&directory, 1);
    for failing in [(|_| Err(Error::Full)) as fn(&Database) -> Result<()>, |_| panic!("as the test wants it")] {
        assert!(readers.run(failing).await.is_err());
        assert_eq!(idle(&readers), 0);
    }
    let one: i64 = readers.run(|db| db.value("SELECT 1", [])).await.unwrap();
    assert_eq!((one, idle(&readers)), (1, 1));
}

#[tokio::test]
async fn query_sees_one_state_of_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let readers = readers(&directory, 1);
    let path = directory.path().join("some.db");
    let writer = crate::database::connect(&path, LONG).unwrap();
    writer.execute_batch("CREATE TABLE names (name TEXT NOT NULL)").unwrap();
    let counts = readers.run(move |db| {
        let count = || db.value::<i64>("SELECT COUNT(*) FROM names", []);
        let before = count()?;
        writer.execute_batch("INSERT INTO names VALUES ('new')").unwrap();
        Ok((before, count()?))
    });
    assert_eq!(counts.await.unwrap(), (0, 0));
    let after: i64 = readers.run(|db| db.value("SELECT COUNT(*) FROM names", [])).await.unwrap();
    assert_eq!(after, 1);
}

#[tokio::test]
async fn abandoned_query_returns_its_connection() {
    let directory = tempfile::tempdir().unwrap();
    let readers = readers(&directory, 1);
    let (release, released) = mpsc::channel::<()>();
    {
        let abandoned = readers.run(move |_| Ok(released.recv().is_err()));
        tokio::pin!(abandoned);
        assert!(futures::poll!(abandoned).is_pending());
    }
    drop(release);
    let one: i64 = readers.run(|db| db.value("SELECT 1", [])).await.unwrap();
    assert_eq!((one, idle(&readers)), (1, 1));
}
