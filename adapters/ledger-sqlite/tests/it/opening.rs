//! Opening what is broken, newer, read-only or out of reach: a clear error, and nothing changed.

use std::{error::Error, fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use rusqlite::Connection;
use satchel_ledger_sqlite::{OpenError, Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{Archive, Inbox, ledger::ClaimMode};
use satchel_requirements::{obey_file_permissions, required};

use crate::{message, open};

async fn refused(data_dir: &Path) -> OpenError {
    SqliteLedger::open(data_dir, Settings::default(), Arc::new(SystemClock::new()), Arc::new(UuidV7))
        .await
        .expect_err("it can't be opened")
}

fn connect(data_dir: &Path) -> Connection {
    Connection::open(data_dir.join("satchel.db")).unwrap()
}

#[tokio::test]
async fn missing_directory_is_created_and_data_survives_restart() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("a/b");
    let ledger = open(&data_dir).await;
    let turn = ledger.receive(&message("console:a", "1"), ClaimMode::Never).await.unwrap().turn;
    drop(ledger);
    let again = open(&data_dir).await;
    assert!(again.turn(turn).await.unwrap().is_some());
    let locks = fs::read_dir(data_dir.join("owners")).unwrap();
    let locks = locks.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "lock")).count();
    assert_eq!(locks, 1, "the lock of the first start is gone");
}

#[tokio::test]
async fn processes_can_open_new_directory_concurrently() {
    let directory = tempfile::tempdir().unwrap();
    let opened = futures::future::join_all((0..6).map(|_| open(directory.path()))).await;
    for (number, ledger) in opened.iter().enumerate() {
        ledger.receive(&message("console:a", &number.to_string()), ClaimMode::Never).await.unwrap();
    }
}

#[tokio::test]
async fn invalid_or_damaged_database_is_named_and_untouched() {
    for damage in ["not a database", "truncated in the middle"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("satchel.db");
        if damage == "not a database" {
            fs::write(&path, "Dear diary, ".repeat(1000)).unwrap();
        } else {
            let ledger = open(directory.path()).await;
            ledger.receive(&message("console:a", "1"), ClaimMode::Never).await.unwrap();
            drop(ledger);
            connect(directory.path()).pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
            let bytes = fs::read(&path).unwrap();
            let mut broken = bytes[..4096].to_vec();
            broken[100..].fill(0x55);
            fs::write(&path, broken).unwrap();
        }
        let before = fs::read(&path).unwrap();
        let error = refused(directory.path()).await;
        assert!(matches!(error, OpenError::Damaged { .. }), "{damage}: {error:?}");
        let words = error.to_string();
        assert!(words.contains("satchel.db") && words.contains("backup"), "{damage}: {words}");
        assert!(error.source().is_some());
        assert_eq!(fs::read(&path).unwrap(), before, "{damage}: the file is left as it was");
    }
}

#[tokio::test]
async fn newer_database_is_untouched_and_versions_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).await);
    connect(directory.path()).pragma_update(None, "user_version", 9999).unwrap();
    let error = refused(directory.path()).await;
    assert!(matches!(error, OpenError::Newer { found: 9999, known: 26, .. }), "{error:?}");
    let words = error.to_string();
    assert!(words.contains("newer Satchel") && words.contains("9999") && words.contains("up to 26"), "{words}");
}

#[tokio::test]
async fn file_as_data_directory_is_named_in_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    fs::write(&path, "").unwrap();
    let error = refused(&path).await;
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    let beneath = refused(&path.join("deeper")).await;
    assert!(matches!(beneath, OpenError::Other { .. }), "{beneath:?}");
}

#[tokio::test]
async fn what_may_not_be_written_is_told() {
    let Some(()) = required(obey_file_permissions()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().join("data");
    drop(open(&data_dir).await);
    let database = data_dir.join("satchel.db");
    fs::set_permissions(&database, fs::Permissions::from_mode(0o444)).unwrap();
    let file = refused(&data_dir).await;
    assert!(matches!(file, OpenError::ReadOnly { .. } | OpenError::NoPermission { .. }), "{file:?}");
    fs::set_permissions(&data_dir, fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(data_dir.join("owners"), fs::Permissions::from_mode(0o555)).unwrap();
    let directory = refused(&data_dir).await;
    fs::set_permissions(&data_dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(data_dir.join("owners"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(directory, OpenError::NoPermission { .. }), "{directory:?}");
}
