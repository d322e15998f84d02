//! Promises about drafts: the messages in which replies grow.

use satchel_domain::{
    MessageRef, Part, PartContent, PartState, Timestamp,
    part::{FailureReason, Operation, PlannedPart},
};
use satchel_ports::{
    Clock,
    ledger::{ClaimMode, Lease, Ledger, WorkFilter},
};

use super::{
    LedgerFixture, completed_turn, message, part_text, receive, sent_settlement, settle, settlement, text_parts,
};

async fn open_draft(ledger: &Ledger) -> (Lease, Part) {
    let (lease, turn) = receive(ledger, &message("1", "hello")).await;
    let draft = ledger.outbox.open_draft(&lease, turn, Some(MessageRef("m-1".into()))).await.unwrap().unwrap();
    (lease, draft)
}

/// Catches: a draft that overtakes an earlier reply, one that is delivered as a part, a second one for one turn.
pub async fn draft_opens_only_when_settled(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, draft) = open_draft(&ledger).await;
    assert_eq!((draft.state.clone(), draft.attempts), (PartState::Sending, 1));
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap(), None, "it belongs to the turn, not to delivery");
    let again = ledger.outbox.open_draft(&lease, draft.turn, None).await.unwrap();
    assert_eq!(again.as_ref(), Some(&draft));
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().draft, Some(draft.clone()));

    ledger.inbox.receive(&message("2", "more"), ClaimMode::Never).await.unwrap();
    let part = ledger.turns.complete_turn(&lease, &completed_turn(draft.turn, text_parts(&["a"]))).await.unwrap();
    assert_eq!(part, None, "nobody knows whether the draft arrived");
    let second = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
    assert_eq!(ledger.outbox.open_draft(&lease, second, None).await.unwrap(), None);
    let part = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    settle(&ledger, &lease, &sent_settlement(&part, "1")).await;
    assert!(ledger.outbox.open_draft(&lease, second, None).await.unwrap().is_some());
}

/// Catches: a reply that is sent beside its draft.
pub async fn first_part_edits_draft(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, draft) = open_draft(&ledger).await;
    let known = Part { state: PartState::Open { message: MessageRef("50".into()) }, ..draft.clone() };
    ledger.outbox.save_part(&lease, &known).await.unwrap();
    drop(ledger);
    fixture.after_death();
    let ledger = fixture.open().await;
    let lease = ledger
        .leases
        .claim_lane(&[lease.conversation.channel().clone()], WorkFilter::Any)
        .await
        .unwrap()
        .unwrap()
        .lease;
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().draft, Some(known.clone()));

    let begun = ledger
        .turns
        .complete_turn(&lease, &completed_turn(draft.turn, text_parts(&["a", "b"])))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((begun.id, begun.target(), part_text(&begun)), (draft.id, Some(&MessageRef("50".into())), "a"));
    assert_eq!((begun.state.clone(), begun.attempts), (PartState::Sending, 2));
    assert_eq!(begun.first_attempt_at, draft.first_attempt_at);
    let second = settle(&ledger, &lease, &sent_settlement(&begun, "50")).await.next.unwrap();
    assert_eq!((part_text(&second), second.target()), ("b", None));
    assert_eq!(ledger.archive.turn(draft.turn).await.unwrap().unwrap().parts.len(), 2);
}

/// Catches: a message that may have arrived and is sent again as if it certainly had not.
pub async fn draft_in_doubt_stays_in_doubt(fixture: &impl LedgerFixture) {
    let doubt = PartState::InDoubt { until: Timestamp(5), reason: "reset".into() };
    for state in [None, Some(doubt.clone())] {
        let ledger = fixture.open().await;
        let key = format!("{state:?}");
        let mut own = message(&key, "hello");
        own.conversation = super::conversation(if state.is_some() { "console:a" } else { "console:b" });
        let (lease, turn) = receive(&ledger, &own).await;
        let draft = ledger.outbox.open_draft(&lease, turn, None).await.unwrap().unwrap();
        if let Some(state) = state.clone() {
            ledger.outbox.save_part(&lease, &Part { state, ..draft.clone() }).await.unwrap();
        }
        assert_eq!(ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a"]))).await.unwrap(), None);
        let part = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
        assert_eq!((part.id, part.attempts, part_text(&part)), (draft.id, 1, "a"));
        assert_eq!(part.first_attempt_at, draft.first_attempt_at, "its key's window counts from there");
        match state {
            Some(doubt) => assert_eq!(part.state, doubt),
            None => assert!(matches!(part.state, PartState::InDoubt { .. }), "{:?}", part.state),
        }
    }
}

/// Catches: a message that certainly did not arrive, or is gone, and is edited, probed, waited for, or sent under its key.
pub async fn lost_draft_is_sent_anew(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, draft) = open_draft(&ledger).await;
    let until = fixture.clock().now().saturating_add(std::time::Duration::from_secs(60));
    let refused = Part { state: PartState::Waiting { until, reason: "429".into() }, ..draft.clone() };
    ledger.outbox.save_part(&lease, &refused).await.unwrap();
    let begun =
        ledger.turns.complete_turn(&lease, &completed_turn(draft.turn, text_parts(&["a"]))).await.unwrap().unwrap();
    assert_ne!(begun.id, draft.id, "its id is its key");
    assert_eq!((begun.state.clone(), begun.attempts), (PartState::Sending, 1));
    assert_eq!((begun.target(), begun.labelled), (None, false));
    let parts = ledger.archive.turn(draft.turn).await.unwrap().unwrap().parts;
    assert_eq!(parts.iter().map(|part| part.id).collect::<Vec<_>>(), [begun.id]);
}

/// Catches: half of a text that is left standing beside a reply without one, or a message that nobody knows and is to be
/// deleted.
pub async fn draft_without_text_is_deleted(fixture: &impl LedgerFixture) {
    let open = PartState::Open { message: MessageRef("50".into()) };
    for (key, state, deleted) in [("a", open, true), ("b", PartState::Sending, false)] {
        let ledger = fixture.open().await;
        let mut own = message(key, "hello");
        own.conversation = super::conversation(&format!("console:{key}"));
        let (lease, turn) = receive(&ledger, &own).await;
        let draft = ledger.outbox.open_draft(&lease, turn, None).await.unwrap().unwrap();
        ledger.outbox.save_part(&lease, &Part { state, ..draft.clone() }).await.unwrap();
        let notice = PlannedPart::new(PartContent::Notice { text: "nothing".into() });
        let begun = ledger.turns.complete_turn(&lease, &completed_turn(turn, vec![notice])).await.unwrap().unwrap();
        let parts = ledger.archive.turn(turn).await.unwrap().unwrap().parts;
        if deleted {
            assert_eq!(begun.operation, Operation::Delete { message: MessageRef("50".into()) });
            assert_eq!(parts.iter().map(|part| part.position).collect::<Vec<_>>(), [0, 1]);
            assert_eq!(
                ledger.outbox.last_sent_before(parts[1].id).await.unwrap(),
                None,
                "it is not there to stand behind"
            );
            let next = settle(&ledger, &lease, &sent_settlement(&begun, "50")).await.next.unwrap();
            assert_eq!(part_text(&next), "nothing");
        } else {
            assert_ne!(begun.id, draft.id, "its key may belong to the draft");
            assert_eq!(parts.iter().map(|part| part.state.as_str()).collect::<Vec<_>>(), ["replaced", "sending"]);
            let recorded = ledger.outbox.list_recorded_messages(&own.conversation, begun.id).await.unwrap();
            assert!(recorded.other_doubt, "the draft may be there, unknown");
        }
    }
}

/// Catches: a draft that could not be deleted, of which the model is told as if something had been lost.
pub async fn failed_deletion_is_not_reported(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, draft) = open_draft(&ledger).await;
    let open = PartState::Open { message: MessageRef("50".into()) };
    ledger.outbox.save_part(&lease, &Part { state: open, ..draft.clone() }).await.unwrap();
    let deletion = ledger.turns.complete_turn(&lease, &completed_turn(draft.turn, Vec::new())).await.unwrap().unwrap();
    let reason = FailureReason::Forbidden { reason: "no".into() };
    let failed = Part { state: PartState::Failed { reason }, ..deletion };
    assert!(settle(&ledger, &lease, &settlement(failed)).await.released);
    let received = ledger.inbox.receive(&message("2", "more"), ClaimMode::IfFree).await.unwrap();
    assert_eq!(received.claimed.unwrap().turn.unwrap().unreported_failures, []);
    assert_eq!(ledger.archive.turn(draft.turn).await.unwrap().unwrap().routing_errors(), []);
}
