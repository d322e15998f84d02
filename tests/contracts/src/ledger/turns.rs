//! Promises about turns, their journal and the history.

use std::{num::NonZeroU64, time::Duration};

use satchel_domain::{
    CallId, Ending, HistoryMessage, InboundMessage, NotificationDelivery, OutgoingResponse, Part, PartId, PartState,
    SystemTask, Timestamp, ToolCall, ToolOutcome, TurnId,
    part::{FailureReason, PlannedPart},
};
use satchel_ports::{
    Clock,
    ledger::{
        ClaimMode, FinishedCall, HistoryChange, InboundFileState, JournalEntry, Lease, Ledger, LedgerError,
        OutboxQuery, Settlement, TurnQuery, TurnRecord, WorkFilter,
    },
};

use super::{
    LedgerFixture, completed_turn, conversation, file_part, message, new_file, receive, sent_settlement, settle,
    settlement, text_parts, with_files,
};

/// Catches: turns in the order of readiness or of ids, and one that is skipped after it was read.
pub async fn turns_are_fifo_until_completed(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, _) = receive(&ledger, &message("0", "0")).await;
    for key in 1..5 {
        ledger.inbox.receive(&message(&key.to_string(), &key.to_string()), ClaimMode::IfFree).await.unwrap();
    }
    for key in 0..5 {
        let turn = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
        assert_eq!(turn, ledger.turns.next_turn(&lease).await.unwrap().unwrap());
        assert_eq!(turn.messages[0].message, message(&key.to_string(), &key.to_string()));
        assert!(turn.ready_at <= fixture.clock().now() && turn.crashes == 0 && turn.journal.is_empty());
        ledger.turns.complete_turn(&lease, &completed_turn(turn.id, Vec::new())).await.unwrap();
    }
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap(), None);
}

/// Catches: a verb that answers before its commit, or keeps something in memory only.
pub async fn committed_data_survives_crash(fixture: &impl LedgerFixture) {
    let one = fixture.open().await;
    let (lease, turn) = receive(&one, &message("1", "hello")).await;
    let part =
        one.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["reply", "more"]))).await.unwrap().unwrap();
    let next = settle(&one, &lease, &sent_settlement(&part, "9")).await.next.unwrap();
    drop(one);
    fixture.after_death();
    let two = fixture.open().await;
    let record = two.archive.turn(turn).await.unwrap().unwrap();
    assert_eq!(record.ending, Some(Ending::Done));
    assert_eq!(record.response, Some(OutgoingResponse::from_text("reply")));
    assert_eq!(record.parts[1], next);
    assert_eq!(record.parts[0], sent_settlement(&part, "9").part);
    let taken =
        two.leases.claim_lane(&[lease.conversation.channel().clone()], WorkFilter::Any).await.unwrap().unwrap().lease;
    assert_eq!(two.outbox.next_part(&taken).await.unwrap(), Some(next));
}

/// Catches: a journal that is sorted by anything but the order of recording, or that loses a field.
pub async fn journal_is_ordered(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let call = |ordinal| ToolCall {
        id: CallId { turn, ordinal },
        name: "attachment.list".into(),
        arguments: serde_json::json!({ "n": ordinal }),
    };
    let asked = |ordinals: [u32; 2], text: &str| JournalEntry::Model {
        steered: Vec::new(),
        text: text.into(),
        calls: ordinals.into_iter().map(call).collect(),
        awaiting_decision: Vec::new(),
        agent: None,
        task: None,
        changing_calls: Some(vec![ordinals[1]]),
    };
    let mut expected = vec![asked([0, 1], "one"), JournalEntry::CallStarted { ordinal: 1 }];
    for entry in &expected {
        ledger.turns.journal_message(&lease, turn, entry).await.unwrap();
    }
    for ordinal in [1, 0] {
        let file = new_file("made.txt");
        let outcome = ToolOutcome { attachments: vec![file.into()], ..ToolOutcome::from_text("made") };
        let outcome = ledger.turns.journal_outcome(&lease, turn, ordinal, &outcome, &[]).await.unwrap();
        expected.push(JournalEntry::Outcome { ordinal, outcome });
    }
    let last = asked([2, 3], "two");
    ledger.turns.journal_message(&lease, turn, &last).await.unwrap();
    expected.push(last);
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
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().journal, expected);
}

/// Catches: a second completion after a retry, which would say everything twice; half of a completion that failed.
pub async fn complete_turn_is_atomic_and_once(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let foreign = new_file("a.txt").numbered(conversation("console:other"), NonZeroU64::MIN);
    let broken = completed_turn(turn, vec![text_parts(&["reply"]).remove(0), file_part(&foreign)]);
    assert!(ledger.turns.complete_turn(&lease, &broken).await.is_err());
    assert_eq!(ledger.archive.history(&lease.conversation, 10).await.unwrap(), []);
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().id, turn, "nothing was consumed");
    assert_eq!(ledger.outbox.next_part(&lease).await.unwrap(), None);

    ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["reply"]))).await.unwrap();
    let again = ledger.turns.complete_turn(&lease, &completed_turn(turn, text_parts(&["again"]))).await;
    assert!(matches!(again, Err(LedgerError::Unknown { .. })), "{again:?}");
    assert_eq!(ledger.archive.history(&lease.conversation, 10).await.unwrap().len(), 2);
    assert_eq!(ledger.archive.turn(turn).await.unwrap().unwrap().parts.len(), 1);
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap(), None);
}

/// Catches: an injected message that is answered once more in a turn of its own, or one that is dropped.
pub async fn steering_messages_are_consumed(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "first")).await;
    let merged = ledger.inbox.receive(&message("2", "steer"), ClaimMode::Never).await.unwrap();
    let kept = ledger.inbox.receive(&message("3", "later"), ClaimMode::Never).await.unwrap();
    let steered = ledger.turns.list_queued_behind(&lease, turn).await.unwrap()[0].id;
    let mut done = completed_turn(turn, Vec::new());
    done.steered = vec![steered];
    ledger.turns.complete_turn(&lease, &done).await.unwrap();
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().id, kept.turn);
    let record = ledger.archive.turn(merged.turn).await.unwrap().unwrap();
    assert_eq!((record.id, record.ending), (turn, Some(Ending::Done)), "it is answered by the turn that took it in");
    assert_eq!(ledger.inbox.receive(&message("2", "steer"), ClaimMode::Never).await.unwrap().turn, merged.turn);
}

/// Catches: a history that is cut at its beginning's end, in reverse, shared between conversations, or not reset.
pub async fn history_survives_until_reset(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let said = |text: &str| HistoryMessage::Note { text: text.into() };
    let (lease, _) = receive(&ledger, &message("0", "0")).await;
    for (key, change) in [
        HistoryChange::Append(vec![said("a"), said("b")]),
        HistoryChange::Append(vec![said("c")]),
        HistoryChange::Reset,
        HistoryChange::Append(vec![said("d")]),
    ]
    .into_iter()
    .enumerate()
    {
        ledger.inbox.receive(&message(&(key + 1).to_string(), ""), ClaimMode::Never).await.unwrap();
        let turn = ledger.turns.next_turn(&lease).await.unwrap().unwrap().id;
        let mut done = completed_turn(turn, Vec::new());
        done.history = change;
        ledger.turns.complete_turn(&lease, &done).await.unwrap();
        let (limit, expected): (u32, &[HistoryMessage]) = match key {
            0 => (10, &[said("a"), said("b")]),
            1 => (2, &[said("b"), said("c")]),
            2 => (10, &[]),
            _ => (10, &[said("d")]),
        };
        assert_eq!(ledger.archive.history(&lease.conversation, limit).await.unwrap(), expected, "after {key}");
    }
    assert_eq!(ledger.archive.history(&conversation("console:other"), 10).await.unwrap(), []);
}

/// Catches: a model that reads of a notification that it arrived before it did, or although it never did.
pub async fn notification_in_history_says_what_became_of_it(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "")).await;
    let notification =
        |delivery| HistoryMessage::Notification { text: "Backup done.".into(), attachments: Vec::new(), delivery };
    let mut done = completed_turn(turn, text_parts(&["Backup", "done."]));
    done.history = HistoryChange::Append(vec![notification(NotificationDelivery::Unknown)]);
    let first = ledger.turns.complete_turn(&lease, &done).await.unwrap().expect("it has parts");
    let assert_delivery = async |expected| {
        let history = ledger.archive.history(&lease.conversation, 10).await.unwrap();
        assert_eq!(history, [notification(expected)]);
    };
    assert_delivery(NotificationDelivery::Pending).await;
    let second = settle(&ledger, &lease, &sent_settlement(&first, "1")).await.next.expect("its rest");
    assert_delivery(NotificationDelivery::Pending).await;
    settle(&ledger, &lease, &sent_settlement(&second, "2")).await;
    assert_delivery(NotificationDelivery::Arrived).await;

    let (lease, turn) = receive(&ledger, &message("2", "")).await;
    let mut done = completed_turn(turn, text_parts(&["Disk full."]));
    done.history = HistoryChange::Append(vec![notification(NotificationDelivery::Unknown)]);
    let part = ledger.turns.complete_turn(&lease, &done).await.unwrap().expect("it has a part");
    let state = PartState::Failed { reason: FailureReason::Forbidden { reason: "no".into() } };
    settle(&ledger, &lease, &settlement(Part { state, ..part })).await;
    let history = ledger.archive.history(&lease.conversation, 10).await.unwrap();
    assert_eq!(history, [notification(NotificationDelivery::Arrived), notification(NotificationDelivery::Failed)]);
}

/// Catches: a model that is told that the person knows of a failure while the notice about it is still to be sent.
pub async fn failure_says_whether_its_notice_arrived(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let done = completed_turn(turn, text_parts(&["lost"]));
    let part = ledger.turns.complete_turn(&lease, &done).await.unwrap().expect("it has a part");
    ledger.inbox.receive(&message("2", "and?"), ClaimMode::Never).await.unwrap();
    let state = PartState::Failed { reason: FailureReason::Forbidden { reason: "no".into() } };
    let failed = Settlement { notice: Some("A text was lost.".into()), ..settlement(Part { state, ..part }) };
    let notice = settle(&ledger, &lease, &failed).await.next.expect("the notice");
    let is_announced = async || {
        let next = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
        let record = ledger.archive.turn(turn).await.unwrap().unwrap();
        assert_eq!(next.unreported_failures, record.routing_errors());
        next.unreported_failures.iter().map(|error| error.notice_arrived).collect::<Vec<_>>()
    };
    assert_eq!(is_announced().await, [false]);
    settle(&ledger, &lease, &sent_settlement(&notice, "1")).await;
    assert_eq!(is_announced().await, [true]);
}

/// Catches: a receipt that the model never gets, or gets again and again.
pub async fn failures_are_reported_once(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let reason = FailureReason::TooLarge { limit: 50 };
    let refused = PlannedPart { failure: Some(reason.clone()), ..text_parts(&["big"]).remove(0) };
    ledger.turns.complete_turn(&lease, &completed_turn(turn, vec![refused])).await.unwrap();
    ledger.inbox.receive(&message("2", "and?"), ClaimMode::Never).await.unwrap();
    let next = ledger.turns.next_turn(&lease).await.unwrap().unwrap();
    let record = ledger.archive.turn(turn).await.unwrap().unwrap();
    assert_eq!(next.unreported_failures, record.routing_errors());
    assert_eq!((next.unreported_failures.len(), next.unreported_failures[0].reason.clone()), (1, reason));

    let mut done = completed_turn(next.id, Vec::new());
    done.reported_failures = next.unreported_failures.iter().map(|error| error.part).collect::<Vec<PartId>>();
    ledger.turns.complete_turn(&lease, &done).await.unwrap();
    ledger.inbox.receive(&message("3", "thanks"), ClaimMode::Never).await.unwrap();
    assert_eq!(ledger.turns.next_turn(&lease).await.unwrap().unwrap().unreported_failures, []);
    assert_eq!(
        ledger.archive.parts(&OutboxQuery::default()).await.unwrap(),
        record.parts,
        "the operator sees it still"
    );
}

/// Catches: a page that shows a message in a turn that did not answer it, or files that are gone once it has.
pub async fn turn_record_is_complete(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &with_files(message("1", "first"), &["a.txt", "b.txt"])).await;
    let merged = ledger.inbox.receive(&message("2", "steer"), ClaimMode::Never).await.unwrap();
    let record_texts = |record: &TurnRecord| record.messages.iter().map(|m| m.message.text.clone()).collect::<Vec<_>>();
    assert_eq!(record_texts(&ledger.archive.turn(turn).await.unwrap().unwrap()), ["first"]);
    assert_eq!(
        record_texts(&ledger.archive.turn(merged.turn).await.unwrap().unwrap()),
        ["steer"],
        "it waits by itself"
    );

    let queued = ledger.turns.next_turn(&lease).await.unwrap().unwrap().messages.remove(0);
    let file = new_file("a.txt");
    let stored = ledger.turns.store_file(&lease, queued.id, 0, &file).await.unwrap();
    let mut done = completed_turn(turn, text_parts(&["reply"]));
    done.steered = vec![ledger.turns.list_queued_behind(&lease, turn).await.unwrap()[0].id];
    ledger.turns.complete_turn(&lease, &done).await.unwrap();
    let record = ledger.archive.turn(merged.turn).await.unwrap().unwrap();
    assert_eq!((record.id, record_texts(&record)), (turn, vec!["first".to_owned(), "steer".to_owned()]));
    let files = &record.messages[0].files;
    assert_eq!(files[0], InboundFileState::Stored(stored));
    assert!(matches!(&files[1], InboundFileState::Waiting(reference) if reference.filename.as_str() == "b.txt"));
}

/// Catches: a call that is left out, told as done though it failed, or timed by another.
pub async fn calls_of_a_turn_have_their_outcomes(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "read and write")).await;
    ask_for_calls(&ledger, &lease, turn, "Let me look.", &[(0, "file_read"), (1, "file_write")], &[]).await;
    fixture.clock().advance(Duration::from_millis(40));
    let failure = ToolOutcome { failed: true, ..ToolOutcome::from_text("there is no such file") };
    ledger.turns.journal_outcome(&lease, turn, 0, &failure, &[]).await.unwrap();
    ledger.turns.journal_message(&lease, turn, &JournalEntry::CallStarted { ordinal: 1 }).await.unwrap();
    fixture.clock().advance(Duration::from_millis(2));
    ledger.turns.journal_outcome(&lease, turn, 1, &ToolOutcome::from_text("written"), &[]).await.unwrap();
    ask_for_calls(&ledger, &lease, turn, "", &[(2, "file_list")], &[]).await;
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();

    let calls = ledger.archive.turn(turn).await.unwrap().unwrap().calls;
    let tools: Vec<_> = calls.iter().map(|call| (call.tool.as_str(), &call.arguments["path"])).collect();
    let paths = ["/shared/0.txt", "/shared/1.txt", "/shared/2.txt"].map(|path| serde_json::json!(path));
    assert_eq!(tools, [("file_read", &paths[0]), ("file_write", &paths[1]), ("file_list", &paths[2])]);
    let texts: Vec<_> = calls.iter().map(|call| call.text.as_str()).collect();
    assert_eq!(texts, ["Let me look.", "", ""], "the first call of a message has its text");
    let outcome = |failed, text: &str, took: Option<u64>| {
        Some(FinishedCall { failed, text: text.to_owned(), took: took.map(Duration::from_millis) })
    };
    let outcomes: Vec<_> = calls.into_iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [outcome(true, "there is no such file", Some(40)), outcome(false, "written", None), None]);
}

/// Catches: a short write that is shown with the time of the script before it, or of the person who had to allow it.
pub async fn waiting_is_not_counted_as_a_calls_time(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "run and write")).await;
    let end_call = async |ordinal: u32, after: Duration| {
        fixture.clock().advance(after);
        let outcome = ToolOutcome::from_text("done");
        ledger.turns.journal_outcome(&lease, turn, ordinal, &outcome, &[]).await.unwrap();
    };
    ask_for_calls(&ledger, &lease, turn, "", &[(0, "execute_script"), (1, "file_write")], &[]).await;
    end_call(0, Duration::from_millis(600)).await;
    end_call(1, Duration::from_millis(5)).await;
    ask_for_calls(&ledger, &lease, turn, "", &[(2, "file_read"), (3, "file_list")], &[]).await;
    end_call(3, Duration::from_millis(7)).await;
    end_call(2, Duration::from_millis(2)).await;
    ask_for_calls(&ledger, &lease, turn, "", &[(4, "file_write")], &[4]).await;
    end_call(4, Duration::from_millis(300)).await;
    ask_for_calls(&ledger, &lease, turn, "", &[(5, "file_write")], &[]).await;
    end_call(5, Duration::from_millis(3)).await;
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();

    let calls = ledger.archive.turn(turn).await.unwrap().unwrap().calls;
    let took: Vec<_> = calls.into_iter().map(|call| call.outcome.and_then(|outcome| outcome.took)).collect();
    let millis = |millis: u64| Some(Duration::from_millis(millis));
    assert_eq!(took, [millis(600), None, millis(9), millis(7), None, millis(3)]);
}

/// Records a message of the model with these calls, of which a person must allow some.
async fn ask_for_calls(
    ledger: &Ledger,
    lease: &Lease,
    turn: TurnId,
    text: &str,
    calls: &[(u32, &str)],
    awaiting_decision: &[u32],
) {
    let call = |&(ordinal, name): &(u32, &str)| ToolCall {
        id: CallId { turn, ordinal },
        name: name.to_owned(),
        arguments: serde_json::json!({ "path": format!("/shared/{ordinal}.txt") }),
    };
    let entry = JournalEntry::Model {
        agent: None,
        task: None,
        steered: Vec::new(),
        text: text.to_owned(),
        calls: calls.iter().map(call).collect(),
        awaiting_decision: awaiting_decision.to_vec(),
        changing_calls: Some(calls.iter().map(|&(ordinal, _)| ordinal).collect()),
    };
    ledger.turns.journal_message(lease, turn, &entry).await.unwrap();
}

/// Catches: a page that shows a turn twice, or leaves one out.
pub async fn turns_are_paged(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let in_conversation = |name: &str, key: &str, text: &str| InboundMessage {
        conversation: conversation(name),
        key: format!("{name} {key}"),
        ..message(key, text)
    };
    let mut ids = Vec::new();
    for number in 0..5 {
        let received =
            ledger.inbox.receive(&in_conversation("web:a", &number.to_string(), "hello"), ClaimMode::Never).await;
        ids.push(received.unwrap().turn);
    }
    ledger.inbox.receive(&in_conversation("web:b", "0", "elsewhere"), ClaimMode::Never).await.unwrap();
    let page = async |before: Option<TurnId>| {
        let query = TurnQuery { conversation: conversation("web:a"), before, limit: 2 };
        ledger.archive.turns(&query).await.unwrap().iter().map(|turn| turn.id).collect::<Vec<_>>()
    };
    assert_eq!(page(None).await, ids[3..]);
    assert_eq!(page(Some(ids[3])).await, ids[1..3]);
    assert_eq!(page(Some(ids[1])).await, ids[..1]);
    assert_eq!(page(Some(ids[0])).await, []);
}

/// Catches: a message of another program that waits and is listed nowhere, or that is listed once it is delivered.
pub async fn queued_notifications_are_listed_until_completed(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let notification = |key: &str, place: &str| InboundMessage {
        conversation: conversation(place),
        system_task: Some(SystemTask::DeliverNotification { text: format!("{key} is done") }),
        ..message(key, "")
    };
    let (lease, first) = receive(&ledger, &notification("backup", "telegram:1")).await;
    ledger.inbox.receive(&message("hello", "hello"), ClaimMode::Never).await.unwrap();
    let second = ledger.inbox.receive(&notification("build", "web:a"), ClaimMode::Never).await.unwrap().turn;
    let listed = async |place: Option<&str>| {
        let turns = ledger.archive.list_queued_notifications(place.map(conversation)).await.unwrap();
        turns.iter().map(|turn| (turn.id, turn.messages[0].message.key.clone())).collect::<Vec<_>>()
    };
    let (backup, build) = ((first, "backup".to_owned()), (second, "build".to_owned()));
    assert_eq!(listed(None).await, [backup.clone(), build.clone()]);
    assert_eq!(listed(Some("telegram:1")).await, [backup]);
    assert_eq!(listed(Some("web:nobody")).await, []);
    ledger.turns.complete_turn(&lease, &completed_turn(first, Vec::new())).await.unwrap();
    assert_eq!(listed(None).await, [build]);
}

/// Catches: a `/stop` that nobody sees, since more has been written before it than is looked at.
pub async fn stop_is_found_behind_many_messages(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("0", "0")).await;
    let flood = async |keys: std::ops::Range<u32>| {
        let texts = keys.map(|key| message(&key.to_string(), "a / b"));
        let receiving = texts.map(|message| {
            let ledger = ledger.clone();
            async move { ledger.inbox.receive(&message, ClaimMode::Never).await.unwrap() }
        });
        futures::future::join_all(receiving).await;
    };
    let commands = async || {
        let waiting = ledger.turns.list_queued_behind(&lease, turn).await.unwrap();
        assert!(waiting.len() < 300, "{} are looked at", waiting.len());
        let texts = waiting.into_iter().map(|queued| queued.message.text);
        texts.filter(|text| text.starts_with('/')).collect::<Vec<_>>()
    };
    ledger.inbox.receive(&message("first", "/allow A1"), ClaimMode::Never).await.unwrap();
    flood(1..600).await;
    assert_eq!(commands().await, ["/allow A1"]);
    for command in ["/allow B2", "/stop"] {
        ledger.inbox.receive(&message(command, command), ClaimMode::Never).await.unwrap();
    }
    flood(600..700).await;
    assert_eq!(commands().await, ["/allow A1", "/allow B2", "/stop"], "in the order in which they came");
}

/// Catches: a conversation whose turn takes longer than the time asked for, one that was completed just then, and one
/// that has been idle since.
pub async fn conversations_with_recent_turns_are_active(fixture: &impl LedgerFixture) {
    let ledger = fixture.open().await;
    let (lease, turn) = receive(&ledger, &message("1", "hello")).await;
    let active = async |since: Timestamp| ledger.storage.active_conversations(since).await.unwrap();
    let never = Timestamp(i64::MAX);
    assert_eq!(active(never).await, std::slice::from_ref(&lease.conversation), "its turn is incomplete");
    let before = fixture.clock().now();
    ledger.turns.complete_turn(&lease, &completed_turn(turn, Vec::new())).await.unwrap();
    assert_eq!(active(before).await, std::slice::from_ref(&lease.conversation), "its turn was completed since then");
    assert_eq!(active(Timestamp(fixture.clock().now().0 + 1)).await, []);
    let idle = InboundMessage { conversation: conversation("web:a"), ..message("2", "again") };
    ledger.inbox.receive(&idle, ClaimMode::Never).await.unwrap();
    assert_eq!(active(never).await, [conversation("web:a")], "a new message ends the idleness");
}
