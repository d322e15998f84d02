//! The stream of events: everything first, then every change, in order, and the ledger's word in the end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use satchel_domain::{CallId, PartState, part::FailureReason};
use satchel_local::LocalBus;
use satchel_ports::{BusEvent, Leases, Turns, ledger::WorkFilter};
use serde_json::{Value, json};

use crate::stage::{Events, Stage, conversation, sent};

fn state_of(part: usize) -> impl Fn(&Value) -> Value {
    move |turn| turn["parts"][part]["state"].clone()
}

#[tokio::test]
async fn event_stream_starts_with_snapshot_and_follows_changes() {
    let stage = Stage::new().await;
    let first = stage.say("k1", "Hello").await.to_string();
    let mut events = Events::of(&stage).await;
    let snapshot = events.expect("snapshot").await;
    assert_eq!((&snapshot["more"], &snapshot["live"]), (&json!(false), &json!(null)));
    assert_eq!(snapshot["turns"], stage.json("/api/conversations/a/turns").await["turns"]);

    let second = stage.say("k2", "and").await.to_string();
    let received = events.expect("turn").await;
    assert_eq!((&received["id"], &received["state"]), (&json!(second), &json!("waiting")));

    let (lease, parts) = stage.answer("Hi", vec![stage.made("a.bin", "abc").await]).await;
    let answered = events.find("turn", |turn| turn["id"] == json!(first) && turn["state"] == "done").await;
    assert_eq!((state_of(0)(&answered), state_of(1)(&answered)), (json!("sending"), json!("pending")));
    events.find("turn", |turn| turn["id"] == json!(second) && turn["state"] == "running").await;
    stage.settle(&lease, &parts[0], sent(&parts[0])).await;
    let moved = events.find("turn", |turn| turn["id"] == json!(first) && state_of(0)(turn) == "sent").await;
    assert_eq!(state_of(1)(&moved), "sending");
    let reason = FailureReason::Refused { reason: "no".into() };
    stage.settle(&lease, &parts[1], PartState::Failed { reason }).await;
    let failed = events.find("turn", |turn| state_of(1)(turn) == "failed").await;
    assert_eq!(failed["parts"][1]["reason"], "refused: no");
}

#[tokio::test]
async fn a_long_conversation_begins_with_its_newest_turns() {
    let stage = Stage::new().await;
    for number in 0..32 {
        stage.say(&format!("k{number}"), &format!("message {number}")).await;
    }
    let snapshot = Events::of(&stage).await.expect("snapshot").await;
    let turns = snapshot["turns"].as_array().unwrap();
    assert_eq!((turns.len(), &snapshot["more"]), (30, &json!(true)));
    assert_eq!(turns[0]["messages"][0]["text"], "message 2");
}

#[tokio::test]
async fn ledger_changes_appear_without_bus_events() {
    let stage = Stage::on(Arc::new(Deaf), |_| {}).await;
    let turn = stage.say("k1", "Hello").await.to_string();
    let mut events = Events::of(&stage).await;
    events.expect("snapshot").await;
    stage.reply("Hi", Vec::new()).await;
    let began = Instant::now();
    let done = events.find("turn", |turn| turn["state"] == "done").await;
    assert_eq!(done["id"], json!(turn));
    assert!(began.elapsed() < Duration::from_secs(10), "what is unfinished is looked at every few seconds");
}

/// A bus that carries nothing.
struct Deaf;

#[async_trait::async_trait]
impl satchel_ports::EventBus for Deaf {
    async fn publish(&self, _: BusEvent) -> Result<(), satchel_ports::BusError> {
        Ok(())
    }

    async fn subscribe(&self) -> Result<satchel_ports::event_bus::EventStream, satchel_ports::BusError> {
        Ok(Box::pin(futures::stream::pending()))
    }
}

#[tokio::test]
async fn reordered_events_converge() {
    for seed in 0..5 {
        let stage = Stage::on(Arc::new(LocalBus::with_reordering(seed)), |_| {}).await;
        let turn = stage.say("k1", "Hello").await;
        let mut events = Events::of(&stage).await;
        events.expect("snapshot").await;
        for piece in ["one ", "two ", "three"] {
            stage.wrote(turn, 0, piece).await;
        }
        stage.reply("one two three", Vec::new()).await;
        stage.wrote(turn, 0, "too late").await;
        let done = events.find("turn", |turn| turn["state"] == "done" && state_of(0)(turn) == "sent").await;
        assert_eq!(done["parts"][0]["html"], "<p>one two three</p>");
        stage.say("k2", "next").await;
        let next = events.find("turn", |turn| turn["messages"][0]["text"] == "next").await;
        assert_eq!(next["state"], "running");
        let again = Events::of(&stage).await.expect("snapshot").await;
        assert_eq!(again["live"], json!(null), "seed {seed}");
        assert_eq!(again["turns"][0], done, "seed {seed}");
    }
}

#[tokio::test]
async fn steering_messages_move_into_consuming_turn() {
    let stage = Stage::new().await;
    let first = stage.say("k1", "Hello").await;
    let second = stage.say("k2", "and quickly").await;
    let mut events = Events::of(&stage).await;
    assert_eq!(events.expect("snapshot").await["turns"].as_array().unwrap().len(), 2);
    let lease = stage
        .ledger
        .claim_lane(&[satchel_ports::Channel::name(&*stage.channel)], WorkFilter::Any)
        .await
        .unwrap()
        .unwrap()
        .lease;
    let injected = stage.ledger.list_queued_behind(&lease, first).await.unwrap();
    let entry = satchel_ports::ledger::JournalEntry::Model {
        awaiting_decision: Vec::new(),
        agent: None,
        task: None,
        steered: vec![satchel_ports::ledger::SteeringMessage {
            id: injected[0].id,
            sender: injected[0].message.sender.clone(),
            text: injected[0].message.text.clone(),
            origin: Some(injected[0].origin()),
        }],
        text: String::new(),
        calls: Vec::new(),
        changing_calls: Some(Vec::new()),
    };
    stage.ledger.journal_message(&lease, first, &entry).await.unwrap();
    let completed = satchel_ports::ledger::CompletedTurn {
        turn: first,
        ending: satchel_domain::Ending::Done,
        response: satchel_domain::OutgoingResponse::from_text("Hi"),
        plan: Default::default(),
        history: satchel_ports::ledger::HistoryChange::Append(Vec::new()),
        setting: None,
        steered: vec![injected[0].id],
        injected_texts: Default::default(),
        reported_failures: Vec::new(),
        reply_to: None,
        changes: Vec::new(),
        answered: None,
        hands_over: false,
    };
    stage.ledger.complete_turn(&lease, &completed).await.unwrap();
    let event = BusEvent::TurnCompleted {
        conversation: conversation(),
        turn: first,
        ending: "done".into(),
        response: satchel_domain::OutgoingResponse::from_text("Hi"),
    };
    stage.publish(event).await;
    let merged = events.find("turn", |turn| turn["state"] == "done").await;
    let said: Vec<&Value> = merged["messages"].as_array().unwrap().iter().map(|message| &message["text"]).collect();
    assert_eq!(said, ["Hello", "and quickly"]);
    let gone = events.find("gone", |_| true).await;
    assert_eq!(gone["turn"], json!(second.to_string()));
}

#[tokio::test]
async fn another_conversations_events_are_not_heard() {
    let stage = Stage::new().await;
    let mut events = Events::of(&stage).await;
    events.expect("snapshot").await;
    let other = json!({"key": "k", "text": "elsewhere"});
    stage.post("/api/conversations/b/messages").json(&other).send().await.unwrap();
    let console = "console:main".parse().unwrap();
    let turn = stage.say("k1", "here").await;
    let call = CallId { turn, ordinal: 0 };
    stage.publish(BusEvent::ToolStarted { conversation: console, call, tool: "t".into() }).await;
    let next = events.expect("turn").await;
    assert_eq!(next["messages"][0]["text"], "here");
    let quiet = tokio::time::timeout(Duration::from_millis(300), events.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
}
