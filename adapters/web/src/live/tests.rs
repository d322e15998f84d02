//! A room over a ledger that is a mock: how often it is read, who is cut off, what is forgotten.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use satchel_domain::{OutgoingResponse, TurnId};
use satchel_ports::{MockArchive, ledger::TurnRecord};
use serde_json::Value;
use tokio::time::timeout;
use uuid::Uuid;

use super::*;
use crate::signing::SigningKey;

fn conversation() -> ConversationId {
    "web:a".parse().unwrap()
}

fn turn(number: u128) -> TurnId {
    TurnId(Uuid::from_u128(number))
}

fn record(number: u128) -> TurnRecord {
    TurnRecord {
        id: turn(number),
        conversation: conversation(),
        ending: None,
        response: None,
        messages: Vec::new(),
        parts: Vec::new(),
        calls: Vec::new(),
        replaced_by: None,
    }
}

fn delta(text: &str) -> BusEvent {
    BusEvent::TextDelta { conversation: conversation(), turn: turn(1), message: 0, text: text.into() }
}

/// A hub over a ledger in which one turn runs; counts how often its turns are read.
fn hub() -> (Arc<LiveHub>, Arc<AtomicUsize>) {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let mut ledger = MockArchive::new();
    ledger.expect_turns().returning(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(vec![record(1)])
    });
    ledger.expect_turn().returning(|_| Ok(Some(record(1))));
    let channel = ChannelName::new("web").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let urls = UrlSigner::new(SigningKey::load_or_create(&directory.path().join("key")).unwrap());
    (LiveHub::new(Arc::new(ledger), channel, urls, CancellationToken::new()), reads)
}

async fn next(listening: &mut LiveSubscription) -> Option<(String, Value)> {
    let frame = timeout(Duration::from_secs(10), listening.frames.recv()).await.expect("a frame comes")?;
    let frame = String::from_utf8(frame.frame.to_vec()).unwrap();
    let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    Some((field("event: ").to_owned(), serde_json::from_str(field("data: ")).unwrap()))
}

#[tokio::test]
async fn simultaneous_clients_share_one_read_and_same_bytes() {
    let (hub, reads) = hub();
    let mut clients: Vec<LiveSubscription> = (0..200).map(|_| hub.subscribe(&conversation())).collect();
    for client in &mut clients {
        assert_eq!(next(client).await.unwrap().0, "snapshot");
    }
    assert!(reads.load(Ordering::Relaxed) <= 2, "{reads:?} reads");
    hub.on_event(&delta("Hello"));
    let mut frames = Vec::new();
    for client in &mut clients {
        loop {
            let frame = client.frames.recv().await.unwrap().frame;
            if frame.starts_with(b"event: live") {
                frames.push(frame.as_ptr());
                break;
            }
        }
    }
    assert!(frames.iter().all(|frame| *frame == frames[0]), "it was rendered once");
}

#[tokio::test]
async fn stalled_client_is_disconnected_and_others_miss_nothing() {
    let (hub, _) = hub();
    let (sleeper, mut reader) = (hub.subscribe(&conversation()), hub.subscribe(&conversation()));
    assert_eq!(next(&mut reader).await.unwrap().0, "snapshot");
    let call = |ordinal| satchel_domain::CallId { turn: turn(1), ordinal };
    for ordinal in 0..MAX_QUEUED_FRAMES as u32 + 10 {
        let (conversation, call) = (conversation(), call(ordinal));
        hub.on_event(&BusEvent::ToolStarted { conversation, call, tool: "t".into() });
        let wanted = Value::from(call.to_string());
        loop {
            let (_, data) = next(&mut reader).await.unwrap();
            if data["call"] == wanted || data["tools"][0]["call"] == wanted {
                break;
            }
        }
    }
    assert!(sleeper.closed.is_cancelled() && !reader.closed.is_cancelled());
    assert_eq!(sleeper.frames.len(), MAX_QUEUED_FRAMES, "no more was kept for it");
}

#[tokio::test]
async fn few_large_frames_disconnect_stalled_client_too() {
    let (hub, _) = hub();
    let (mut sleeper, mut reader) = (hub.subscribe(&conversation()), hub.subscribe(&conversation()));
    assert_eq!(next(&mut reader).await.unwrap().0, "snapshot");
    let large = "x".repeat(200 * 1024);
    for message in 0..60 {
        let (conversation, text) = (conversation(), format!("{message} {large}"));
        hub.on_event(&BusEvent::TextDelta { conversation, turn: turn(1), message, text });
        let wanted = format!("<p>{message} ");
        loop {
            let (_, data) = next(&mut reader).await.unwrap();
            if data["blocks"][0].as_str().is_some_and(|block| block.starts_with(&wanted)) {
                break;
            }
        }
    }
    assert!(sleeper.closed.is_cancelled() && !reader.closed.is_cancelled());
    let mut kept = 0;
    while let Ok(waiting) = sleeper.frames.try_recv() {
        kept += waiting.frame.len();
    }
    assert!((1 << 20..=MAX_QUEUED_KIB * 1024 + 4096).contains(&kept), "{kept} bytes were kept for it");
}

#[tokio::test]
async fn unwatched_draft_is_visible_until_turn_completes() {
    let (hub, _) = hub();
    hub.on_event(&delta("Hel"));
    hub.on_event(&delta("lo"));
    let mut client = hub.subscribe(&conversation());
    let (name, snapshot) = next(&mut client).await.unwrap();
    assert_eq!((name.as_str(), &snapshot["live"]["blocks"][0]), ("snapshot", &Value::from("<p>Hello</p>")));
    drop(client);
    let ended = async {
        while hub.rooms().values().any(|room| room.state().has_renderer) {
            hub.on_event(&delta("."));
            // Between two of the events, at which the renderer notices that nobody looks.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(10), ended).await.expect("nobody looks any more");
    assert_eq!(hub.rooms().len(), 1, "it is still being written");
    let (conversation, response) = (conversation(), OutgoingResponse::default());
    hub.on_event(&BusEvent::TurnCompleted { conversation, turn: turn(1), ending: "done".into(), response });
    assert_eq!(hub.rooms().len(), 0);
}

#[tokio::test]
async fn conversations_that_nobody_looks_at_are_bounded() {
    let (hub, _) = hub();
    for number in 0..2_000_u128 {
        let conversation = format!("web:c{number}").parse().unwrap();
        hub.on_event(&BusEvent::TextDelta { conversation, turn: turn(number), message: 0, text: "x".into() });
    }
    assert!(hub.rooms().len() <= MAX_IDLE_ROOMS, "{}", hub.rooms().len());
    assert!(hub.rooms().contains_key(&"web:c1999".parse().unwrap()), "the newest are kept");
}

#[tokio::test]
async fn only_the_webs_own_conversations_are_remembered() {
    let (hub, _) = hub();
    let elsewhere = "console:main".parse().unwrap();
    let elsewhere = BusEvent::TextDelta { conversation: elsewhere, turn: turn(2), message: 0, text: "x".into() };
    let running = CancellationToken::new();
    let end = Arc::clone(&hub).run(futures::stream::iter([elsewhere, delta("y")]).boxed(), &running).await;
    assert_eq!(end, ListenerEnd::BusClosed);
    assert_eq!(hub.rooms().keys().collect::<Vec<_>>(), [&conversation()]);
}

#[tokio::test]
async fn bus_that_closes_after_stop_is_no_news() {
    let (hub, _) = hub();
    let stop = CancellationToken::new();
    stop.cancel();
    let end = Arc::clone(&hub).run(futures::stream::empty().boxed(), &stop).await;
    assert_eq!(end, ListenerEnd::Stopped);
}

#[tokio::test]
async fn a_stopped_hub_lets_everybody_go() {
    let (hub, _) = hub();
    let mut client = hub.subscribe(&conversation());
    next(&mut client).await.unwrap();
    hub.stop.cancel();
    timeout(Duration::from_secs(10), hub.wait_stopped()).await.expect("it ends");
    assert!(client.closed.is_cancelled());
}
