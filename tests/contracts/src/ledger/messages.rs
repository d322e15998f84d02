//! Promises about the recorded messages that a look-up of a part in doubt excludes.

use std::time::Duration;

use satchel_domain::{ConversationId, InboundMessage, MessageRef, Part, PartState, Timestamp, part::FailureReason};
use satchel_ports::{
    Clock,
    ledger::{ClaimMode, Lease, Ledger, RecordedMessages, RenameOutcome, WorkFilter},
};

use super::{
    LedgerFixture, completed_turn, conversation, message,
    questions::{call, open_as, question},
    receive, sent_settlement, settle, settlement, text_parts,
};

fn inbound_message(chat: &str, id: &str) -> InboundMessage {
    let message = message(&format!("{chat}:{id}"), "hello");
    InboundMessage { conversation: conversation(chat), message: Some(MessageRef(id.into())), ..message }
}

/// A reply of these texts, its first part begun.
async fn start_reply(ledger: &Ledger, chat: &str, id: &str, reply: &[&str]) -> (Lease, Part) {
    let (lease, turn) = receive(ledger, &inbound_message(chat, id)).await;
    let started_part =
        ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(reply))).await.unwrap().unwrap();
    (lease, started_part)
}

async fn recorded_messages(ledger: &Ledger, chat: &str, part: &Part) -> RecordedMessages {
    assert!(part.first_attempt_at.is_some(), "it was begun");
    ledger.outbox.list_recorded_messages(&conversation(chat), part.id).await.unwrap()
}

fn message_ids(messages: &[satchel_ports::ledger::RecordedMessage]) -> Vec<(ConversationId, String)> {
    let mut ids: Vec<_> =
        messages.iter().map(|recorded| (recorded.conversation.clone(), recorded.message.0.clone())).collect();
    ids.sort();
    ids
}

fn message_id(chat: &str, id: &str) -> (ConversationId, String) {
    (conversation(chat), id.to_owned())
}

/// Catches: a message of ours that is unknown, such as one of an album, of another topic, a draft or a question,
/// and would be taken for the one that is looked for; one of ours that counts as a person's because they pressed its
/// button; a message that came later and is taken for an earlier one.
pub async fn own_messages_of_chat_are_listed(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (topic_lease, topic) = start_reply(&ledger, "telegram:-1001/7", "1", &["in a topic"]).await;
    let album = PartState::Sent { messages: vec![MessageRef("2".into()), MessageRef("3".into())] };
    settle(&ledger, &topic_lease, &settlement(Part { state: album, ..topic })).await;
    let (lease, first) = start_reply(&ledger, "telegram:-1001", "4", &["one", "two"]).await;
    fixture.clock().advance(Duration::from_millis(1));
    let second = settle(&ledger, &lease, &sent_settlement(&first, "5")).await.next.unwrap();
    let (streaming, turn) = receive(&ledger, &inbound_message("telegram:-1001/8", "6")).await;
    let draft = ledger.outbox.open_draft(&streaming, turn, None).await.unwrap().unwrap();
    ledger.outbox.save_part(&streaming, &open_as(&draft, "9")).await.unwrap();
    let asked = ledger.outbox.open_question(&streaming, &question(call(turn))).await.unwrap();
    ledger.outbox.save_part(&streaming, &open_as(&asked, "10")).await.unwrap();
    let press = InboundMessage { pressed: true, ..inbound_message("telegram:-1001/8", "12") };
    ledger.inbox.receive(&press, ClaimMode::Never).await.unwrap();
    start_reply(&ledger, "telegram:77", "11", &["elsewhere"]).await;

    let recorded = recorded_messages(&ledger, "telegram:-1001", &second).await;
    let expected = [
        message_id("telegram:-1001", "5"),
        message_id("telegram:-1001/7", "2"),
        message_id("telegram:-1001/7", "3"),
        message_id("telegram:-1001/8", "10"),
        message_id("telegram:-1001/8", "9"),
    ];
    let other = message_ids(&recorded.other);
    assert!(expected.iter().all(|message| other.contains(message)), "{other:?}");
    assert!(!other.contains(&message_id("telegram:-1001/8", "12")), "the button that a person pressed is one of ours");
    let before = message_ids(&recorded.before);
    assert!(before.contains(&message_id("telegram:-1001", "4")), "{before:?}");
    assert!(!before.contains(&message_id("telegram:-1001/8", "6")), "{before:?}");
}

/// Catches: a look-up that orders messages by a clock, which may be set back before a part is started, or by when the part
/// was saved last.
pub async fn messages_before_part_are_those_stored_before(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (chat, clock) = ("telegram:-1001", fixture.clock());
    let set_back_after = async |id: &str, claim: ClaimMode| {
        let now = clock.now();
        clock.advance(Duration::from_secs(1));
        let received = ledger.inbox.receive(&inbound_message(chat, id), claim).await.unwrap();
        clock.set(now);
        received
    };
    let received = set_back_after("1", ClaimMode::IfFree).await;
    let lease = received.claimed.unwrap().lease;
    let reply = completed_turn(received.turn, text_parts(&["one", "two"]));
    let first = ledger.turns.complete_turn(&lease, &reply).await.unwrap().unwrap();
    set_back_after("2", ClaimMode::Never).await;
    let doubt = PartState::InDoubt { until: Timestamp(0), reason: "reset".into() };
    ledger.outbox.save_part(&lease, &Part { state: doubt, ..first.clone() }).await.unwrap();
    let recorded = recorded_messages(&ledger, chat, &first).await;
    assert_eq!(message_ids(&recorded.before), [message_id(chat, "1")]);
    assert_eq!(message_ids(&recorded.other), [message_id(chat, "2")]);

    let second = settle(&ledger, &lease, &sent_settlement(&first, "3")).await.next.unwrap();
    let recorded = recorded_messages(&ledger, chat, &second).await;
    assert_eq!(message_ids(&recorded.before), [message_id(chat, "1"), message_id(chat, "2")]);
}

/// Catches: a doubt about a second message to the chat that is overlooked, so that one is taken for the other.
pub async fn other_doubt_in_chat_is_reported(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, part) = start_reply(&ledger, "telegram:-1001", "1", &["one"]).await;
    let (elsewhere, other) = start_reply(&ledger, "telegram:-1002", "1", &["x"]).await;
    let doubt = PartState::InDoubt { until: Timestamp(0), reason: "reset".into() };
    ledger.outbox.save_part(&elsewhere, &Part { state: doubt.clone(), ..other }).await.unwrap();
    assert!(
        !recorded_messages(&ledger, "telegram:-1001", &part).await.other_doubt,
        "not its own, and none of another chat"
    );
    settle(&ledger, &lease, &sent_settlement(&part, "2")).await;

    let (topic, doubtful) = start_reply(&ledger, "telegram:-1001/7", "3", &["y"]).await;
    let may_have_arrived = FailureReason::MayHaveArrived { reason: "reset".into() };
    let failed = PartState::Failed { reason: may_have_arrived };
    assert!(recorded_messages(&ledger, "telegram:-1001", &part).await.other_doubt, "one that is being sent");
    ledger.outbox.save_part(&topic, &Part { state: doubt, ..doubtful.clone() }).await.unwrap();
    assert!(recorded_messages(&ledger, "telegram:-1001", &part).await.other_doubt, "one in doubt");
    settle(&ledger, &topic, &settlement(Part { state: failed, ..doubtful })).await;
    assert!(recorded_messages(&ledger, "telegram:-1001", &part).await.other_doubt, "one that may have arrived");

    let (lease, part) = start_reply(&ledger, "telegram:-1003", "5", &["one"]).await;
    settle(&ledger, &lease, &sent_settlement(&part, "6")).await;
    let (topic, discarded) = start_reply(&ledger, "telegram:-1003/7", "7", &["y"]).await;
    let doubt = PartState::InDoubt { until: Timestamp(0), reason: "reset".into() };
    ledger.outbox.save_part(&topic, &Part { state: doubt, ..discarded.clone() }).await.unwrap();
    ledger.outbox.discard_part(discarded.id).await.unwrap();
    assert!(
        recorded_messages(&ledger, "telegram:-1003", &part).await.other_doubt,
        "one that an operator discarded in doubt"
    );
}

/// Catches: a question of which nobody knows whether it arrived, and that is no doubt; one that did not, and is one.
pub async fn question_is_in_doubt_until_open(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, part) = start_reply(&ledger, "telegram:5", "1", &["one"]).await;
    settle(&ledger, &lease, &sent_settlement(&part, "2")).await;
    let (lease, turn) = receive(&ledger, &inbound_message("telegram:5", "3")).await;
    let asked = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    assert!(recorded_messages(&ledger, "telegram:5", &part).await.other_doubt, "it may arrive any moment");
    drop(fixture.open().await);
    ledger.outbox.save_part(&lease, &open_as(&asked, "4")).await.unwrap();
    assert!(!recorded_messages(&ledger, "telegram:5", &part).await.other_doubt);

    let (lease, turn) = receive(&ledger, &inbound_message("telegram:5/7", "5")).await;
    let labelled = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    ledger.outbox.save_part(&lease, &Part { labelled: true, ..open_as(&labelled, "6") }).await.unwrap();
    assert!(recorded_messages(&ledger, "telegram:5", &part).await.other_doubt, "an earlier attempt may have arrived");
    ledger.outbox.close_question(&lease, call(turn), "Allowed").await.unwrap();
    assert!(recorded_messages(&ledger, "telegram:5", &part).await.other_doubt, "however it was closed");
}

/// Catches: a number of the old name by which a look-up under the new one begins, or that it passes over.
pub async fn renamed_conversation_lists_no_old_messages(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (old, new) = ("telegram:-5", "telegram:-1005");
    let (lease, part) = start_reply(&ledger, old, "70", &["one"]).await;
    settle(&ledger, &lease, &sent_settlement(&part, "71")).await;
    let (lease, turn) = receive(&ledger, &inbound_message(old, "72")).await;
    let asked = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    ledger.outbox.save_part(&lease, &open_as(&asked, "73")).await.unwrap();
    let renamed = ledger.inbox.rename_conversation(&conversation(old), &conversation(new)).await.unwrap();
    assert_eq!(renamed, RenameOutcome::Renamed);
    let lease = ledger
        .leases
        .claim_lane(&[lease.conversation.channel().clone()], WorkFilter::Any)
        .await
        .unwrap()
        .unwrap()
        .lease;
    let begun = ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["two"]))).await.unwrap().unwrap();
    assert_eq!(recorded_messages(&ledger, new, &begun).await, RecordedMessages::default());
    assert_eq!(ledger.outbox.last_sent_before(begun.id).await.unwrap(), None);
}
