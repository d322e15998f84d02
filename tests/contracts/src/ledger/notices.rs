//! Promises about notices of what was not delivered.

use satchel_domain::{
    MessageRef, Part, PartState, TurnId,
    part::{FailureReason, PlannedPart},
};
use satchel_ports::ledger::{ClaimMode, CompletedTurn, Lease, Ledger, Settlement};

use super::{
    LedgerFixture, completed_turn, message, part_text, receive, sent_settlement, settle, settlement, text_parts,
};

/// What stands before the notices that are repeated.
const HEADING: &str = "About earlier replies of mine:";

fn failed(part: &Part, reason: FailureReason) -> Settlement {
    settlement(Part { state: PartState::Failed { reason }, ..part.clone() })
}

fn blocked() -> FailureReason {
    FailureReason::Forbidden { reason: "blocked".into() }
}

/// Completes a turn that answers a message, and returns its first part.
async fn reply(ledger: &Ledger, key: &str, parts: Vec<PlannedPart>) -> (Lease, TurnId, Part) {
    let (lease, turn) = receive(ledger, &message(key, "hello")).await;
    let reply_to = Some(MessageRef(format!("m-{key}")));
    let done = CompletedTurn { reply_to, ..completed_turn(turn, parts) };
    let part = ledger.turns.complete_turn(&lease, &done).await.unwrap().expect("it has a part");
    (lease, turn, part)
}

/// Lets a reply of one text fail, with the notice about it.
async fn lose_reply(ledger: &Ledger, key: &str, notice: &str, reason: FailureReason) -> TurnId {
    let (lease, turn, part) = reply(ledger, key, text_parts(&["lost"])).await;
    let lost = Settlement { notice: Some(notice.into()), ..failed(&part, blocked()) };
    let notice = settle(ledger, &lease, &lost).await.next.expect("the notice");
    let settled = settle(ledger, &lease, &failed(&notice, reason)).await;
    assert_eq!((settled.next, settled.released), (None, true), "nothing has arrived that could take it along");
    turn
}

/// Whether the notice of each failure of which the model doesn't know yet has arrived.
async fn announcements(ledger: &Ledger, lease: &Lease) -> Vec<bool> {
    let next = ledger.turns.next_turn(lease).await.unwrap().expect("a turn is queued");
    next.unreported_failures.iter().map(|error| error.notice_arrived).collect()
}

/// Catches: a person who never learns of what was lost, learns of it twice, or before a reply can reach them at all; and a
/// model that isn't told when they do.
pub async fn failed_notices_follow_the_next_reply_that_arrives(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    lose_reply(&ledger, "1", "One is lost.", blocked()).await;
    let doubtful = FailureReason::MayHaveArrived { reason: "reset".into() };
    let newest = lose_reply(&ledger, "2", "Two is lost.", doubtful).await;

    let (lease, turn, first) = reply(&ledger, "3", text_parts(&["a", "b"])).await;
    ledger.inbox.receive(&message("4", "and?"), ClaimMode::Never).await.unwrap();
    let second = settle(&ledger, &lease, &sent_settlement(&first, "1")).await.next.expect("its rest");
    assert_eq!((part_text(&second), second.turn), ("b", turn), "the reply is not interrupted");
    assert_eq!(announcements(&ledger, &lease).await, [false, false]);
    let notice = settle(&ledger, &lease, &sent_settlement(&second, "2")).await.next.expect("the notice");
    assert_eq!(part_text(&notice), format!("{HEADING}\n\nOne is lost.\n\nTwo is lost."));
    assert!(notice.is_notice() && notice.state == PartState::Sending);
    assert_eq!((notice.turn, notice.reply_to.clone()), (newest, Some(MessageRef("m-2".into()))));
    let record = ledger.archive.turn(newest).await.unwrap().unwrap();
    assert_eq!(record.parts.last(), Some(&notice));
    assert_eq!(record.parts[1].state, PartState::Replaced { by: vec![notice.id] });
    assert_eq!(announcements(&ledger, &lease).await, [false, false], "it is still to be sent");

    let settled = settle(&ledger, &lease, &sent_settlement(&notice, "3")).await;
    assert_eq!(settled.next, None, "once");
    assert_eq!(announcements(&ledger, &lease).await, [true, true]);
}

/// Catches: a notice that is tried twice and then forgotten.
pub async fn repeated_notice_that_fails_is_repeated_again(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let lost = lose_reply(&ledger, "1", "One is lost.", blocked()).await;
    for key in ["2", "3"] {
        let (lease, _, part) = reply(&ledger, key, text_parts(&["a"])).await;
        let notice = settle(&ledger, &lease, &sent_settlement(&part, key)).await.next.expect("the notice");
        assert_eq!((part_text(&notice), notice.turn), (format!("{HEADING}\n\nOne is lost.").as_str(), lost));
        let settled = settle(&ledger, &lease, &failed(&notice, blocked())).await;
        assert_eq!((settled.next, settled.released), (None, true));
    }
}

/// Catches: a notice that follows a reply which reached nobody, that an operator has discarded, or that the model knows of
/// and the person doesn't.
pub async fn notices_are_repeated_behind_what_arrives_alone(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    lose_reply(&ledger, "1", "One is lost.", FailureReason::Discarded).await;
    let (lease, _, part) = reply(&ledger, "2", text_parts(&["a"])).await;
    let settled = settle(&ledger, &lease, &sent_settlement(&part, "1")).await;
    assert_eq!((settled.next, settled.released), (None, true), "nobody wants it sent");

    lose_reply(&ledger, "3", "Three is lost.", blocked()).await;
    let (lease, turn) = receive(&ledger, &message("4", "and?")).await;
    let reported = ledger.turns.next_turn(&lease).await.unwrap().unwrap().unreported_failures;
    assert_eq!(reported.len(), 2, "the lost texts: a notice that is never repeated would be read with every turn");
    let mut done = completed_turn(turn, text_parts(&["a", "b"]));
    done.reported_failures = reported.iter().map(|error| error.part).collect();
    let part = ledger.turns.complete_turn(&lease, &done).await.unwrap().expect("it has a part");
    let second = settle(&ledger, &lease, &sent_settlement(&part, "2")).await.next.expect("its rest");
    let settled = settle(&ledger, &lease, &failed(&second, blocked())).await;
    assert_eq!((settled.next, settled.released), (None, true), "the end of the reply has not arrived");
    let (lease, _, part) = reply(&ledger, "5", text_parts(&["a"])).await;
    let notice = settle(&ledger, &lease, &sent_settlement(&part, "3")).await.next.expect("the notice");
    assert_eq!(part_text(&notice), format!("{HEADING}\n\nThree is lost."));
}

/// Catches: a model that takes a reply for one of which a part was read, or the other way round.
pub async fn failure_says_whether_text_arrived(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn, first) = reply(&ledger, "1", text_parts(&["a", "b"])).await;
    ledger.inbox.receive(&message("2", "and?"), ClaimMode::Never).await.unwrap();
    let text_arrived = async || {
        let next = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
        assert_eq!(next.unreported_failures, ledger.archive.turn(turn).await.unwrap().unwrap().routing_errors());
        next.unreported_failures.iter().map(|error| error.text_arrived).collect::<Vec<_>>()
    };
    let second = settle(&ledger, &lease, &failed(&first, blocked())).await.next.expect("its rest");
    assert_eq!(text_arrived().await, [false]);
    settle(&ledger, &lease, &sent_settlement(&second, "1")).await;
    assert_eq!(text_arrived().await, [true]);

    let next = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
    let mut done = completed_turn(next, text_parts(&["c"]));
    done.reported_failures = vec![first.id];
    let streamed = ledger.turns.complete_turn(&lease, &done).await.unwrap().expect("it has a part");
    let streamed = streamed.into_edit_of(MessageRef("2".into()));
    settle(&ledger, &lease, &failed(&streamed, blocked())).await;
    let (lease, _) = receive(&ledger, &message("3", "and?")).await;
    let unreported = ledger.turns.next_turn(&lease).await.unwrap().unwrap().unreported_failures;
    assert_eq!(unreported.iter().map(|error| error.text_arrived).collect::<Vec<_>>(), [true], "its beginning is read");
}
