//! Promises about questions to people: asked once, closed by whatever ends their call.

use std::time::Duration;

use satchel_domain::{
    Button, CallId, MessageRef, Part, PartContent, PartState, ToolOutcome, TurnId,
    part::{FailureReason, PlannedPart},
};
use satchel_ports::ledger::{
    CallDecision, ClaimMode, CompletedTurn, ForgetScope, HistoryChange, JournalEntry, Lease, Ledger, NewQuestion,
    ReleaseMode, RenameOutcome, Settlement, WorkFilter,
};

use super::{
    LedgerFixture, assert_lost, completed_turn, conversation, message, part_text, receive, sent_settlement, settle,
    settlement, text_parts,
};

pub(crate) fn question(call: CallId) -> NewQuestion {
    NewQuestion { call, text: "May I?".into(), buttons: Vec::new(), unanswered: "No longer needed".into() }
}

pub(crate) fn call(turn: TurnId) -> CallId {
    CallId { turn, ordinal: 0 }
}

pub(crate) fn open_as(part: &Part, message: &str) -> Part {
    Part { state: PartState::Open { message: MessageRef(message.into()) }, ..part.clone() }
}

/// A running turn that asks about its first call, as message `q`.
async fn ask(ledger: &Ledger) -> (Lease, TurnId, Part) {
    let (lease, turn) = receive(ledger, &message("1", "hello")).await;
    let asked = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    ledger.outbox.save_part(&lease, &open_as(&asked, "q")).await.unwrap();
    (lease, turn, asked)
}

/// The part as it is stored.
async fn stored(ledger: &Ledger, part: &Part) -> Part {
    let turn = ledger.archive.turn(part.turn).await.unwrap().unwrap();
    turn.parts.into_iter().find(|stored| stored.id == part.id).unwrap()
}

fn assert_closed(part: &Part, text: &str) {
    assert_eq!((part_text(part), part.target()), (text, Some(&MessageRef("q".into()))));
    assert!(matches!(part.content(), Some(PartContent::Text { .. })), "the buttons go");
    assert!(part.is_closing_edit(), "{part:?}");
}

/// Catches: a question that costs a commit of its own to start; one that is asked again after a crash; one that keeps
/// others waiting, or is delivered again, while it waits for its answer.
pub async fn question_is_asked_once(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let asked = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    assert_eq!((asked.state.clone(), asked.attempts, part_text(&asked)), (PartState::Sending, 1, "May I?"));
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap().as_ref(), Some(&asked));
    let second = ledger.outbox.open_question(&lease, &question(CallId { ordinal: 1, ..call(turn) })).await.unwrap();
    assert_eq!((second.state.clone(), second.attempts), (PartState::Pending, 0), "one message at a time");
    let open = open_as(&asked, "q");
    ledger.outbox.save_part(&lease, &open).await.unwrap();
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap().unwrap().id, second.id);
    assert!(!ledger.leases.release(&lease, ReleaseMode::IfIdle).await.unwrap());
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
    let again = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    assert_eq!(again, open);
    let again = ledger.outbox.open_question(&lease, &question(CallId { ordinal: 1, ..call(turn) })).await.unwrap();
    assert_eq!(again.id, second.id);
    let stale = Lease { token: lease.token - 1, ..lease };
    assert_lost(ledger.outbox.open_question(&stale, &question(call(turn))).await, "open_question");
    assert_lost(ledger.outbox.close_question(&stale, call(turn), "x").await, "close_question");
}

/// Catches: a second question where the first may stand; none where the first certainly doesn't.
pub async fn failed_question_is_asked_again(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    for (chat, reason, is_again) in [
        ("console:a", FailureReason::Forbidden { reason: "muted".into() }, true),
        ("console:b", FailureReason::MayHaveArrived { reason: "reset".into() }, false),
    ] {
        let mut asker = message(chat, "hello");
        asker.conversation = conversation(chat);
        let (lease, turn) = receive(&ledger, &asker).await;
        let asked = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
        let failed = Part { state: PartState::Failed { reason }, ..asked.clone() };
        settle(&ledger, &lease, &settlement(failed)).await;
        let again = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
        assert_eq!(again.id != asked.id, is_again, "{chat}");
        let unreported = ledger.turns.next_turn(&lease).await.unwrap().unwrap().unreported_failures;
        assert_eq!(unreported, [], "the call's outcome reports it");
    }
}

/// Catches: a process that makes a key of its own, whose codes no other one knows, and a key that a restart replaces.
pub async fn question_key_is_the_same_in_every_process(fixture: &impl LedgerFixture) {
    let (one, two) = (fixture.open().await, fixture.open().await);
    let key = async |ledger: &Ledger| ledger.outbox.load_question_key().await.unwrap().expose_secret().to_owned();
    let (made, known) = tokio::join!(key(&one), key(&two));
    assert_eq!(made, known);
    assert!(made.len() >= 32, "nobody guesses it");
    drop((one, two));
    assert_eq!(key(&fixture.open().await).await, made);
}

/// Catches: a decision that is recorded while its buttons stay, or the other way round.
pub async fn decision_closes_its_question(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn, asked) = ask(&ledger).await;
    let answer = ledger.inbox.receive(&message("2", "/allow"), ClaimMode::Never).await.unwrap();
    let message = ledger.turns.list_queued_behind(&lease, turn).await.unwrap()[0].id;
    let decision = CallDecision { call: call(turn), allowed: true, message, closing: "Allowed by Ada".into() };
    ledger.turns.journal_decision(&lease, &decision).await.unwrap();
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
    let journal = ledger.turns.next_turn(&lease).await.unwrap().unwrap().journal;
    assert_eq!(journal, [JournalEntry::Decided { ordinal: 0, allowed: true, message }]);
    assert_ne!(answer.turn, turn);
    let closing = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    assert_eq!((closing.id, closing.state.clone(), closing.attempts), (asked.id, PartState::Sending, 1));
    assert_closed(&closing, "Allowed by Ada");
    settle(&ledger, &lease, &sent_settlement(&closing, "q")).await;
    let stale = Lease { token: lease.token - 1, ..lease };
    assert_lost(ledger.turns.journal_decision(&stale, &decision).await, "journal_decision");
}

/// Catches: a question that is sent, or keeps its buttons, although its call was decided meanwhile.
pub async fn question_under_way_is_closed_once_open(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let first = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    let second_call = CallId { ordinal: 1, ..call(turn) };
    let second = ledger.outbox.open_question(&lease, &question(second_call)).await.unwrap();
    ledger.outbox.close_question(&lease, call(turn), "No answer").await.unwrap();
    ledger.outbox.close_question(&lease, call(turn), "A later word").await.unwrap();
    ledger.outbox.close_question(&lease, second_call, "No answer").await.unwrap();
    let never_sent = PartState::Failed { reason: FailureReason::NotNeeded };
    assert_eq!(stored(&ledger, &second).await.state, never_sent, "it was never started");
    let under_way = stored(&ledger, &first).await;
    assert_eq!((under_way.state.clone(), under_way.target()), (PartState::Sending, None));
    assert!(under_way.is_unneeded_question());
    // Whoever sends it doesn't know that yet.
    ledger.outbox.save_part(&lease, &open_as(&first, "q")).await.unwrap();
    let closing = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    assert_eq!(closing.state, PartState::Pending);
    assert_closed(&closing, "No answer");
}

/// Catches: another form of a question that is sent, and stays open for good, although its turn has ended meanwhile.
pub async fn closed_question_is_not_replaced(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let asked = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["one"]))).await.unwrap();
    // Whoever sends it learns that it was refused, and doesn't know of the end.
    let children = text_parts(&["May I?", "Really?"]);
    let replaced = Settlement { children, ..settlement(asked.clone()) };
    let next = settle(&ledger, &lease, &replaced).await.next.unwrap();
    assert_eq!(part_text(&next), "one");
    assert_eq!(stored(&ledger, &asked).await.state, PartState::Failed { reason: FailureReason::NotNeeded });
    assert!(settle(&ledger, &lease, &sent_settlement(&next, "2")).await.released, "nothing is left");
}

/// Catches: a piece of a question that keeps its words when the question is closed, or counts as a part of the reply.
pub async fn every_piece_of_a_question_is_closed(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let asked = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    let pieces = Settlement { children: text_parts(&["May I?", "Really?"]), ..settlement(asked) };
    let mut next = settle(&ledger, &lease, &pieces).await.next;
    for _ in 0..2 {
        ledger.outbox.save_part(&lease, &open_as(&next.unwrap(), "q")).await.unwrap();
        next = ledger.outbox.next_part(&lease).await.unwrap();
    }
    assert_eq!(next, None);
    ledger.outbox.close_question(&lease, call(turn), "No answer").await.unwrap();
    for _ in 0..2 {
        let closing = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
        assert_closed(&closing, "No answer");
        settle(&ledger, &lease, &sent_settlement(&closing, "q")).await;
    }
}

/// Catches: a person who is asked again, or waited for, about a question that was closed before its process died.
pub async fn closed_question_is_returned_closed(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn, asked) = ask(&ledger).await;
    ledger.outbox.close_question(&lease, call(turn), "No answer").await.unwrap();
    let closing = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    let closing_of = |part: Part| (part.id, part.question.and_then(|question| question.closing));
    let expected = (asked.id, Some("No answer".to_owned()));
    let again = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    assert_eq!(closing_of(again), expected);
    settle(&ledger, &lease, &sent_settlement(&closing, "q")).await;
    let again = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    assert_eq!(closing_of(again), expected, "delivered or not");
}

/// Catches: an edit that is given up unsent, with buttons that stay, because its question was asked long ago.
pub async fn closing_edit_has_its_own_age(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn, asked) = ask(&ledger).await;
    fixture.clock().advance(Duration::from_millis(1));
    ledger.outbox.close_question(&lease, call(turn), "No answer").await.unwrap();
    let closing = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    assert!(closing.created_at > asked.created_at, "{:?}", closing.created_at);
}

/// Catches: buttons that stay when the call that made the asking one ends, or go while their own call still runs.
pub async fn outcome_closes_questions_of_its_call(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let nested = ledger.outbox.open_question(&lease, &question(call(turn).nested(3))).await.unwrap();
    ledger.outbox.save_part(&lease, &open_as(&nested, "q")).await.unwrap();
    let other_call = CallId { ordinal: 1, ..call(turn) };
    let other = ledger.outbox.open_question(&lease, &question(other_call)).await.unwrap();
    ledger.outbox.save_part(&lease, &open_as(&other, "other")).await.unwrap();
    ledger.turns.journal_outcome(&lease, turn, 0, &ToolOutcome::from_failure("late"), &[]).await.unwrap();
    assert_closed(&ledger.outbox.next_part(&lease).await.unwrap().unwrap(), "No longer needed");
    assert_eq!(stored(&ledger, &other).await, open_as(&other, "other"));
}

/// Catches: buttons that outlive their turn; a reply that is sent beside the edit that closes a question, or before it.
pub async fn end_of_turn_closes_its_questions(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn, asked) = ask(&ledger).await;
    let plan = text_parts(&["one", "two"]);
    let started = ledger.turns.complete_turn(&lease, &completed_turn(turn, plan)).await.unwrap();
    assert_eq!(started, None, "the question is closed first");
    let closing = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    assert_eq!(closing.id, asked.id);
    assert_closed(&closing, "No longer needed");
    let mut next = settle(&ledger, &lease, &sent_settlement(&closing, "q")).await.next;
    for text in ["one", "two"] {
        let part = next.expect(text);
        assert_eq!((part_text(&part), part.state.clone()), (text, PartState::Sending));
        next = settle(&ledger, &lease, &sent_settlement(&part, text)).await.next;
    }
    let parts = ledger.archive.turn(turn).await.unwrap().unwrap().parts;
    assert_eq!(parts.iter().map(part_text).collect::<Vec<_>>(), ["No longer needed", "one", "two"]);
}

/// Catches: a turn that was completed as if it had not asked, so that its parts stand where its question does.
pub async fn parts_stand_behind_closed_questions(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn, _) = ask(&ledger).await;
    ledger.outbox.close_question(&lease, call(turn), "No answer").await.unwrap();
    let closing = ledger.outbox.next_part(&lease).await.unwrap().unwrap();
    settle(&ledger, &lease, &sent_settlement(&closing, "q")).await;
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
    let reply = ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["one"]))).await.unwrap();
    let reply = reply.expect("nothing is under way");
    assert_eq!((reply.position, part_text(&reply)), (1, "one"));
}

/// Catches: an edit under the new name of a message that has another number there; a question that nobody can answer.
pub async fn renamed_conversation_asks_again(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn, asked) = ask(&ledger).await;
    let new = conversation("console:new");
    let renamed = ledger.inbox.rename_conversation(&lease.conversation, &new).await.unwrap();
    assert_eq!(renamed, RenameOutcome::Renamed);
    let lease = ledger.leases.claim_lane(&[new.channel().clone()], WorkFilter::Any).await.unwrap().unwrap().lease;
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap(), None);
    let again = ledger.outbox.open_question(&lease, &question(call(turn))).await.unwrap();
    assert_eq!((again.id == asked.id, again.state, again.conversation), (false, PartState::Sending, new));
}

/// Catches: a question's closing edit that is sent before a part that was started while the question stood open, so that
/// this one is taken for one that a dead process has left.
pub async fn started_part_precedes_closing_edit(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn, asked) = ask(&ledger).await;
    let explained = ledger.inbox.receive(&message("2", "/allow"), ClaimMode::Never).await.unwrap().turn;
    let completed = completed_turn(explained, text_parts(&["The code is missing."]));
    let started = ledger.turns.complete_turn(&lease, &completed).await.unwrap().unwrap();
    ledger.outbox.close_question(&lease, call(turn), "Refused").await.unwrap();
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap(), Some(started.clone()));
    let next = settle(&ledger, &lease, &sent_settlement(&started, "3")).await.next.unwrap();
    assert_eq!((next.id, next.state), (asked.id, PartState::Sending));
}

/// A question that stands in the reply to a command, as this message.
async fn ask_back(ledger: &Ledger, key: &str, sent_as: &str) {
    let (lease, turn) = receive(ledger, &message(key, "/forget all")).await;
    let button = |answer: &str| Button { label: answer.into(), command: format!("/forget all {answer}") };
    let text = "Remove everything?\n\nPress a button.";
    let question = PartContent::question(text, vec![button("yes"), button("no")]);
    let completed = completed_turn(turn, vec![PlannedPart::new(question)]);
    let part = ledger.turns.complete_turn(&lease, &completed).await.unwrap().expect("it is begun");
    assert!(settle(ledger, &lease, &sent_settlement(&part, sent_as)).await.released);
}

/// Catches: buttons that stay below a reply after they were answered, by whatever was written in between; ones that go
/// although another question was answered; text of a question that stays where everything is forgotten.
pub async fn answer_takes_buttons_of_reply_away(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    ask_back(&ledger, "1", "q1").await;
    let (lease, other) = receive(&ledger, &message("2", "/pair refuse ABCD-EFGH")).await;
    let answered = |turn, command: &str, parts| CompletedTurn {
        answered: Some(command.to_owned()),
        history: HistoryChange::Append(Vec::new()),
        ..completed_turn(turn, parts)
    };
    let completed = answered(other, "/pair refuse ABCD-EFGH", Vec::new());
    assert_eq!(ledger.turns.complete_turn(&lease, &completed).await.unwrap(), None);
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap(), None, "that was another question");
    assert!(ledger.leases.release(&lease, ReleaseMode::Always).await.unwrap());

    let (lease, no) = receive(&ledger, &message("3", "/forget all no")).await;
    let completed = answered(no, "/forget all no", text_parts(&["kept"]));
    assert_eq!(ledger.turns.complete_turn(&lease, &completed).await.unwrap(), None, "the buttons go first");
    let edit = ledger.outbox.next_part(&lease).await.unwrap().expect("the edit");
    assert!(edit.is_closing_edit() && matches!(edit.content(), Some(PartContent::Text { .. })), "{edit:?}");
    assert_eq!((part_text(&edit), edit.target()), ("Remove everything?\n\n**no**", Some(&MessageRef("q1".into()))));
    let reply = settle(&ledger, &lease, &sent_settlement(&edit, "q1")).await.next.expect("the reply");
    assert_eq!(part_text(&reply), "kept");
    assert!(settle(&ledger, &lease, &sent_settlement(&reply, "r")).await.released);

    ask_back(&ledger, "4", "q2").await;
    let (lease, yes) = receive(&ledger, &message("5", "/forget all yes")).await;
    let everything = HistoryChange::Forget(ForgetScope::Everything);
    let completed = CompletedTurn { history: everything, ..answered(yes, "/forget all yes", text_parts(&["removed"])) };
    let reply = ledger.turns.complete_turn(&lease, &completed).await.unwrap().expect("it is begun");
    assert_eq!(part_text(&reply), "removed");
    let deletion = settle(&ledger, &lease, &sent_settlement(&reply, "r2")).await.next.expect("the question goes");
    assert_eq!((deletion.content(), deletion.target()), (None, Some(&MessageRef("q2".into()))));
    assert!(settle(&ledger, &lease, &sent_settlement(&deletion, "q2")).await.released);
}
