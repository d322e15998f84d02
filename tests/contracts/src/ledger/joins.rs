//! Promises about turns that become a part of an earlier one.

use std::time::Duration;

use satchel_domain::{InboundMessage, TurnId};
use satchel_ports::{
    Clock,
    ledger::{ClaimMode, InboundFileState, Lease, Ledger, WorkFilter},
};

use super::{LedgerFixture, completed_turn, message, model_message, new_file, receive, text_parts, with_files};

/// Stores a message behind a turn of the same lane.
async fn queue(ledger: &Ledger, message: &InboundMessage) -> TurnId {
    ledger.inbox.receive(message, ClaimMode::Never).await.unwrap().turn
}

/// The keys of the messages of the oldest turn.
async fn read_keys(ledger: &Ledger, lease: &Lease) -> Vec<String> {
    let turn = ledger.turns.next_turn(lease).await.unwrap().expect("one is queued");
    turn.messages.iter().map(|queued| queued.message.key.clone()).collect()
}

/// Catches: a message that is lost, answered twice or out of its order when its turn joins another, a file that can't be stored
/// any more, and a redelivery that makes a turn of its own.
pub async fn joined_turns_are_one(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "what is this?")).await;
    let file = queue(&ledger, &with_files(message("2", "see"), &["a.txt"])).await;
    let text = queue(&ledger, &message("3", "and that?")).await;
    let last = queue(&ledger, &message("4", "something else")).await;
    assert!(ledger.turns.join_turns(&lease, turn, &[file, text]).await.unwrap());

    assert_eq!(read_keys(&ledger, &lease).await, ["1", "2", "3"]);
    let read = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    assert!(read.id == turn && read.has_followers && read.ready_at <= fixture.clock().now(), "{read:?}");
    let behind = ledger.turns.list_queued_behind(&lease, turn).await.unwrap();
    assert_eq!(behind.iter().map(|queued| queued.turn).collect::<Vec<_>>(), [last]);
    let stored = ledger.turns.store_file(&lease, read.messages[1].id, 0, &new_file("a.txt")).await.unwrap();
    let read = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    assert_eq!(read.messages[1].files, [InboundFileState::Stored(stored)]);
    for key in ["1", "2", "3"] {
        let again = ledger.inbox.receive(&message(key, "again"), ClaimMode::IfFree).await.unwrap();
        assert!(again.duplicate && again.turn == turn, "{key}");
    }
    assert_eq!(ledger.archive.turn(file).await.unwrap().unwrap().id, turn, "who waits for it finds its answer there");

    ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["reply"]))).await.unwrap();
    assert_eq!(ledger.archive.turn(text).await.unwrap().unwrap().messages.len(), 3);
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().id, last);
}

/// Catches: a join of which a process that dies leaves the half.
pub async fn joined_turns_survive_crash(fixture: &impl LedgerFixture) {
    let one = fixture.open().await;
    let (lease, turn) = receive(&one, &message("1", "what is this?")).await;
    let file = queue(&one, &with_files(message("2", ""), &["a.txt"])).await;
    assert!(one.turns.join_turns(&lease, turn, &[file]).await.unwrap());
    drop(one);
    fixture.after_death();
    let two = fixture.open().await;
    let channel = [lease.conversation.channel().clone()];
    let claimed = two.leases.claim_lane(&channel, WorkFilter::Any).await.unwrap().expect("its owner is gone");
    assert_eq!(read_keys(&two, &claimed.lease).await, ["1", "2"]);
    two.turns.complete_turn(&claimed.lease, &completed_turn(turn, Vec::new())).await.unwrap();
    assert_eq!(two.turns.next_turn(&claimed.lease).await.unwrap(), None);
}

/// Catches: messages that join a turn which has called tools or shown something without them, and are consumed unseen; and a join
/// of some turns where others have been answered.
pub async fn started_turn_is_not_joined(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, first) = receive(&ledger, &message("1", "one")).await;
    let second = queue(&ledger, &message("2", "two")).await;
    let third = queue(&ledger, &message("3", "three")).await;
    assert!(!ledger.turns.join_turns(&lease, second, &[first]).await.unwrap(), "it is behind nothing");
    assert!(!ledger.turns.join_turns(&lease, first, &[second, TurnId(uuid::Uuid::nil())]).await.unwrap());
    assert!(!ledger.turns.join_turns(&lease, first, &[]).await.unwrap());
    assert_eq!(read_keys(&ledger, &lease).await, ["1"], "all or none");

    let entry = model_message("looking", Vec::new());
    ledger.turns.journal_message(&lease, first, &entry).await.unwrap();
    assert!(!ledger.turns.join_turns(&lease, first, &[second]).await.unwrap(), "journalled");
    ledger.turns.complete_turn(&lease, &completed_turn(first, Vec::new())).await.unwrap();
    assert!(!ledger.turns.join_turns(&lease, first, &[second]).await.unwrap(), "completed");

    ledger.outbox.open_draft(&lease, second, None).await.unwrap().expect("nothing else is on its way");
    assert!(!ledger.turns.join_turns(&lease, second, &[third]).await.unwrap(), "shown");
    assert_eq!(read_keys(&ledger, &lease).await, ["2"]);
}

/// Catches: an album that joins a comment, and whose last photos are answered by themselves.
pub async fn joined_album_accepts_its_rest(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let photo = |key: &str| InboundMessage { album: Some("a".into()), ..with_files(message(key, ""), &["p.jpg"]) };
    let (lease, turn) = receive(&ledger, &message("1", "which one?")).await;
    let album = queue(&ledger, &photo("2")).await;
    assert!(ledger.turns.join_turns(&lease, turn, &[album]).await.unwrap());
    let ready_at = ledger.turns.next_turn(&lease).await.unwrap().unwrap().ready_at;
    assert!(ready_at > fixture.clock().now(), "it waits for the album");
    fixture.clock().advance(Duration::from_millis(1));
    assert_eq!(queue(&ledger, &photo("3")).await, turn);
    assert!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().ready_at > ready_at);
    assert_eq!(read_keys(&ledger, &lease).await, ["1", "2", "3"]);
}
