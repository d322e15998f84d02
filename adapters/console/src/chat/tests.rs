//! The conversation and the single question, with typed lines and a bus that the test holds.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::stream;
use satchel_domain::{
    ConversationId, Ending, InboundMessage, MessageRef, OutgoingResponse, Part, PartContent, PartId, PartState,
    Timestamp,
};
use satchel_ports::{
    BusEvent, InboundError, LedgerError, MockArchive, MockEventBus, MockInbound, SequentialIds, ledger::TurnRecord,
};
use satchel_wait::wait_until;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::*;
use crate::{
    Screen, follow_events, run_once,
    screen::{ScreenStyle, tests::RecordingOutput},
};

const TURN: TurnId = TurnId(Uuid::from_u128(1));

fn main_conversation() -> ConversationId {
    "console:main".parse().unwrap()
}

/// The turn as the ledger has it: running, complete with its part under way, or all settled.
fn record(ending: Option<Ending>, state: PartState) -> TurnRecord {
    let part = Part {
        state,
        attempts: 1,
        ..Part::new(
            PartId(Uuid::from_u128(2)),
            main_conversation(),
            TURN,
            0,
            PartContent::from_text("Hi."),
            Timestamp(0),
        )
    };
    let is_complete = ending.is_some();
    TurnRecord {
        id: TURN,
        conversation: main_conversation(),
        ending,
        response: is_complete.then(|| OutgoingResponse::from_text("Hi.")),
        parts: if is_complete { vec![part] } else { Vec::new() },
        calls: Vec::new(),
        replaced_by: None,
        messages: Vec::new(),
    }
}

fn sent() -> PartState {
    PartState::Sent { messages: vec![MessageRef("1".to_owned())] }
}

struct Bench {
    client: ConsoleClient,
    printed: RecordingOutput,
    accepted: Arc<Mutex<Vec<InboundMessage>>>,
    turn: Arc<Mutex<TurnRecord>>,
    events: mpsc::UnboundedSender<BusEvent>,
    reads: Arc<Mutex<u32>>,
}

/// A client whose first `failures` messages are not taken.
fn bench(look: ScreenStyle, failures: usize) -> Bench {
    let accepted: Arc<Mutex<Vec<InboundMessage>>> = Arc::default();
    let turn = Arc::new(Mutex::new(record(None, PartState::Pending)));
    let reads = Arc::new(Mutex::new(0));
    let mut inbound = MockInbound::new();
    let (taken, mut failures) = (Arc::clone(&accepted), failures);
    inbound.expect_accept().returning(move |message| {
        if failures > 0 {
            failures -= 1;
            return Err(InboundError("the disk is full".into()));
        }
        taken.lock().unwrap().push(message);
        Ok(Some(TURN))
    });
    let mut ledger = MockArchive::new();
    let (known, counted) = (Arc::clone(&turn), Arc::clone(&reads));
    ledger.expect_turn().returning(move |_| {
        *counted.lock().unwrap() += 1;
        Ok(Some(known.lock().unwrap().clone()))
    });
    let (events, receiver) = mpsc::unbounded_channel();
    let mut receiver = Some(receiver);
    let mut bus = MockEventBus::new();
    bus.expect_subscribe().returning(move || {
        let receiver = receiver.take().expect("one subscription a test");
        Ok(Box::pin(stream::unfold(receiver, |mut it| async { Some((it.recv().await?, it)) })))
    });
    let printed = RecordingOutput::default();
    let client = ConsoleClient {
        inbound: Arc::new(inbound),
        archive: Arc::new(ledger),
        ids: Arc::new(SequentialIds::starting_at(101)),
        bus: Arc::new(bus),
        screen: Arc::new(Screen::new(printed.clone(), look)),
        conversation: main_conversation(),
        name: "Ada".to_owned(),
        shutdown: CancellationToken::new(),
    };
    Bench { client, printed, accepted, turn, events, reads }
}

fn settings() -> ChatSettings {
    ChatSettings { home: None, file_bytes: 1000 }
}

fn lines(lines: &[&str]) -> Vec<InputEvent> {
    lines.iter().map(|line| InputEvent::Line((*line).to_owned())).chain([InputEvent::Eof]).collect()
}

fn texts(bench: &Bench) -> Vec<String> {
    bench.accepted.lock().unwrap().iter().map(|message| message.text.clone()).collect()
}

fn settled_event() -> BusEvent {
    BusEvent::DeliveryPart {
        conversation: main_conversation(),
        turn: TURN,
        part: PartId(Uuid::from_u128(2)),
        kind: "text".to_owned(),
        state: "sent".to_owned(),
        messages: Vec::new(),
        reason: None,
    }
}

#[tokio::test]
async fn lines_become_owner_messages_with_distinct_keys() {
    let bench = bench(ScreenStyle::default(), 0);
    let typed = lines(&["hello", "", "/tool attachment.list {}", "/unknown"]);
    run_chat(&bench.client, &settings(), stream::iter(typed)).await.unwrap();
    assert_eq!(texts(&bench), ["hello", "/tool attachment.list {}", "/unknown"]);
    let accepted = bench.accepted.lock().unwrap();
    assert_eq!((accepted[0].sender.id.as_str(), accepted[0].sender.name.as_str()), ("owner", "Ada"));
    assert_eq!(accepted[0].conversation, main_conversation());
    assert_ne!(accepted[0].key, accepted[1].key);
}

#[tokio::test]
async fn attachments_go_with_next_message_or_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("a.txt"), dir.path().join("b c.txt"));
    fs::write(&first, b"a").unwrap();
    fs::write(&second, b"b").unwrap();
    let bench = bench(ScreenStyle::default(), 0);
    let attach = format!("/attach {} '{}' /gone.txt", first.display(), second.display());
    let dropped = format!("'{}'", second.display());
    let typed = lines(&[&attach, "look", &dropped, "", &dropped, "/detach", "bye", "/attach"]);
    run_chat(&bench.client, &settings(), stream::iter(typed)).await.unwrap();
    let accepted = bench.accepted.lock().unwrap();
    let sent: Vec<(&str, Vec<&str>)> =
        accepted.iter().map(|it| (&*it.text, it.files.iter().map(|file| file.filename.as_str()).collect())).collect();
    assert_eq!(sent, [("look", vec!["a.txt", "b c.txt"]), ("", vec!["b c.txt"]), ("bye", vec![])]);
    assert_eq!(Path::new(&accepted[0].files[0].locator), first);
    let printed = bench.printed.text();
    for told in ["+ a.txt (1 B)", "/gone.txt was not attached: there is no such file", "2 files go", "which file?"] {
        assert!(printed.contains(told), "{told}: {printed}");
    }
}

#[tokio::test]
async fn rejected_message_is_reported_and_keeps_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.txt");
    fs::write(&file, b"a").unwrap();
    let bench = bench(ScreenStyle::default(), 1);
    let typed = lines(&[&format!("/attach {}", file.display()), "first", "second"]);
    run_chat(&bench.client, &settings(), stream::iter(typed)).await.unwrap();
    assert!(bench.printed.text().contains("could not be stored; its files stay attached"));
    let accepted = bench.accepted.lock().unwrap();
    assert_eq!((accepted.len(), accepted[0].text.as_str(), accepted[0].files.len()), (1, "second", 1));
}

#[tokio::test]
async fn interrupt_stops_turn_or_explains_exit() {
    for (ending, expected) in [(None, vec!["work", "/stop"]), (Some(Ending::Done), vec!["work"])] {
        let bench = bench(ScreenStyle::default(), 0);
        *bench.turn.lock().unwrap() = record(ending, sent());
        let typed = vec![InputEvent::Line("work".to_owned()), InputEvent::Interrupt, InputEvent::Eof];
        run_chat(&bench.client, &settings(), stream::iter(typed)).await.unwrap();
        assert_eq!(texts(&bench), expected);
        assert_eq!(bench.printed.text().contains("press Ctrl-D to quit"), expected.len() == 1);
    }
}

#[tokio::test]
async fn piped_lines_wait_for_their_answers() {
    let bench = bench(ScreenStyle::default(), 0);
    let (settings, typed) = (settings(), stream::iter([InputEvent::Line("hello".to_owned())]));
    let mut talk = Box::pin(run_chat(&bench.client, &settings, typed));
    assert!(tokio::time::timeout(Duration::from_millis(30), &mut talk).await.is_err(), "it left too early");
    *bench.turn.lock().unwrap() = record(Some(Ending::Done), sent());
    bench.events.send(settled_event()).unwrap();
    tokio::time::timeout(Duration::from_millis(500), talk).await.expect("the event wakes it").unwrap();
}

#[tokio::test]
async fn the_process_can_stop_while_somebody_types() {
    let bench = bench(ScreenStyle::default(), 0);
    bench.client.shutdown.cancel();
    run_chat(&bench.client, &settings(), stream::pending()).await.unwrap();
}

#[tokio::test]
async fn run_once_returns_after_every_part_settles() {
    let bench = bench(ScreenStyle::default(), 0);
    let files = ["/gone/x.txt".into()];
    let mut question = Box::pin(run_once(&bench.client, "hello", &files, stream::pending()));
    for state in [PartState::Pending, PartState::Sending] {
        *bench.turn.lock().unwrap() = record(Some(Ending::Done), state);
        bench.events.send(settled_event()).unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut question).await.is_err());
    }
    *bench.turn.lock().unwrap() = record(Some(Ending::Done), sent());
    bench.events.send(settled_event()).unwrap();
    let record = tokio::time::timeout(Duration::from_millis(500), question).await.unwrap().unwrap();
    assert_eq!(record.ending, Some(Ending::Done));
    assert!(*bench.reads.lock().unwrap() <= 6, "the ledger is asked when something happened");
    let accepted = bench.accepted.lock().unwrap();
    assert_eq!(accepted[0].files[0].locator, "/gone/x.txt", "a file that can't be opened is handed in to be refused");
}

#[tokio::test(start_paused = true)]
async fn once_finds_out_without_any_event() {
    let bench = bench(ScreenStyle::default(), 0);
    let turn = Arc::clone(&bench.turn);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        *turn.lock().unwrap() = record(Some(Ending::Done), sent());
    });
    run_once(&bench.client, "hello", &[], stream::pending()).await.unwrap();
    assert!(*bench.reads.lock().unwrap() <= 8, "no busy loop");
}

#[tokio::test(start_paused = true)]
async fn interrupted_run_once_sends_stop_and_awaits_results() {
    let bench = bench(ScreenStyle::default(), 0);
    let turn = Arc::clone(&bench.turn);
    let interrupt = stream::once(async move {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        *turn.lock().unwrap() = record(Some(Ending::Cancelled), sent());
    });
    let record = run_once(&bench.client, "hello", &[], interrupt).await.unwrap();
    assert_eq!(record.ending, Some(Ending::Cancelled));
    assert_eq!(texts(&bench), ["hello", "/stop"]);
}

#[tokio::test(start_paused = true)]
async fn second_interrupt_ends_run_once_immediately() {
    let bench = bench(ScreenStyle::default(), 0);
    let interrupts = stream::unfold((), async |()| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some(((), ()))
    });
    let ended = run_once(&bench.client, "hello", &[], interrupts).await;
    assert!(matches!(ended, Err(ConsoleError::Stopped)), "{ended:?}");
    assert_eq!(texts(&bench), ["hello", "/stop"]);
}

#[tokio::test]
async fn once_ends_with_the_process() {
    let bench = bench(ScreenStyle::default(), 0);
    bench.client.shutdown.cancel();
    let ended = run_once(&bench.client, "hello", &[], stream::pending()).await;
    assert!(matches!(ended, Err(ConsoleError::Stopped)), "{ended:?}");
}

/// Lets another process work on the conversation while the first messages come.
fn hold_conversation(bench: &mut Bench, mut messages: usize) {
    let accepted = Arc::clone(&bench.accepted);
    let mut inbound = MockInbound::new();
    inbound.expect_accept().returning(move |message| {
        if messages > 0 {
            messages -= 1;
            return Err(InboundError(Box::new(LedgerError::LaneHeld(main_conversation()))));
        }
        accepted.lock().unwrap().push(message);
        Ok(Some(TURN))
    });
    bench.client.inbound = Arc::new(inbound);
}

#[tokio::test(start_paused = true)]
async fn run_once_waits_for_the_process_that_works_on_the_conversation() {
    let mut bench = bench(ScreenStyle::default(), 0);
    hold_conversation(&mut bench, 3);
    *bench.turn.lock().unwrap() = record(Some(Ending::Done), sent());
    run_once(&bench.client, "hello", &[], stream::pending()).await.unwrap();
    assert_eq!(texts(&bench), ["hello"], "it is stored once the conversation is free");
}

#[tokio::test(start_paused = true)]
async fn interrupt_while_run_once_waits_stops_nobody_elses_turn() {
    let mut bench = bench(ScreenStyle::default(), 0);
    hold_conversation(&mut bench, usize::MAX);
    let interrupt = stream::once(tokio::time::sleep(Duration::from_secs(1)));
    let ended = run_once(&bench.client, "hello", &[], interrupt).await;
    assert!(matches!(ended, Err(ConsoleError::Busy)), "{ended:?}");
    assert!(texts(&bench).is_empty(), "no message and no /stop was sent");
}

#[tokio::test]
async fn what_happens_is_followed_for_this_conversation_only() {
    let bench = bench(ScreenStyle { terminal: true, colour: false, width: Some(60) }, 0);
    let task = follow_events(&bench.client).await.unwrap();
    let delta = |conversation: &str, text: &str| BusEvent::TextDelta {
        conversation: conversation.parse().unwrap(),
        turn: TURN,
        message: 0,
        text: text.to_owned(),
    };
    bench.events.send(delta("console:other", "not here")).unwrap();
    for piece in ["Hel", "lo ", "there."] {
        bench.events.send(delta("console:main", piece)).unwrap();
    }
    wait_until("it is printed", || bench.printed.text().contains("Hello there.")).await;
    assert!(!bench.printed.text().contains("not here"));
    bench.client.shutdown.cancel();
    task.await.unwrap();
}
