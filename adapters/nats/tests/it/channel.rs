//! Deliveries to other programs: stored by JetStream before they count as sent, and once however often they are sent.

use std::{collections::HashMap, sync::Arc};

use satchel_domain::{
    MessageRef, PartContent, PartId, Sender, Sha256,
    delivery::SendError,
    part::{Markup, PreparedVoice},
};
use satchel_nats::{NatsChannel, NatsGroups};
use satchel_ports::{BusEvent, Channel, EventBus, PostRequest};
use satchel_requirements::required;
use satchel_routing::tables;
use serde_json::json;
use uuid::Uuid;

use crate::harness::{Harness, TIMEOUT, turn};

pub(crate) async fn channel(harness: &Harness) -> NatsChannel {
    let groups = NatsGroups::new(HashMap::from([("nats:desk".parse().unwrap(), vec!["orders".to_owned()])]));
    NatsChannel::new(harness.connect().await, tables::nats(), Arc::clone(&harness.blobs), groups)
}

pub(crate) fn part(number: u128, content: PartContent) -> PostRequest {
    PostRequest {
        part_id: PartId(Uuid::from_u128(number)),
        turn: turn(1),
        conversation: "nats:orders".parse().unwrap(),
        content,
        reply_to: None,
    }
}

fn voice(sha256: Sha256, bytes: u64) -> PartContent {
    let prepared = Some(PreparedVoice { sha256, bytes, duration_ms: 1, waveform: vec![] });
    PartContent::Voice { text: "Hi".into(), in_text: true, prepared, as_file: true, caption: "Listen.".into() }
}

#[tokio::test]
async fn only_members_can_write_in_a_conversation() {
    let Some(harness) = required(Harness::start().await) else { return };
    let channel = channel(&harness).await;
    for (conversation, expected) in [
        ("nats:orders", true),
        ("nats:orders/june", true),
        ("nats:desk", true),
        ("nats:hr/payroll", false),
        ("nats:desk/june", false),
    ] {
        let conversation = conversation.parse().unwrap();
        assert_eq!(channel.can_write(&conversation, &Sender::new("orders", "hr")), expected, "{conversation}");
    }
}

#[tokio::test]
async fn retried_part_is_stored_once() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.evt.nats.orders.>").await;
    let stored = harness.put(b"speech".to_vec()).await;
    let request = part(1, voice(stored.sha256, stored.bytes));
    for _ in 0..2 {
        // As after a crash: another process sends it.
        let messages = channel(&harness).await.post(&request).await.unwrap();
        let id = request.part_id.to_string();
        assert_eq!(messages, [MessageRef(id.clone()), MessageRef(format!("{id}.1"))]);
    }
    assert_eq!(harness.stored_messages("SATCHEL_EVENTS").await, 2);
    let (_, text) = follower.next().await;
    assert_eq!((&text["text"], &text["part"]), (&json!("Listen."), &json!(request.part_id)));
    let (_, file) = follower.next().await;
    assert_eq!((&file["filename"], &file["dataBase64"]), (&json!("voice.ogg"), &json!("c3BlZWNo")));
}

#[tokio::test]
async fn unreadable_or_disconnected_part_is_not_sent() {
    let Some(mut harness) = required(Harness::start().await) else { return };
    let channel = channel(&harness).await;
    let lost = channel.post(&part(1, voice(Sha256([7; 32]), 5))).await;
    assert!(matches!(lost, Err(SendError::Unreadable { .. })), "{lost:?}");
    assert_eq!(harness.stored_messages("SATCHEL_EVENTS").await, 0, "nothing of it is sent");
    assert!(channel.probe().await.is_ok());
    harness.server.stop();
    satchel_wait::wait_until_async("the loss is noticed", async || channel.probe().await.is_err()).await;
    let text = PartContent::Text { text: "Hi".into(), markup: Markup::Rich, files: vec![] };
    let away = channel.post(&part(2, text)).await;
    assert!(matches!(away, Err(SendError::NotSent { .. })), "{away:?}");
}

#[tokio::test]
async fn the_bus_leaves_responses_to_the_channel() {
    let Some(harness) = required(Harness::start().await) else { return };
    let bus = harness.bus().await;
    for (conversation, count) in [("nats:orders", 0), ("web:a", 1)] {
        let conversation = conversation.parse().unwrap();
        let response =
            BusEvent::ResponseText { conversation, turn: turn(1), part: None, text: "Hi".into(), buttons: vec![] };
        bus.publish(response).await.unwrap();
        assert!(bus.flush(TIMEOUT).await);
        assert_eq!(harness.stored_messages("SATCHEL_EVENTS").await, count);
    }
}
