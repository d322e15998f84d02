//! Promises about streamed replies.

use satchel_domain::{MessageRef, Part, PartState, Timestamp};
use satchel_ports::ledger::{ClaimMode, Lease, Ledger};

use super::{LedgerFixture, completed_turn, message, part_text, receive, sent_settlement, settle, text_parts};

async fn start_stream(ledger: &Ledger) -> (Lease, Part) {
    let (lease, turn) = receive(ledger, &message("1", "hello")).await;
    let stream = ledger.outbox.begin_stream(&lease, turn, Some(MessageRef("m-1".into()))).await.unwrap().unwrap();
    (lease, stream)
}

/// Catches: a stream that overtakes an earlier reply, one that delivery takes for a part, a second one for one turn.
pub async fn stream_starts_only_when_settled(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, stream) = start_stream(&ledger).await;
    assert_eq!((stream.state.clone(), stream.attempts), (PartState::Sending, 1));
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap(), None, "it belongs to the turn, not to delivery");
    let again = ledger.outbox.begin_stream(&lease, stream.turn, None).await.unwrap();
    assert_eq!(again.as_ref(), Some(&stream));
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().stream, Some(stream.clone()));

    ledger.inbox.receive(&message("2", "more"), ClaimMode::Never).await.unwrap();
    let part = ledger.turns.complete_turn(&lease, &completed_turn(stream.turn, text_parts(&["a"]))).await.unwrap();
    assert_eq!(part, None, "nobody knows whether the streamed message arrived");
    let second = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
    assert_eq!(ledger.outbox.begin_stream(&lease, second, None).await.unwrap(), None);
    let part = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    settle(&ledger, &lease, &sent_settlement(&part, "1")).await;
    assert!(ledger.outbox.begin_stream(&lease, second, None).await.unwrap().is_some());
}

/// Catches: a reply that is sent beside the message in which it was streamed.
pub async fn first_part_edits_streamed_message(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, stream) = start_stream(&ledger).await;
    let known = Part { target: Some(MessageRef("50".into())), ..stream.clone() };
    ledger.outbox.save_part(&lease, &known).await.unwrap();
    drop(ledger);
    let ledger = fixture.open().await;
    let lease = ledger.leases.claim_lane(&[lease.conversation.channel().clone()]).await.unwrap().unwrap().lease;
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().stream, Some(known.clone()));

    let begun = ledger
        .turns
        .complete_turn(&lease, &completed_turn(stream.turn, text_parts(&["a", "b"])))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((begun.id, begun.target.clone(), part_text(&begun)), (stream.id, known.target, "a"));
    assert_eq!((begun.state.clone(), begun.attempts), (PartState::Sending, 2));
    assert_eq!(begun.first_attempt_at, stream.first_attempt_at);
    let second = settle(&ledger, &lease, &sent_settlement(&begun, "50")).await.next.unwrap();
    assert_eq!((part_text(&second), second.target.clone()), ("b", None));
    assert_eq!(ledger.archive.turn(stream.turn).await.unwrap().unwrap().parts.len(), 2);
}

/// Catches: a message that may have arrived and is sent again as if it certainly had not.
pub async fn streamed_message_stays_in_doubt(fixture: &impl LedgerFixture) {
    let doubt = PartState::InDoubt { until: Timestamp(5), reason: "reset".into() };
    for state in [None, Some(doubt.clone())] {
        let ledger = fixture.open().await;
        let key = format!("{state:?}");
        let mut own = message(&key, "hello");
        own.conversation = super::conversation(if state.is_some() { "console:a" } else { "console:b" });
        let (lease, turn) = receive(&ledger, &own).await;
        let stream = ledger.outbox.begin_stream(&lease, turn, None).await.unwrap().unwrap();
        if let Some(state) = state.clone() {
            ledger.outbox.save_part(&lease, &Part { state, ..stream.clone() }).await.unwrap();
        }
        assert_eq!(ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a"]))).await.unwrap(), None);
        let part = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
        assert_eq!((part.id, part.attempts, part_text(&part)), (stream.id, 1, "a"));
        assert_eq!(part.first_attempt_at, stream.first_attempt_at, "its key's window counts from there");
        match state {
            Some(doubt) => assert_eq!(part.state, doubt),
            None => assert!(matches!(part.state, PartState::InDoubt { .. }), "{:?}", part.state),
        }
    }
}

/// Catches: a message that certainly did not arrive, or is gone, and is edited, probed, waited for, or sent under its key.
pub async fn lost_streamed_message_is_resent(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, stream) = start_stream(&ledger).await;
    let until = fixture.clock().now().saturating_add(std::time::Duration::from_secs(60));
    let refused = Part { state: PartState::Waiting { until, reason: "429".into() }, ..stream.clone() };
    ledger.outbox.save_part(&lease, &refused).await.unwrap();
    let begun =
        ledger.turns.complete_turn(&lease, &completed_turn(stream.turn, text_parts(&["a"]))).await.unwrap().unwrap();
    assert_ne!(begun.id, stream.id, "its id is its key");
    assert_eq!((begun.state.clone(), begun.attempts), (PartState::Sending, 1));
    assert_eq!((begun.target, begun.labelled), (None, false));
    let parts = ledger.archive.turn(stream.turn).await.unwrap().unwrap().parts;
    assert_eq!(parts.iter().map(|part| part.id).collect::<Vec<_>>(), [begun.id]);
}
