//! The streams of a server that an earlier release has used: what an operator has changed, and what protects them.

use std::{sync::Arc, time::Duration};

use async_nats::jetstream::{
    self, Context,
    stream::{Config, DiscardPolicy, RetentionPolicy},
};
use satchel_requirements::required;
use satchel_wait::wait_until_async;

use crate::{
    harness::{Follower, Harness, turn},
    requests::{request, start_listener},
    stub_inbound::StubInbound,
};

/// The streams as an earlier release made them, with a size that an operator has changed.
fn earlier_streams() -> [Config; 2] {
    let stream = |name: &str, subjects: &[&str]| Config {
        name: name.to_owned(),
        subjects: subjects.iter().map(|subject| (*subject).to_owned()).collect(),
        max_bytes: 10 << 20,
        ..Config::default()
    };
    [
        stream("SATCHEL_EVENTS", &["satchel.v1.evt.>", "satchel.v1.receipt.>"]),
        Config {
            discard: DiscardPolicy::New,
            retention: RetentionPolicy::WorkQueue,
            ..stream("SATCHEL_REQUESTS", &["satchel.v1.cmd.turn.request.*"])
        },
    ]
}

async fn read_config(context: &Context, stream: &str) -> Config {
    context.get_stream(stream).await.unwrap().cached_info().config.clone()
}

async fn send_as(follower: &Follower, sender: &str, id: &str) -> Result<(), String> {
    let context = jetstream::new(follower.client.clone());
    let subject = format!("satchel.v1.cmd.turn.request.{sender}");
    let request = request(&format!("nats:{sender}"), id);
    let sent = context.publish(subject, request.to_string().into()).await.unwrap();
    sent.await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn streams_of_earlier_release_are_protected() {
    let Some(harness) = required(Harness::start().await) else { return };
    let context = jetstream::new(async_nats::connect(harness.server.url()).await.unwrap());
    for stream in earlier_streams() {
        context.create_stream(stream).await.unwrap();
    }
    for _ in 0..2 {
        harness.connect().await;
        let events = read_config(&context, "SATCHEL_EVENTS").await;
        assert!(events.deny_delete && events.deny_purge, "{events:?}");
        let requests = read_config(&context, "SATCHEL_REQUESTS").await;
        assert!(requests.deny_purge && !requests.deny_delete && requests.discard_new_per_subject, "{requests:?}");
        assert_eq!(requests.max_messages_per_subject, 64);
        assert_eq!(requests.duplicate_window.as_millis(), 100);
        assert_eq!((events.max_bytes, requests.max_bytes), (10 << 20, 10 << 20), "what the operator has changed stays");
    }
    let wider = Config { max_messages_per_subject: 500, ..read_config(&context, "SATCHEL_REQUESTS").await };
    context.update_stream(wider).await.unwrap();
    harness.connect().await;
    assert_eq!(read_config(&context, "SATCHEL_REQUESTS").await.max_messages_per_subject, 500);
}

/// The server removes what exceeds a limit that is new.
#[tokio::test]
async fn new_limit_removes_no_waiting_request() {
    let Some(harness) = required(Harness::start().await) else { return };
    let context = jetstream::new(async_nats::connect(harness.server.url()).await.unwrap());
    for stream in earlier_streams() {
        context.create_stream(stream).await.unwrap();
    }
    let follower = harness.follow("satchel.v1.receipt.>").await;
    for (first, end) in [(0, 1), (1, 70)] {
        for number in first..end {
            send_as(&follower, "orders", &format!("id-{number}")).await.unwrap();
        }
        harness.connect().await;
        assert_eq!(harness.stored_messages("SATCHEL_REQUESTS").await, end);
        let requests = read_config(&context, "SATCHEL_REQUESTS").await;
        assert!(requests.max_messages_per_subject <= 0, "the limit waits: {requests:?}");
        assert!(requests.deny_purge, "the rest of the protection doesn't wait");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_of_operator_stays_until_the_next_start() {
    let Some(harness) = required(Harness::start().await) else { return };
    let context = jetstream::new(async_nats::connect(harness.server.url()).await.unwrap());
    start_listener(&harness, Arc::new(StubInbound::new(|_| async { Ok(Some(turn(7))) }))).await;
    let changed = Config {
        max_messages_per_subject: -1,
        discard_new_per_subject: false,
        duplicate_window: Duration::from_secs(60),
        ..read_config(&context, "SATCHEL_REQUESTS").await
    };
    context.update_stream(changed).await.unwrap();
    context.delete_stream("SATCHEL_EVENTS").await.unwrap();
    let follower = harness.follow("satchel.v1.live.>").await;
    send_as(&follower, "orders", "one").await.unwrap();
    wait_until_async("its receipt is stored in a new stream", async || {
        context.get_stream("SATCHEL_EVENTS").await.is_ok() && harness.stored_messages("SATCHEL_REQUESTS").await == 0
    })
    .await;
    let requests = read_config(&context, "SATCHEL_REQUESTS").await;
    assert!(requests.max_messages_per_subject <= 0, "{requests:?}");
    assert_eq!(requests.duplicate_window.as_secs(), 60);

    harness.connect().await;
    let requests = read_config(&context, "SATCHEL_REQUESTS").await;
    assert_eq!((requests.max_messages_per_subject, requests.duplicate_window.as_millis()), (64, 100));
}

#[tokio::test]
async fn sender_with_full_share_leaves_others_room() {
    let Some(harness) = required(Harness::start().await) else { return };
    harness.connect().await;
    let follower = harness.follow("satchel.v1.receipt.>").await;
    for number in 0..64 {
        send_as(&follower, "orders", &format!("id-{number}")).await.unwrap();
    }
    let refusal = send_as(&follower, "orders", "one-too-many").await.unwrap_err();
    assert!(refusal.contains("maximum messages per subject exceeded"), "{refusal}");
    send_as(&follower, "hr", "one").await.unwrap();
    assert_eq!(harness.stored_messages("SATCHEL_REQUESTS").await, 65);
}
