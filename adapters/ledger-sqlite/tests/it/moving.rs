//! A ledger that is moved: what processes report that are started meanwhile, and what can't be moved.

use std::{sync::Arc, time::Duration};

use rusqlite::Connection;
use satchel_ledger::transfer::{ExclusiveLedger, Value};
use satchel_ledger_sqlite::{OpenError, Settings, SqliteLedger, inspect};
use satchel_local::{SystemClock, UuidV7};
use tempfile::TempDir;

use crate::open;

/// A process that doesn't wait for long.
async fn refused(directory: &TempDir) -> OpenError {
    let settings = Settings { busy_timeout: Duration::from_millis(50), ..Settings::default() };
    let (clock, ids) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
    SqliteLedger::open(directory.path(), settings, clock, ids).await.unwrap_err()
}

#[tokio::test]
async fn process_beside_a_move_names_it() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).await);
    let locked = SqliteLedger::open_exclusive(directory.path(), Arc::new(UuidV7)).await.unwrap();
    for error in [refused(&directory).await, inspect(directory.path()).await.unwrap_err()] {
        assert!(matches!(error, OpenError::Moving { .. }), "{error:?}");
        assert!(error.to_string().contains("`satchel migrate`, which is running"), "{error}");
    }
    drop(locked);
    drop(open(directory.path()).await);
    assert!(inspect(directory.path()).await.unwrap().is_some());

    let other = Connection::open(directory.path().join("satchel.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = refused(&directory).await;
    assert!(matches!(error, OpenError::Other { .. }), "another program is no move: {error:?}");
}

/// A key that is changed on its way has another place in the order of the rows, by which they are read in pages.
#[tokio::test]
async fn key_that_others_cannot_store_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).await);
    let database = Connection::open(directory.path().join("satchel.db")).unwrap();
    let insert = "INSERT INTO person_settings (person, timezone) VALUES (?1, ?2)";
    database.execute(insert, ["web:a", "UTC\0"]).unwrap();
    let read = async || {
        let mut ledger = SqliteLedger::open_exclusive(directory.path(), Arc::new(UuidV7)).await.unwrap();
        let table = ledger.table("person_settings").await.unwrap();
        ledger.read(&table, None).await
    };
    let rows = read().await.unwrap();
    assert_eq!(rows, [[Value::text("web:a"), Value::Text("UTC\u{fffd}".to_owned())]], "elsewhere it is replaced");
    database.execute(insert, ["web:b\0", "UTC"]).unwrap();
    let error = format!("{:?}", read().await.unwrap_err());
    assert!(error.contains("NUL"), "{error}");
}
