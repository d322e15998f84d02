//! Many callers share a commit, and one that fails doesn't hurt the others.

use futures::future::join_all;
use satchel_ports::{
    Inbox, Leases, Outbox, Turns,
    ledger::{ClaimMode, HolderId, Lease, LedgerError, ReleaseMode, WorkFilter},
};

use crate::{completed, message, open, sent};

#[tokio::test]
async fn callers_that_wait_at_once_share_commits() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = open(directory.path()).await;
    let messages: Vec<_> = (0..100).map(|number| message(&format!("console:{number}"), "1")).collect();
    let received = join_all(messages.iter().map(|message| ledger.receive(message, ClaimMode::IfFree))).await;
    assert!(received.iter().all(|received| received.as_ref().unwrap().claimed.is_some()));
    assert!(ledger.commits() <= 10, "{} commits for 100 messages", ledger.commits());
}

#[tokio::test]
async fn verb_that_fails_is_undone_alone() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = open(directory.path()).await;
    let good = ledger.receive(&message("console:a", "1"), ClaimMode::IfFree).await.unwrap();
    let lease = good.claimed.unwrap().lease;
    let lost = Lease { holder: HolderId(uuid::Uuid::now_v7()), ..lease.clone() };
    let others: Vec<_> = (0..10).map(|number| message(&format!("console:b{number}"), "1")).collect();
    let before = ledger.commits();
    let done = completed(good.turn, &["reply"]);
    let (failed, stored, stale, good) = tokio::join!(
        ledger.release(&lost, ReleaseMode::Always),
        join_all(others.iter().map(|message| ledger.receive(message, ClaimMode::Never))),
        ledger.complete_turn(&lost, &done),
        ledger.complete_turn(&lease, &done),
    );
    assert!(matches!(failed, Err(LedgerError::LeaseLost(_))), "{failed:?}");
    assert!(matches!(stale, Err(LedgerError::LeaseLost(_))), "{stale:?}");
    assert!(stored.iter().all(Result::is_ok));
    assert!(good.unwrap().is_some());
    assert!(ledger.commits() - before <= 3, "they were in one group: {}", ledger.commits() - before);
}

/// The budget of `receive`, `complete_turn` and `settle_part`: one commit each, n + 2 for n parts, none for a read.
#[tokio::test]
async fn turn_costs_two_commits_plus_one_per_part() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = open(directory.path()).await;
    for texts in [&["one"][..], &["one", "two", "three"]] {
        let before = ledger.commits();
        let received =
            ledger.receive(&message("console:a", &texts.len().to_string()), ClaimMode::IfFree).await.unwrap();
        let lease = received.claimed.unwrap().lease;
        assert!(ledger.next_turn(&lease).await.unwrap().is_some());
        assert!(ledger.list_queued_behind(&lease, received.turn).await.unwrap().is_empty());
        let mut next = ledger.complete_turn(&lease, &completed(received.turn, texts)).await.unwrap();
        let mut released = false;
        while let Some(part) = next {
            assert_eq!(ledger.next_part(&lease).await.unwrap().as_ref(), Some(&part));
            let settled = ledger.settle_part(&lease, &sent(&part)).await.unwrap();
            (next, released) = (settled.next, settled.released);
        }
        assert!(released);
        assert_eq!(ledger.claim_lane(&[lease.conversation.channel().clone()], WorkFilter::Any).await.unwrap(), None);
        assert_eq!(ledger.commits() - before, texts.len() as u64 + 2);
    }
}

#[tokio::test]
async fn two_processes_write_to_one_directory_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (open(directory.path()).await, open(directory.path()).await);
    let messages: Vec<_> = (0..50).map(|number| message("console:a", &number.to_string())).collect();
    let (first, second) = tokio::join!(
        join_all(messages.iter().map(|message| one.receive(message, ClaimMode::IfFree))),
        join_all(messages.iter().map(|message| two.receive(message, ClaimMode::IfFree))),
    );
    let received: Vec<_> = first.into_iter().chain(second).map(Result::unwrap).collect();
    assert_eq!(received.iter().filter(|received| received.duplicate).count(), 50, "each is stored once");
    assert_eq!(received.iter().filter(|received| received.claimed.is_some()).count(), 1, "one of them has the lane");
    for (by_one, by_two) in received[..50].iter().zip(&received[50..]) {
        assert_eq!(by_one.turn, by_two.turn);
    }
}
