//! What readers outside get of the bus.

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::StreamExt;
use satchel_contracts::event_bus::unreadable_events;
use satchel_domain::{Filename, OutgoingResponse};
use satchel_nats::{NatsConnection, NatsSettings};
use satchel_ports::{BusEvent, EventBus, event_bus::EventBytes};
use satchel_requirements::required;
use satchel_wait::wait_until;
use serde_json::json;
use tokio::time::timeout;

use crate::harness::{Harness, TIMEOUT, conversation, received, turn};

async fn binary(harness: &Harness, content: Vec<u8>) -> BusEvent {
    let stored = harness.put(content).await;
    BusEvent::ResponseBinary {
        conversation: conversation(),
        turn: turn(1),
        part: None,
        filename: Some(Filename::from_untrusted("a.bin")),
        mime: stored.mime,
        bytes: stored.bytes,
        sha256: stored.sha256,
        content: EventBytes::Blob(stored.sha256),
    }
}

#[tokio::test]
async fn events_are_stored_and_text_deltas_are_not() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.*.telegram.-100123+42.>").await;
    let bus = harness.bus().await;
    let delta = BusEvent::TextDelta { conversation: conversation(), turn: turn(1), message: 0, text: "Hel".into() };
    for event in [received(1), delta, received(2)] {
        bus.publish(event).await.unwrap();
    }
    for (stream, type_name) in
        [("evt", "message.received"), ("live", "agent.output.delta.text"), ("evt", "message.received")]
    {
        let (subject, event) = follower.next().await;
        assert_eq!(subject, format!("satchel.v1.{stream}.telegram.-100123+42.{type_name}"));
        assert_eq!((&event["v"], &event["type"]), (&json!(1), &json!(format!("evt.{type_name}"))));
    }
    assert!(bus.flush(TIMEOUT).await);
    assert_eq!(harness.stored_messages("SATCHEL_EVENTS").await, 2);
}

#[tokio::test]
async fn small_files_come_with_their_bytes_in_order() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.evt.>").await;
    let bus = harness.bus().await;
    let contents = [b"first".to_vec(), vec![7; 256 * 1024], vec![8; 256 * 1024 + 1], Vec::new()];
    for content in &contents {
        bus.publish(binary(&harness, content.clone()).await).await.unwrap();
    }
    for content in &contents {
        let (_, event) = follower.next().await;
        assert_eq!(event["bytes"], json!(content.len()));
        match event["dataBase64"].as_str() {
            Some(data) => assert_eq!(&STANDARD.decode(data).unwrap(), content),
            None => assert!(content.len() > 256 * 1024 && event["blob"] == event["sha256"], "{event}"),
        }
    }
}

#[tokio::test]
async fn what_is_too_large_for_the_server_is_shortened() {
    let Some(harness) = required(Harness::start_with("max_payload: 65536").await) else { return };
    let mut follower = harness.follow("satchel.v1.evt.>").await;
    let bus = harness.bus().await;
    bus.publish(binary(&harness, vec![7; 60_000]).await).await.unwrap();
    let text = "\u{1}é".repeat(40_000);
    let response = OutgoingResponse::from_text(text.clone());
    let completed =
        BusEvent::TurnCompleted { conversation: conversation(), turn: turn(1), ending: "done".into(), response };
    bus.publish(completed).await.unwrap();
    bus.publish(received(2)).await.unwrap();
    let (_, file) = follower.next().await;
    assert!(file["dataBase64"].is_null() && file["blob"].is_string(), "{file}");
    let (_, completed) = follower.next().await;
    let cut = completed["response"]["text"].as_str().unwrap();
    assert!(cut.ends_with('…') && text.starts_with(cut.trim_end_matches('…')) && cut.len() > 1_000, "{}", cut.len());
    assert_eq!(follower.next().await.1["type"], "evt.message.received", "later ones come");
}

#[tokio::test]
async fn events_that_cannot_be_read_are_skipped_and_counted() {
    let Some(harness) = required(Harness::start().await) else { return };
    let (bus, follower) = (harness.bus().await, harness.follow("none").await);
    let mut events = bus.subscribe().await.unwrap();
    let unreadable = unreadable_events();
    let count = unreadable.len() as u64;
    for event in unreadable {
        follower.client.publish("satchel.v1.evt.web.a.message.received", event.into()).await.unwrap();
    }
    let other = harness.bus().await;
    wait_until("all are skipped", || bus.skipped_events() == count).await;
    other.publish(received(3)).await.unwrap();
    assert_eq!(timeout(TIMEOUT, events.next()).await.unwrap(), Some(received(3)), "and readable ones come");
}

#[tokio::test]
async fn own_events_come_once() {
    let Some(harness) = required(Harness::start().await) else { return };
    let bus = harness.bus().await;
    let mut events = bus.subscribe().await.unwrap();
    bus.publish(received(1)).await.unwrap();
    assert!(bus.flush(TIMEOUT).await);
    // What another process publishes afterwards comes after an echo would.
    let other = harness.bus().await;
    other.publish(received(2)).await.unwrap();
    let both = timeout(TIMEOUT, async { [events.next().await, events.next().await] }).await.expect("two events come");
    assert_eq!(both, [Some(received(1)), Some(received(2))]);
}

#[tokio::test]
async fn a_refused_connection_names_the_host_alone() {
    let users = "authorization { user: ada, password: \"S3CRET/1\" }";
    let Some(mut harness) = required(Harness::start_with(users).await) else { return };
    harness.log_in_as("ada:S3CRET%2F1");
    harness.bus().await.publish(received(1)).await.unwrap();
    let address = harness.server.address();
    for (url, expected) in [
        (format!("nats://ada:WR0NG@{address}"), format!("NATS at {address} refuses the login")),
        (format!("nats://ada:WR0NG@{address}/"), format!("NATS at {address} refuses the login")),
        ("nats://ada:WR0NG@127.0.0.1:1".to_owned(), "NATS can't be reached at 127.0.0.1:1".to_owned()),
        ("nats://ada:WR0NG@".to_owned(), "the NATS URL names no server".to_owned()),
    ] {
        let error = NatsConnection::open(&NatsSettings::new(url.into())).await.unwrap_err();
        assert!(error.to_string().starts_with(&expected), "{error}");
        assert!(!format!("{error:?}").contains("WR0NG"), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_without_jetstream_is_an_error() {
    let accounts = "accounts { a: { users: [{ user: ada, password: pw }] } }";
    let Some(harness) = required(Harness::start_with(accounts).await) else { return };
    let url = format!("nats://ada:pw@{}", harness.server.address());
    let error = NatsConnection::open(&NatsSettings::new(url.into())).await.unwrap_err();
    assert!(error.to_string().contains("start it with JetStream"), "{error}");
}
