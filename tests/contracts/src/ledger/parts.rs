//! Promises about parts.

use std::time::Duration;

use satchel_domain::{
    InboundMessage, MessageRef, Part, PartContent, PartState,
    part::{FailureReason, PlannedPart},
};
use satchel_ports::{
    Clock,
    ledger::{ClaimMode, LedgerError, OutboxQuery, Settlement},
};
use uuid::Uuid;

use super::{
    LedgerFixture, completed_turn, conversation, file_part, message, new_file, part_text, receive, sent_settlement,
    settle, settlement, text_parts,
};

fn failed_settlement(part: &Part) -> Settlement {
    let state = PartState::Failed { reason: FailureReason::Forbidden { reason: "blocked".into() } };
    settlement(Part { state, ..part.clone() })
}

/// Catches: a first part that costs a commit of its own, and one that is begun while an earlier one is in flight.
pub async fn first_part_starts_with_turn(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    ledger.inbox.receive(&message("2", "more"), ClaimMode::Never).await.unwrap();
    let begun = ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["one"]))).await.unwrap().unwrap();
    assert_eq!((begun.state.clone(), begun.attempts, part_text(&begun)), (PartState::Sending, 1, "one"));
    assert!(begun.first_attempt_at.is_some() && begun.target().is_none() && !begun.labelled);
    assert_eq!(begun.reply_to, Some(MessageRef("m-1".into())));
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap(), Some(begun.clone()));

    let second = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
    assert_eq!(ledger.turns.complete_turn(&lease, &completed_turn(second, text_parts(&["two"]))).await.unwrap(), None);
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap(), Some(begun), "the earlier one comes first");
}

/// Catches: a voice that is sent before it was spoken.
pub async fn unready_part_is_not_started(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let voice = PartContent::Voice {
        text: "hello".into(),
        in_text: false,
        prepared: None,
        as_file: false,
        caption: String::new(),
    };
    let plan = vec![PlannedPart::new(voice.clone()), PlannedPart::new(voice)];
    assert_eq!(ledger.turns.complete_turn(&lease, &completed_turn(turn, plan)).await.unwrap(), None);
    let part = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    assert_eq!((part.state.clone(), part.attempts), (PartState::Pending, 0));
    let next = settle(&ledger, &lease, &failed_settlement(&part)).await.next.unwrap();
    assert_eq!((next.state, next.attempts), (PartState::Pending, 0), "nor after another");
}

/// Catches: a file over the limit that is tried all the same, or stops what follows it.
pub async fn refused_part_is_failed(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let reason = FailureReason::TooLarge { limit: 50 };
    let mut plan = text_parts(&["too big", "fits"]);
    plan[0].failure = Some(reason.clone());
    let begun = ledger.turns.complete_turn(&lease, &completed_turn(turn, plan)).await.unwrap().unwrap();
    assert_eq!(part_text(&begun), "fits");
    let record = ledger.archive.turn(turn).await.unwrap().unwrap();
    assert_eq!(record.parts[0].state, PartState::Failed { reason });
}

/// Catches: parts in the order of their ids, a next part that waits for a commit of its own, a lane held for nothing.
pub async fn settle_starts_next_part_or_releases(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    ledger.inbox.receive(&message("2", "more"), ClaimMode::Never).await.unwrap();
    let mut part =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a", "b"]))).await.unwrap().unwrap();
    let second = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
    ledger.turns.complete_turn(&lease, &completed_turn(second, text_parts(&["c"]))).await.unwrap();
    for (expected, number) in [("a", 0), ("b", 1)] {
        assert_eq!((part_text(&part), part.state.clone()), (expected, PartState::Sending));
        let settled = settle(&ledger, &lease, &sent_settlement(&part, &format!("s{number}"))).await;
        assert!(!settled.released);
        part = settled.next.unwrap();
    }
    assert_eq!((part_text(&part), part.attempts), ("c", 1));
    let settled = settle(&ledger, &lease, &sent_settlement(&part, "s2")).await;
    assert_eq!((settled.next, settled.released), (None, true));
    let next = ledger.inbox.receive(&message("3", "again"), ClaimMode::IfFree).await.unwrap().claimed;
    assert!(next.expect("the lane was released").lease.token > lease.token);
}

/// Catches: a second answer for one part, which would overwrite the first.
pub async fn part_settles_once(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let part =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a", "b"]))).await.unwrap().unwrap();
    let unsettled = ledger.outbox.settle_part(&lease, &settlement(part.clone())).await;
    assert!(unsettled.is_err(), "a part that isn't settled: {unsettled:?}");
    let done = ledger.outbox.save_part(&lease, &sent_settlement(&part, "1").part).await;
    assert!(done.is_err(), "a settled part is settled, not saved: {done:?}");
    settle(&ledger, &lease, &sent_settlement(&part, "1")).await;
    for result in [
        ledger.outbox.settle_part(&lease, &failed_settlement(&part)).await.map(|_| ()),
        ledger.outbox.save_part(&lease, &part).await,
        ledger.outbox.discard_part(part.id).await,
    ] {
        assert!(matches!(result, Err(LedgerError::AlreadySettled(id)) if id == part.id), "{result:?}");
    }
    assert_eq!(ledger.archive.turn(turn).await.unwrap().unwrap().parts[0], sent_settlement(&part, "1").part);
}

/// Catches: children behind what followed their parent, without its label, or that edit a message that was a file's.
pub async fn children_keep_parents_position(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let part =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a", "z"]))).await.unwrap().unwrap();
    let mut with_label = Part { labelled: true, ..part.clone() }.into_edit_of(MessageRef("77".into()));
    with_label.attempts = 4;
    let replaced = Settlement { children: text_parts(&["b", "c"]), ..settlement(with_label.clone()) };
    let first = settle(&ledger, &lease, &replaced).await.next.unwrap();
    assert_eq!((part_text(&first), first.attempts, first.labelled), ("b", 1, true));
    assert_eq!(first.target(), with_label.target(), "the message that exists is edited");
    assert_eq!((first.created_at, first.reply_to.clone()), (part.created_at, part.reply_to.clone()));
    let record = ledger.archive.turn(turn).await.unwrap().unwrap();
    assert_eq!(record.parts.iter().map(part_text).collect::<Vec<_>>(), ["a", "b", "c", "z"]);
    let by = vec![record.parts[1].id, record.parts[2].id];
    assert_eq!(record.parts[0].state, PartState::Replaced { by });
    assert_eq!((record.parts[2].target(), record.parts[2].labelled), (None, true));

    let notice = PlannedPart::new(PartContent::Notice { text: "no".into() });
    let replaced = Settlement { children: vec![notice], ..settlement(first) };
    let child = settle(&ledger, &lease, &replaced).await.next.unwrap();
    assert_eq!((part_text(&child), child.target()), ("no", None), "only a text takes the message over");
}

/// Catches: a notice for every failure, in the middle of the files, or one that goes stale.
pub async fn response_has_one_closing_notice(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let mut part =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a", "b", "c"]))).await.unwrap().unwrap();
    for text in ["2 of 3 sent", "1 of 3 sent"] {
        let told = Settlement { notice: Some(text.into()), ..failed_settlement(&part) };
        part = settle(&ledger, &lease, &told).await.next.unwrap();
    }
    let notice = settle(&ledger, &lease, &sent_settlement(&part, "1")).await.next.unwrap();
    assert_eq!(notice.content(), Some(&PartContent::Notice { text: "1 of 3 sent".into() }));
    assert_eq!((notice.state.clone(), notice.labelled, notice.attempts), (PartState::Sending, false, 1));
    let settled = settle(&ledger, &lease, &failed_settlement(&notice)).await;
    assert_eq!((settled.next, settled.released), (None, true), "a failed notice makes no further one");
    assert_eq!(ledger.archive.turn(turn).await.unwrap().unwrap().parts.len(), 4);
}

/// Catches: a notice that is as old as the parts of whose end it tells, and ends as they did.
pub async fn extended_notice_restarts_its_deadline(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let planned = PlannedPart::new(PartContent::Notice { text: "1 of 2 sent".into() });
    let plan = [text_parts(&["a"]), vec![planned]].concat();
    let part = ledger.turns.complete_turn(&lease, &completed_turn(turn, plan)).await.unwrap().unwrap();
    fixture.clock().advance(Duration::from_millis(1));
    let told = Settlement { notice: Some("0 of 2 sent".into()), ..failed_settlement(&part) };
    let notice = settle(&ledger, &lease, &told).await.next.unwrap();
    assert_eq!(notice.content(), Some(&PartContent::Notice { text: "0 of 2 sent".into() }));
    assert!(notice.created_at > part.created_at);
    assert_eq!(ledger.archive.turn(turn).await.unwrap().unwrap().parts.len(), 2);
}

/// Catches: a part that is begun before the platform's wait is over.
pub async fn waiting_part_respects_retry_at(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    ledger.inbox.receive(&message("2", "more"), ClaimMode::Never).await.unwrap();
    let first =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a", "b"]))).await.unwrap().unwrap();
    let second = ledger.archive.turn(turn).await.unwrap().unwrap().parts.remove(1);
    let until = fixture.clock().now().saturating_add(Duration::from_secs(60));
    for state in [
        PartState::Waiting { until, reason: "429".into() },
        PartState::InDoubt { until: fixture.clock().now(), reason: "reset".into() },
    ] {
        ledger.outbox.save_part(&lease, &Part { state: state.clone(), ..second.clone() }).await.unwrap();
        if matches!(state, PartState::Waiting { .. }) {
            let next = settle(&ledger, &lease, &sent_settlement(&first, "1")).await.next.unwrap();
            assert_eq!((next.state, next.attempts), (state, 0));
        } else {
            assert_eq!(ledger.outbox.next_part(&lease).await.unwrap().unwrap().state, state);
        }
    }
}

/// Catches: an operator who discards what is on its way, and a discarded part that is sent after all.
pub async fn discard_fails_unsent_part(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let part =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a", "b", "c"]))).await.unwrap().unwrap();
    let second = ledger.archive.turn(turn).await.unwrap().unwrap().parts.remove(1);
    assert!(matches!(ledger.outbox.discard_part(part.id).await, Err(LedgerError::Unknown { .. })));
    assert!(matches!(
        ledger.outbox.discard_part(satchel_domain::PartId(Uuid::now_v7())).await,
        Err(LedgerError::Unknown { .. })
    ));
    fixture.open().await.outbox.discard_part(second.id).await.unwrap();
    assert!(matches!(ledger.outbox.save_part(&lease, &second).await, Err(LedgerError::AlreadySettled(_))));
    let next = settle(&ledger, &lease, &sent_settlement(&part, "1")).await.next.unwrap();
    assert_eq!(part_text(&next), "c");

    let listed = |query: OutboxQuery| {
        let ledger = ledger.clone();
        async move {
            ledger
                .archive
                .parts(&query)
                .await
                .unwrap()
                .iter()
                .map(|part| part_text(part).to_owned())
                .collect::<Vec<_>>()
        }
    };
    let all = OutboxQuery { include_delivered: true, ..OutboxQuery::default() };
    assert_eq!(listed(OutboxQuery::default()).await, ["c", "b"], "newest first, without what was sent");
    assert_eq!(listed(all.clone()).await, ["c", "b", "a"]);
    assert_eq!(listed(OutboxQuery { limit: Some(1), ..all.clone() }).await, ["c"]);
    assert_eq!(listed(OutboxQuery { part: Some(second.id), ..all.clone() }).await, ["b"]);
    assert_eq!(
        listed(OutboxQuery { unsettled_only: true, ..OutboxQuery::default() }).await,
        ["c"],
        "only what is unsettled"
    );
    let elsewhere = OutboxQuery { conversation: Some(conversation("console:b")), ..all };
    assert!(listed(elsewhere).await.is_empty());
}

/// Catches: a file that was in a reply and isn't found there, or that is found where it wasn't.
pub async fn parts_with_a_file_are_found(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let files = ledger.turns.register_files(turn, &[new_file("sent.txt"), new_file("kept.txt")]).await.unwrap();
    let parts = [text_parts(&["here it is"]), vec![file_part(&files[0])]].concat();
    ledger.turns.complete_turn(&lease, &completed_turn(turn, parts)).await.unwrap();
    for (file, count) in files.iter().zip([1, 0]) {
        let query = OutboxQuery {
            conversation: Some(lease.conversation.clone()),
            file: Some(file.id),
            include_delivered: true,
            ..OutboxQuery::default()
        };
        let found = ledger.archive.parts(&query).await.unwrap();
        assert_eq!(found.len(), count, "{}", file.filename.as_str());
        assert!(found.iter().flat_map(|part| part.operation.files()).all(|item| item.attachment.id == file.id));
    }
}

/// Catches: a look-up that begins in another conversation, or behind the part itself.
pub async fn previous_message_is_found(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let elsewhere = InboundMessage { conversation: conversation("console:b"), ..message("0", "hello") };
    let (other, other_turn) = receive(&ledger, &elsewhere).await;
    let there =
        ledger.turns.complete_turn(&other, &completed_turn(other_turn, text_parts(&["x"]))).await.unwrap().unwrap();
    settle(&ledger, &other, &sent_settlement(&there, "elsewhere")).await;

    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let first =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["a", "b", "c"]))).await.unwrap().unwrap();
    assert_eq!(ledger.outbox.last_sent_before(first.id).await.unwrap(), None);
    let two = PartState::Sent { messages: vec![MessageRef("1".into()), MessageRef("2".into())] };
    let second = settle(&ledger, &lease, &settlement(Part { state: two, ..first.clone() })).await.next.unwrap();
    assert_eq!(ledger.outbox.last_sent_before(second.id).await.unwrap(), Some(MessageRef("2".into())));
    let third = settle(&ledger, &lease, &failed_settlement(&second)).await.next.unwrap();
    assert_eq!(
        ledger.outbox.last_sent_before(third.id).await.unwrap(),
        Some(MessageRef("2".into())),
        "a failed one is no message"
    );
    assert_eq!(ledger.outbox.last_sent_before(first.id).await.unwrap(), None);
}
