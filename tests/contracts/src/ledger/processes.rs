//! Promises of a ledger that several processes work with.

use std::num::NonZeroU64;

use satchel_domain::{Attachment, HistoryMessage};
use satchel_ports::ledger::{ClaimMode, HistoryChange, Lease, Ledger, LedgerError, WorkFilter};
use satchel_wait::wait_until_async;

use super::{
    LedgerFixture, assert_lost, completed_turn, conversation, message, new_file, receive, sent_settlement, settle,
    text_parts,
};

/// Catches: a history that one process remembers and another has changed, or in which a file has another number than
/// in the ledger.
pub async fn history_is_the_same_in_every_process(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let said = |text: &str| vec![HistoryMessage::Note { text: text.into() }];
    let reads_the_same = async |what: &str| {
        for limit in [3, 2, 10] {
            let read = one.archive.history(&message("", "").conversation, limit).await.unwrap();
            assert_eq!(
                read,
                two.archive.history(&message("", "").conversation, limit).await.unwrap(),
                "{what}: last {limit}"
            );
        }
    };
    let (lease, turn) = receive(&one, &message("1", "")).await;
    reads_the_same("before the first turn").await;
    let file = one.turns.register_files(turn, &[new_file("a.txt")]).await.unwrap().remove(0);
    let misnumbered = Attachment { number: NonZeroU64::MAX, ..file };
    let sent_in = HistoryMessage::Person {
        text: "this".into(),
        attachments: vec![misnumbered],
        refused: Vec::new(),
        origin: None,
    };
    complete_and_settle(&one, &lease, turn, HistoryChange::Append([said("a"), vec![sent_in]].concat())).await;
    reads_the_same("with a file").await;
    for (ledger, key, change) in [
        (&one, "2", HistoryChange::Append(said("b"))),
        (&two, "3", HistoryChange::Append(said("c"))),
        (&one, "4", HistoryChange::Append(said("d"))),
        (&one, "5", HistoryChange::Reset),
        (&one, "6", HistoryChange::Append(said("e"))),
        (&two, "7", HistoryChange::Reset),
        (&one, "8", HistoryChange::Append(said("f"))),
    ] {
        let (lease, turn) = receive(ledger, &message(key, "")).await;
        reads_the_same(&format!("claimed for {key}")).await;
        let brought = ledger.turns.next_turn(&lease).await.unwrap().unwrap().history;
        let stored = two.archive.history(&lease.conversation, 10).await.unwrap();
        assert_eq!(brought.as_ref(), stored, "with the turn of {key}");
        complete_and_settle(ledger, &lease, turn, change).await;
        reads_the_same(&format!("given back after {key}")).await;
    }
    assert_eq!(one.archive.history(&lease.conversation, 10).await.unwrap(), said("f"));
}

/// Catches: a lane that is given back, a part that is settled or a turn that is completed because nobody else is known
/// to have come between.
pub async fn writes_check_lease_in_transaction(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (lease, turn) = receive(&one, &message("1", "")).await;
    let part = one
        .turns
        .complete_turn(&lease, &completed_turn(turn, text_parts(&["a"])))
        .await
        .unwrap()
        .expect("nothing is under way");
    let again = one.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a"]))).await;
    assert!(matches!(again, Err(LedgerError::Unknown { .. })), "it is complete: {again:?}");
    two.inbox.receive(&message("2", ""), ClaimMode::Never).await.unwrap();
    let settled = settle(&one, &lease, &sent_settlement(&part, "1")).await;
    assert_eq!((settled.next, settled.released), (None, false), "another process has queued a turn");
    let second = one.turns.next_turn(&lease).await.unwrap().expect("it was queued").id;
    let mut elsewhere = message("3", "");
    elsewhere.conversation = conversation("console:elsewhere");
    let (other, third) = receive(&one, &elsewhere).await;
    let foreign = one.turns.complete_turn(&lease, &completed_turn(third, text_parts(&["c"]))).await;
    assert!(matches!(foreign, Err(LedgerError::Unknown { .. })), "the turn of another lane: {foreign:?}");

    let part = one.turns.complete_turn(&lease, &completed_turn(second, text_parts(&["b"]))).await.unwrap().unwrap();

    fixture.clock().advance(fixture.lease());
    let channels = [lease.conversation.channel().clone()];
    let mut taken = Vec::new();
    for _ in 0..2 {
        taken.push(two.leases.claim_lane(&channels, WorkFilter::Any).await.unwrap().expect("both have run out").lease);
    }
    let mine = taken.iter().find(|taken| taken.conversation == lease.conversation).unwrap();
    let settled = settle(&two, mine, &sent_settlement(&part, "2")).await;
    assert_eq!((settled.next, settled.released), (None, true));
    assert_lost(one.outbox.settle_part(&lease, &sent_settlement(&part, "3")).await, "settle_part");
    assert_lost(one.turns.complete_turn(&other, &completed_turn(third, text_parts(&["d"]))).await, "complete_turn");
    assert_eq!(
        two.archive.turn(second).await.unwrap().unwrap().parts,
        [sent_settlement(&part, "2").part],
        "nothing was settled again"
    );
    assert_eq!(two.archive.turn(third).await.unwrap().unwrap().parts, [], "nothing was completed");
}

/// Catches: a process that counts only itself, or one that has ended for good.
pub async fn open_processes_are_counted(fixture: &impl LedgerFixture) {
    let one = fixture.open().await;
    assert_eq!(one.archive.count_processes().await.unwrap(), 1);
    let two = fixture.open().await;
    assert_eq!(one.archive.count_processes().await.unwrap(), 2);
    assert_eq!(two.archive.count_processes().await.unwrap(), 2);
    drop(one);
    wait_until_async("the process that ended is gone", async || two.archive.count_processes().await.unwrap() == 1)
        .await;
}

/// Completes a turn with one part and settles that, so that its lane is given back.
async fn complete_and_settle(ledger: &Ledger, lease: &Lease, turn: satchel_domain::TurnId, change: HistoryChange) {
    let mut done = completed_turn(turn, text_parts(&["reply"]));
    done.history = change;
    let part = ledger.turns.complete_turn(lease, &done).await.unwrap().expect("it needs no preparation");
    assert!(settle(ledger, lease, &sent_settlement(&part, "9")).await.released);
}
