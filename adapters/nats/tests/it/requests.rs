//! Requests of other programs: acknowledged once they are stored, and never taken twice or trusted.

use std::sync::{Arc, Mutex};

use async_nats::jetstream;
use satchel_domain::{InboundMessage, TurnId};
use satchel_nats::{RequestLimits, RequestListener, SenderCheck};
use satchel_ports::{InboundError, MockInbound};
use satchel_requirements::required;
use satchel_wait::wait_until_async;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::harness::{Follower, Harness, turn};

const LIMITS: RequestLimits = RequestLimits { files: 2, file_bytes: 10 };

/// A sender who may not write.
const STRANGER: &str = "stranger";

type Messages = Arc<Mutex<Vec<InboundMessage>>>;

/// A listener whose requests end in these messages. What intake answers to the n-th of them is given.
async fn listen(
    harness: &Harness,
    answer: impl Fn(usize) -> Result<Option<TurnId>, InboundError> + Send + Sync + 'static,
) -> Messages {
    let messages = Messages::default();
    let mut inbound = MockInbound::new();
    let recorded = Arc::clone(&messages);
    inbound.expect_accept().returning(move |message| {
        let mut recorded = recorded.lock().unwrap();
        recorded.push(message);
        answer(recorded.len())
    });
    let is_allowed: SenderCheck = Arc::new(|sender| Box::pin(async move { Ok(sender.id != STRANGER) }));
    let listener = RequestListener::new(harness.connect().await, Arc::clone(&harness.blobs), LIMITS, is_allowed);
    tokio::spawn(listener.listen(Arc::new(inbound), CancellationToken::new()));
    messages
}

async fn send(follower: &Follower, sender: &str, request: &Value) {
    let context = jetstream::new(follower.client.clone());
    let subject = format!("satchel.v1.cmd.turn.request.{sender}");
    context.publish(subject, request.to_string().into()).await.unwrap().await.unwrap();
}

fn request(id: &str) -> Value {
    json!({
        "v": 1, "type": "cmd.turn.request", "id": id, "conversation": "nats:a/b", "text": "hi",
        "files": [{ "filename": "a.txt", "mimeType": "text/plain", "dataBase64": "aGVsbG8=" }],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_acknowledged_after_it_is_stored() {
    let Some(harness) = required(Harness::start().await) else { return };
    harness.connect().await;
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    send(&follower, "orders", &request("one")).await;
    assert_eq!(harness.stored_messages("SATCHEL_REQUESTS").await, 1, "it waits for Satchel");
    let messages = listen(&harness, |attempt| match attempt {
        1 => Err(InboundError("the disk is full".into())),
        _ => Ok(Some(turn(7))),
    })
    .await;
    let (subject, receipt) = follower.next().await;
    assert_eq!(subject, "satchel.v1.receipt.one");
    let accepted = json!({ "v": 1, "type": "evt.turn.request.accepted", "id": "one", "conversation": "nats:a/b", "turn": turn(7) });
    assert_eq!(receipt, accepted);
    wait_until_async("it is acknowledged", async || harness.stored_messages("SATCHEL_REQUESTS").await == 0).await;
    let messages = messages.lock().unwrap();
    assert_eq!(messages.len(), 2, "what could not be stored came again");
    let message = &messages[1];
    assert_eq!((message.key.as_str(), message.sender.id.as_str(), message.text.as_str()), ("a/b:one", "orders", "hi"));
    assert_eq!(messages[0], *message, "under the same key");
    assert_eq!(message.files[0].stored_blob().unwrap().bytes, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_stranger_are_not_stored() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let messages = listen(&harness, |_| Ok(None)).await;
    send(&follower, STRANGER, &request("one")).await;
    let (_, receipt) = follower.next().await;
    assert_eq!(receipt["type"], "evt.turn.request.rejected", "{receipt}");
    let messages = messages.lock().unwrap();
    assert_eq!((messages.len(), messages[0].files.len()), (1, 0), "intake offers a pairing");
}

#[tokio::test(flavor = "multi_thread")]
async fn long_reasons_are_cut() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let _messages = listen(&harness, |_| Ok(Some(turn(7)))).await;
    let mut wrong = request("one");
    wrong["files"] = "\"".repeat(300_000).into();
    send(&follower, "orders", &wrong).await;
    let (_, receipt) = follower.next().await;
    assert!(receipt["reason"].as_str().unwrap().chars().count() < 400, "{receipt}");
    wait_until_async("it is dropped", async || harness.stored_messages("SATCHEL_REQUESTS").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_keep_their_order_when_one_is_tried_again() {
    let Some(harness) = required(Harness::start().await) else { return };
    harness.connect().await;
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    for id in ["one", "two", "three"] {
        send(&follower, "orders", &request(id)).await;
    }
    let messages = listen(&harness, |attempt| match attempt {
        1 => Err(InboundError("the disk is full".into())),
        _ => Ok(Some(turn(7))),
    })
    .await;
    for id in ["one", "two", "three"] {
        assert_eq!(follower.next().await.0, format!("satchel.v1.receipt.{id}"));
    }
    let keys: Vec<String> = messages.lock().unwrap().iter().map(|message| message.key.clone()).collect();
    assert_eq!(keys, ["a/b:one", "a/b:one", "a/b:two", "a/b:three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_are_reported_and_dropped() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let messages = listen(&harness, |_| Ok(None)).await;
    let mut later = request("later");
    later["v"] = json!(2);
    let mut large = request("large");
    large["files"][0]["dataBase64"] = json!("aGVsbG8gd29ybGQ=");
    for (request, sender, subject, reason) in [
        (later, "orders", "later", "version 2 is unknown"),
        (large, "orders", "large", "a.txt is 11 B, the limit is 10 B"),
        (json!("no request"), "orders", "_", "`v` is missing"),
        (request("stranger"), "mallory", "stranger", "the sender is not allowed"),
    ] {
        send(&follower, sender, &request).await;
        let (receipt_subject, receipt) = follower.next().await;
        assert_eq!(receipt_subject, format!("satchel.v1.receipt.{subject}"));
        assert_eq!(receipt["type"], "evt.turn.request.rejected");
        assert!(receipt["reason"].as_str().unwrap().starts_with(reason), "{receipt}");
    }
    wait_until_async("all are gone", async || harness.stored_messages("SATCHEL_REQUESTS").await == 0).await;
    assert_eq!(messages.lock().unwrap().len(), 1, "intake decides about the stranger alone");
}
