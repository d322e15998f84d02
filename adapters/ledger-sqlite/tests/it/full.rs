//! A full disk is an error that passes.

use std::sync::Arc;

use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{SystemClock, UuidV7};
use satchel_ports::{
    Archive, Inbox,
    ledger::{ClaimMode, LedgerError},
};

use crate::message;

#[tokio::test]
async fn full_database_is_reported_and_recoverable() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { max_bytes: Some(400 * 1024), ..Settings::default() };
    let ledger =
        SqliteLedger::open(directory.path(), settings, Arc::new(SystemClock::new()), Arc::new(UuidV7)).await.unwrap();
    let small = ledger.receive(&message("console:a", "small"), ClaimMode::Never).await.unwrap();
    let mut large = message("console:a", "large");
    large.text = "x".repeat(600 * 1024);
    for _ in 0..2 {
        let answers = futures::future::join_all((0..8).map(|_| ledger.receive(&large, ClaimMode::Never))).await;
        for answer in answers {
            assert!(matches!(answer, Err(LedgerError::Full)), "{answer:?}");
        }
    }
    assert!(ledger.turn(small.turn).await.unwrap().is_some());
    let after = ledger.receive(&message("console:a", "after"), ClaimMode::Never).await.unwrap();
    assert!(!after.duplicate, "what fits is stored");
    large.text.clear();
    assert!(!ledger.receive(&large, ClaimMode::Never).await.unwrap().duplicate, "nothing of the failed ones was kept");
}
