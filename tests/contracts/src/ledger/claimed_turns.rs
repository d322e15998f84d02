//! Promises about the turn that a claim of a lane hands over.

use satchel_domain::{
    Filename, InboundMessage, ToolOutcome, TurnId,
    part::{FailureReason, PlannedPart},
    reference_block::AttachmentReference,
};
use satchel_ports::{
    Clock,
    ledger::{
        ClaimMode, ClaimedLane, CompletedTurn, ConversationSetting, InboundFileState, JournalEntry, Lease, Ledger,
        QueuedTurn, ReleaseMode, WorkFilter,
    },
};

use super::{
    CONVERSATION, LedgerFixture, completed_turn, conversation, message, model_message, receive, sent_settlement,
    settle, text_parts, with_files,
};

/// Receives a message and claims its lane.
async fn claim_by_receive(ledger: &Ledger, message: &InboundMessage) -> (ClaimedLane, TurnId) {
    let received = ledger.inbox.receive(message, ClaimMode::IfFree).await.unwrap();
    (received.claimed.expect("the lane was free"), received.turn)
}

async fn claim_lane(ledger: &Ledger) -> Option<ClaimedLane> {
    ledger.leases.claim_lane(&[conversation(CONVERSATION).channel().clone()], WorkFilter::Any).await.unwrap()
}

/// Returns the turn that a claim has handed over, which is the one that is read.
async fn handed_over(ledger: &Ledger, claimed: &ClaimedLane) -> QueuedTurn {
    let stored = ledger.turns.next_turn(&claimed.lease).await.unwrap().expect("a turn is queued");
    assert_eq!(claimed.turn.as_deref(), Some(&stored));
    stored
}

/// Completes a turn without parts and releases its lane.
async fn complete_and_release(ledger: &Ledger, lease: &Lease, turn: TurnId) {
    ledger.turns.complete_turn(lease, &completed_turn(turn, Vec::new())).await.unwrap();
    assert!(ledger.leases.release(lease, ReleaseMode::IfIdle).await.unwrap());
}

/// Catches: a turn that is handed over with its message and lacks what the store would have returned with it.
pub async fn receive_hands_over_next_turn(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (claimed, first) = claim_by_receive(&ledger, &message("1", "hello")).await;
    let turn = handed_over(&ledger, &claimed).await;
    assert_eq!((turn.id, turn.messages.len(), turn.has_followers), (first, 1, false));
    let voice = Some(ConversationSetting::VoiceReplies(true));
    let completed = CompletedTurn { setting: voice, ..completed_turn(first, Vec::new()) };
    ledger.turns.complete_turn(&claimed.lease, &completed).await.unwrap();
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::IfIdle).await.unwrap());

    let referred = AttachmentReference {
        url: "https://files.example/a.pdf".into(),
        filename: Some(Filename::from_untrusted("a.pdf")),
        mime_type: None,
        id: None,
    };
    let full = InboundMessage { group: true, references: vec![referred], ..message("2", "and this?") };
    let (claimed, second) = claim_by_receive(&ledger, &full).await;
    let turn = handed_over(&ledger, &claimed).await;
    assert_eq!((turn.id, turn.settings.voice_replies, &turn.messages[0].message), (second, true, &full));
    let refused =
        PlannedPart { failure: Some(FailureReason::TooLarge { limit: 50 }), ..text_parts(&["big"]).remove(0) };
    ledger.turns.complete_turn(&claimed.lease, &completed_turn(second, vec![refused])).await.unwrap();
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::IfIdle).await.unwrap());

    let (claimed, third) = claim_by_receive(&ledger, &message("3", "where is it?")).await;
    let turn = handed_over(&ledger, &claimed).await;
    assert_eq!((turn.id, turn.unreported_failures.len()), (third, 1), "the model has to be told of it");
    complete_and_release(&ledger, &claimed.lease, third).await;

    let (claimed, fourth) = claim_by_receive(&ledger, &with_files(message("4", "with files"), &["a", "b"])).await;
    let turn = handed_over(&ledger, &claimed).await;
    let waiting = turn.messages[0].files.iter().filter(|file| matches!(file, InboundFileState::Waiting(_)));
    assert_eq!(waiting.count(), 2);
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());

    let edit = InboundMessage { edit_of: Some("4".into()), ..message("4e", "without files") };
    let (claimed, edited) = claim_by_receive(&ledger, &edit).await;
    let turn = handed_over(&ledger, &claimed).await;
    assert_eq!((turn.id, edited), (fourth, fourth));
    assert_eq!((turn.messages[0].message.text.as_str(), turn.messages[0].files.len()), ("without files", 0));
}

/// Catches: a lane that is found with its work, and a holder that has to look for it.
pub async fn claim_lane_hands_over_next_turn(fixture: &impl LedgerFixture) {
    let (ledger, other) = (fixture.open().await, fixture.open().await);
    let first = other.inbox.receive(&with_files(message("1", "first"), &["a"]), ClaimMode::Never).await.unwrap().turn;
    let claimed = claim_lane(&ledger).await.expect("a turn is ready");
    let turn = handed_over(&ledger, &claimed).await;
    assert_eq!((turn.id, turn.messages[0].files.len(), turn.has_followers), (first, 1, false));
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());

    let second = other.inbox.receive(&message("2", "second"), ClaimMode::Never).await.unwrap().turn;
    let claimed = claim_lane(&ledger).await.expect("two turns are ready");
    let turn = handed_over(&ledger, &claimed).await;
    assert_eq!((turn.id, turn.has_followers), (first, true));
    ledger.turns.complete_turn(&claimed.lease, &completed_turn(first, Vec::new())).await.unwrap();
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());
    let claimed = claim_lane(&ledger).await.expect("the second is ready");
    assert_eq!(handed_over(&ledger, &claimed).await.id, second);
}

/// Catches: a turn that begins anew after a crash, or one that crashes its process again and again.
pub async fn crashed_turn_is_handed_over_with_journal(fixture: &impl LedgerFixture) {
    let one = fixture.open().await;
    let (lease, turn) = receive(&one, &message("1", "hello")).await;
    let mut journal = vec![model_message("looking", Vec::new())];
    one.turns.journal_message(&lease, turn, &journal[0]).await.unwrap();
    let outcome = ToolOutcome::from_text("found");
    let outcome = one.turns.journal_outcome(&lease, turn, 0, &outcome, &[]).await.unwrap();
    journal.push(JournalEntry::Outcome { ordinal: 0, outcome });
    let draft = one.outbox.open_draft(&lease, turn, None).await.unwrap();
    assert!(draft.is_some(), "nothing is unsettled");
    drop(one);
    fixture.after_death();

    let two = fixture.open().await;
    let claimed = claim_lane(&two).await.expect("its holder is gone");
    let handed = handed_over(&two, &claimed).await;
    assert_eq!((handed.id, &handed.journal, &handed.draft, handed.crashes), (turn, &journal, &draft, 1));
    assert!(claimed.unsettled, "its draft");
    drop(two);
    fixture.after_death();

    let three = fixture.open().await;
    let (claimed, behind) = claim_by_receive(&three, &message("2", "are you there?")).await;
    let handed = handed_over(&three, &claimed).await;
    assert_eq!((handed.id, &handed.journal, &handed.draft, handed.crashes), (turn, &journal, &draft, 2));
    assert!(behind != turn && handed.has_followers, "the message that claimed the lane waits behind it");
}

/// Catches: an album that is answered item by item, by whoever claims its lane first.
pub async fn unready_album_is_not_handed_over(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let album = |key: &str| InboundMessage { album: Some("a".into()), ..message(key, "") };
    let (lease, replied) = receive(&ledger, &message("0", "hello")).await;
    let completed = completed_turn(replied, text_parts(&["reply"]));
    let part = ledger.turns.complete_turn(&lease, &completed).await.unwrap().expect("nothing is unsettled");
    assert!(ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap());

    let (claimed, turn) = claim_by_receive(&ledger, &album("1")).await;
    assert_eq!((claimed.turn, claimed.unsettled), (None, true), "an item may still come");
    let unready = ledger.turns.next_turn(&claimed.lease).await.unwrap().expect("it is queued");
    assert_eq!(unready.id, turn, "whoever looks sees when it is ready");
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());
    let claimed = claim_lane(&ledger).await.expect("a part is unsettled");
    assert_eq!((claimed.turn, claimed.unsettled), (None, true), "an item may still come");
    settle(&ledger, &claimed.lease, &sent_settlement(&part, "9")).await;
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());

    assert_eq!(ledger.inbox.receive(&album("2"), ClaimMode::Never).await.unwrap().turn, turn);
    assert_eq!(claim_lane(&ledger).await, None, "it is not ready");
    fixture.clock().set(unready.ready_at);
    let claimed = claim_lane(&ledger).await.expect("it is ready");
    let handed = handed_over(&ledger, &claimed).await;
    assert_eq!((handed.id, handed.messages.len(), claimed.unsettled), (turn, 2, false));
    let late = ledger.inbox.receive(&album("3"), ClaimMode::IfFree).await.unwrap().turn;
    assert_ne!(late, turn, "it was handed over without this item");
    let read = ledger.turns.next_turn(&claimed.lease).await.unwrap();
    assert_eq!(read, Some(QueuedTurn { has_followers: true, ..handed }));
}

/// Catches: an album of which one item was received before a crash and the others after the restart, answered item by item;
/// and one that was begun before the crash and is delayed.
pub async fn album_of_dead_holder_waits_for_its_rest(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let album = |key: &str| InboundMessage { album: Some("a".into()), ..message(key, "") };
    let (_, turn) = claim_by_receive(&ledger, &album("1")).await;
    drop(ledger);
    fixture.after_death();
    fixture.clock().advance(fixture.lease());

    let ledger = fixture.open().await;
    let claimed = claim_lane(&ledger).await.expect("its holder is gone");
    assert_eq!(claimed.turn, None, "the others may be on their way");
    assert_eq!(ledger.inbox.receive(&album("2"), ClaimMode::Never).await.unwrap().turn, turn);
    let unready = ledger.turns.next_turn(&claimed.lease).await.unwrap().expect("it is queued");
    assert!(unready.ready_at > fixture.clock().now());
    fixture.clock().set(unready.ready_at);
    let whole = ledger.turns.next_turn(&claimed.lease).await.unwrap().expect("it is queued");
    assert_eq!((whole.id, whole.messages.len(), whole.crashes), (turn, 2, 1));

    ledger.turns.journal_message(&claimed.lease, turn, &model_message("looking", Vec::new())).await.unwrap();
    drop(ledger);
    fixture.after_death();
    fixture.clock().advance(fixture.lease());
    let ledger = fixture.open().await;
    let claimed = claim_lane(&ledger).await.expect("its holder is gone");
    assert_eq!(claimed.turn.map(|handed| handed.id), Some(turn), "nothing joins it any more");
}

/// Catches: a holder that doesn't look for the parts of the last one, and one that always looks.
pub async fn claim_reports_unsettled_parts(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (claimed, turn) = claim_by_receive(&ledger, &message("1", "hello")).await;
    assert!(!claimed.unsettled, "nothing was replied yet");
    let completed = completed_turn(turn, text_parts(&["reply"]));
    let part = ledger.turns.complete_turn(&claimed.lease, &completed).await.unwrap().expect("nothing is unsettled");
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());
    let claimed = claim_lane(&ledger).await.expect("a part is unsettled");
    assert_eq!((claimed.turn, claimed.unsettled), (None, true), "no turn is queued");
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());

    let (claimed, turn) = claim_by_receive(&ledger, &message("2", "more")).await;
    assert_eq!((handed_over(&ledger, &claimed).await.id, claimed.unsettled), (turn, true));
    settle(&ledger, &claimed.lease, &sent_settlement(&part, "9")).await;
    assert!(ledger.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());
    let claimed = claim_lane(&ledger).await.expect("a turn is ready");
    assert_eq!((handed_over(&ledger, &claimed).await.id, claimed.unsettled), (turn, false));
}

/// Catches: a turn that is handed over although an older one, which another process has stored, is before it.
pub async fn handed_over_turn_keeps_queue_order(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (lease, turn) = receive(&one, &message("0", "before")).await;
    complete_and_release(&one, &lease, turn).await;
    let first = two.inbox.receive(&message("1", "first"), ClaimMode::Never).await.unwrap().turn;
    let (claimed, second) = claim_by_receive(&one, &message("2", "second")).await;
    assert_eq!(handed_over(&one, &claimed).await.id, first);
    one.turns.complete_turn(&claimed.lease, &completed_turn(first, Vec::new())).await.unwrap();
    complete_and_release(&one, &claimed.lease, second).await;

    let (claimed, third) = claim_by_receive(&one, &message("3", "third")).await;
    let turn = handed_over(&one, &claimed).await;
    assert_eq!((turn.id, turn.has_followers), (third, false));
    two.inbox.receive(&message("4", "fourth"), ClaimMode::IfFree).await.unwrap();
    let read = one.turns.next_turn(&claimed.lease).await.unwrap();
    assert_eq!(read, Some(QueuedTurn { has_followers: true, ..turn }), "whoever reads sees what came since");
}

/// Catches: a turn that is other than what its holder was given, so that something is consumed that nobody has read.
pub async fn handed_over_turn_is_never_changed(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let (by_receive, first) = claim_by_receive(&one, &message("1", "first")).await;
    for (holder, other, claimed, key) in [(&one, &two, Some(by_receive), "e"), (&two, &one, None, "f")] {
        let claimed = match claimed {
            Some(claimed) => claimed,
            None => claim_lane(holder).await.expect("it was released"),
        };
        let handed = handed_over(holder, &claimed).await;
        assert_eq!((handed.id, handed.messages[0].message.text.as_str()), (first, "first"));
        for (ledger, claim) in [(holder, ClaimMode::IfFree), (other, ClaimMode::IfFree), (other, ClaimMode::Never)] {
            let key = format!("{key}{}{claim:?}", std::ptr::eq(ledger, holder));
            let edit = InboundMessage { edit_of: Some("1".into()), ..message(&key, "better") };
            let received = ledger.inbox.receive(&edit, claim).await.unwrap();
            assert!(received.turn != first && received.claimed.is_none(), "{key}");
        }
        let read = holder.turns.next_turn(&claimed.lease).await.unwrap();
        assert_eq!(read, Some(QueuedTurn { has_followers: true, ..handed }));
        assert!(holder.leases.release(&claimed.lease, ReleaseMode::Always).await.unwrap());
    }
}
