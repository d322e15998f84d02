//! Requests of other programs: removed once they are stored, and never taken twice or trusted.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_nats::jetstream::{self, context::PublishError};
use satchel_domain::{InboundMessage, TurnId};
use satchel_nats::{NatsGroups, RequestLimits, RequestListener, SenderCheck};
use satchel_ports::{Inbound, InboundError, MockInbound};
use satchel_requirements::required;
use satchel_wait::wait_until_async;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    harness::{Follower, Harness, TIMEOUT, turn},
    slow_inbound::SlowInbound,
};

const LIMITS: RequestLimits = RequestLimits { files: 2, file_bytes: 10 };

/// A sender who may not write.
const STRANGER: &str = "stranger";

type Messages = Arc<Mutex<Vec<InboundMessage>>>;

/// A listener whose requests end in these messages. What intake answers to the n-th of them is given. `desk` is a group
/// of `orders` and `hr`.
pub(crate) async fn listen(
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
    start_listener(harness, Arc::new(inbound)).await;
    messages
}

pub(crate) async fn start_listener(harness: &Harness, inbound: Arc<dyn Inbound>) {
    let members = ["orders", "hr"].map(str::to_owned).to_vec();
    let groups = NatsGroups::new(HashMap::from([("nats:desk".parse().unwrap(), members)]));
    let is_allowed: SenderCheck = Arc::new(|sender| Box::pin(async move { Ok(sender.id != STRANGER) }));
    let blobs = Arc::clone(&harness.blobs);
    let listener = RequestListener::new(harness.connect().await, blobs, LIMITS, groups, is_allowed);
    tokio::spawn(listener.listen(inbound, CancellationToken::new()));
}

pub(crate) async fn send(follower: &Follower, sender: &str, request: &Value) {
    try_send(follower, sender, request).await.unwrap();
}

/// An error where no stream takes requests.
pub(crate) async fn try_send(follower: &Follower, sender: &str, request: &Value) -> Result<(), PublishError> {
    let context = jetstream::new(follower.client.clone());
    let subject = format!("satchel.v1.cmd.turn.request.{sender}");
    context.publish(subject, request.to_string().into()).await?.await?;
    Ok(())
}

/// A request for this conversation.
pub(crate) fn request(conversation: &str, id: &str) -> Value {
    json!({
        "v": 1, "type": "cmd.turn.request", "id": id, "conversation": conversation, "text": "hi",
        "files": [{ "filename": "a.txt", "mimeType": "text/plain", "dataBase64": "aGVsbG8=" }],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_removed_after_it_is_stored() {
    let Some(harness) = required(Harness::start().await) else { return };
    harness.connect().await;
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    send(&follower, "orders", &request("nats:orders/b", "one")).await;
    assert_eq!(harness.stored_messages("SATCHEL_REQUESTS").await, 1, "it waits for Satchel");
    let messages = listen(&harness, |attempt| match attempt {
        1 => Err(InboundError("the disk is full".into())),
        _ => Ok(Some(turn(7))),
    })
    .await;
    let (subject, receipt) = follower.next().await;
    assert_eq!(subject, "satchel.v1.receipt.orders.one");
    let accepted = json!({
        "v": 1, "type": "evt.turn.request.accepted", "id": "one", "conversation": "nats:orders/b", "turn": turn(7),
    });
    assert_eq!(receipt, accepted);
    wait_until_async("it is removed", async || harness.stored_messages("SATCHEL_REQUESTS").await == 0).await;
    let messages = messages.lock().unwrap();
    assert_eq!(messages.len(), 2, "what could not be stored came again");
    let message = &messages[1];
    let written = (message.key.as_str(), message.sender.id.as_str(), message.text.as_str());
    assert_eq!(written, ("orders/b:one", "orders", "hi"));
    assert_eq!(messages[0], *message, "under the same key");
    assert_eq!(message.files[0].stored_blob().unwrap().bytes, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_stranger_are_not_stored() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let messages = listen(&harness, |_| Ok(None)).await;
    send(&follower, STRANGER, &request("nats:stranger", "one")).await;
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
    let mut wrong = request("nats:orders", "one");
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
        send(&follower, "orders", &request("nats:orders/b", id)).await;
    }
    let messages = listen(&harness, |attempt| match attempt {
        1 => Err(InboundError("the disk is full".into())),
        _ => Ok(Some(turn(7))),
    })
    .await;
    for id in ["one", "two", "three"] {
        assert_eq!(follower.next().await.0, format!("satchel.v1.receipt.orders.{id}"));
    }
    let keys: Vec<String> = messages.lock().unwrap().iter().map(|message| message.key.clone()).collect();
    assert_eq!(keys, ["orders/b:one", "orders/b:one", "orders/b:two", "orders/b:three"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_are_reported_and_dropped() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let messages = listen(&harness, |_| Ok(None)).await;
    let mut later = request("nats:orders", "later");
    later["v"] = json!(2);
    let mut large = request("nats:orders", "large");
    large["files"][0]["dataBase64"] = json!("aGVsbG8gd29ybGQ=");
    for (request, sender, subject, reason) in [
        (later, "orders", "orders.later", "version 2 is unknown"),
        (large, "orders", "orders.large", "a.txt is 11 B, the limit is 10 B"),
        (json!("no request"), "orders", "orders._", "`v` is missing"),
        (request("nats:orders", "name"), "or:ders", "_.name", "the last token of the subject, the sender's id, is not"),
        (request("nats:mallory", "stranger"), "mallory", "mallory.stranger", "the sender is not allowed"),
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

#[tokio::test(flavor = "multi_thread")]
async fn program_writes_in_no_conversation_of_others() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let messages = listen(&harness, |_| Ok(Some(turn(7)))).await;
    let foreign = ["nats:hr", "nats:hr/payroll", "nats:orders2", "nats:desk/june"];
    for conversation in foreign {
        for text in ["hi", "/stop", "/forget all"] {
            let mut request = request(conversation, "foreign");
            request["text"] = text.into();
            send(&follower, "orders", &request).await;
            let (subject, receipt) = follower.next().await;
            assert_eq!(subject, "satchel.v1.receipt.orders.foreign");
            assert_eq!(receipt["type"], "evt.turn.request.rejected", "{conversation}: {receipt}");
            let reason = receipt["reason"].as_str().unwrap();
            assert!(reason.contains("`nats:orders`") && reason.contains("`nats.groups`"), "{reason}");
        }
    }
    assert_eq!(messages.lock().unwrap().len(), 0, "intake sees none of it");
    for (conversation, is_group) in [("nats:orders", false), ("nats:orders/june/1.2", false), ("nats:desk", true)] {
        send(&follower, "orders", &request(conversation, "own")).await;
        let (_, receipt) = follower.next().await;
        assert_eq!(receipt["type"], "evt.turn.request.accepted", "{receipt}");
        let messages = messages.lock().unwrap();
        let message = messages.last().unwrap();
        assert_eq!((message.conversation.to_string().as_str(), message.group), (conversation, is_group));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_group_have_ids_of_their_own() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let messages = listen(&harness, |_| Ok(Some(turn(7)))).await;
    for sender in ["orders", "hr"] {
        send(&follower, sender, &request("nats:desk", "one")).await;
        assert_eq!(follower.next().await.0, format!("satchel.v1.receipt.{sender}.one"));
    }
    let keys: Vec<String> = messages.lock().unwrap().iter().map(|message| message.key.clone()).collect();
    assert_eq!(keys, ["desk:orders:one", "desk:hr:one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_request_holds_up_its_sender_alone() {
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let inbound = SlowInbound::new("orders");
    start_listener(&harness, Arc::new(inbound.inbound())).await;
    for id in ["one", "two"] {
        send(&follower, "orders", &request("nats:orders", id)).await;
    }
    inbound.wait_until_busy().await;
    for id in ["three", "four"] {
        send(&follower, "hr", &request("nats:hr", id)).await;
        assert_eq!(follower.next().await.0, format!("satchel.v1.receipt.hr.{id}"));
    }
    inbound.release();
    for id in ["one", "two"] {
        assert_eq!(follower.next().await.0, format!("satchel.v1.receipt.orders.{id}"));
    }
    wait_until_async("all are removed", async || harness.stored_messages("SATCHEL_REQUESTS").await == 0).await;
}

/// A client library that reads such a header ends its connection, and would do so each time the request is delivered.
#[tokio::test(flavor = "multi_thread")]
async fn malformed_header_of_a_request_is_ignored() {
    const HEADER: &str = "NATS/1.0\r\nno colon\r\n\r\n";
    let Some(harness) = required(Harness::start().await) else { return };
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let _messages = listen(&harness, |_| Ok(Some(turn(7)))).await;
    let payload = request("nats:orders", "one").to_string();
    let (header_bytes, all_bytes) = (HEADER.len(), HEADER.len() + payload.len());
    let publish = format!(
        "CONNECT {{\"verbose\":false,\"headers\":true}}\r\n\
         HPUB satchel.v1.cmd.turn.request.orders {header_bytes} {all_bytes}\r\n{HEADER}{payload}\r\nPING\r\n"
    );
    let mut stream = TcpStream::connect(harness.server.address()).await.unwrap();
    stream.write_all(publish.as_bytes()).await.unwrap();
    let mut received = String::new();
    let answered = async {
        while !received.contains("PONG") {
            let mut buffer = [0; 4096];
            let bytes = stream.read(&mut buffer).await.unwrap();
            assert!(bytes > 0, "the server has closed the connection: {received}");
            received.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
        }
    };
    timeout(TIMEOUT, answered).await.expect("the server answers");
    assert_eq!(follower.next().await.0, "satchel.v1.receipt.orders.one");
    send(&follower, "hr", &request("nats:hr", "two")).await;
    assert_eq!(follower.next().await.0, "satchel.v1.receipt.hr.two");
}
