//! How requests are handled: few at a time, again after a panic, and removed from no other stream than their own.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_nats::jetstream;
use satchel_ports::{Inbound, InboundError};
use satchel_requirements::required;
use satchel_wait::{wait_until, wait_until_async};
use tokio_util::sync::CancellationToken;

use crate::{
    harness::{Harness, turn},
    requests::{request, send, start_listener, try_send},
    slow_inbound::SlowInbound,
    stub_inbound::StubInbound,
};

/// Each of them is in memory several times.
#[tokio::test(flavor = "multi_thread")]
async fn eight_requests_are_handled_at_once() {
    const SENDERS: usize = 20;
    let Some(harness) = required(Harness::start().await) else { return };
    harness.connect().await;
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    for number in 0..SENDERS {
        let sender = format!("sender-{number}");
        send(&follower, &sender, &request(&format!("nats:{sender}"), "one")).await;
    }
    let (running, max_running) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let released = CancellationToken::new();
    let shared = (Arc::clone(&running), Arc::clone(&max_running), released.clone());
    let inbound = StubInbound::new(move |_| {
        let (running, max_running, released) = shared.clone();
        async move {
            max_running.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            released.cancelled().await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok(Some(turn(7)))
        }
    });
    start_listener(&harness, Arc::new(inbound)).await;
    wait_until("several are handled", || running.load(Ordering::SeqCst) >= 8).await;
    // More of them would be handled by now.
    tokio::time::sleep(Duration::from_millis(500)).await;
    released.cancel();
    for _ in 0..SENDERS {
        assert_eq!(follower.next().await.1["type"], "evt.turn.request.accepted");
    }
    assert_eq!(max_running.load(Ordering::SeqCst), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_panics_is_retried_with_delay() {
    let Some(harness) = required(Harness::start().await) else { return };
    harness.connect().await;
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&attempts);
    let inbound = StubInbound::new(move |_| {
        let attempt = {
            let mut recorded = recorded.lock().unwrap();
            recorded.push(Instant::now());
            recorded.len()
        };
        async move {
            assert!(attempt > 2, "the handling is broken");
            Ok(Some(turn(7)))
        }
    });
    start_listener(&harness, Arc::new(inbound)).await;
    send(&follower, "orders", &request("nats:orders", "one")).await;
    assert_eq!(follower.next().await.0, "satchel.v1.receipt.orders.one");
    let attempts = attempts.lock().unwrap();
    assert_eq!(attempts.len(), 3);
    for (pair, millis) in attempts.windows(2).zip([900, 1900]) {
        // Each poll would start a new task after 200 ms.
        assert!(pair[1] - pair[0] > Duration::from_millis(millis), "{attempts:?}");
    }
}

/// The first requests of two streams have the same number.
#[tokio::test(flavor = "multi_thread")]
async fn removal_spares_the_stream_made_since() {
    let Some(harness) = required(Harness::start().await) else { return };
    harness.connect().await;
    let mut follower = harness.follow("satchel.v1.receipt.>").await;
    send(&follower, "orders", &request("nats:orders", "one")).await;
    let (orders, hr) = (SlowInbound::new("orders"), CancellationToken::new());
    let (orders_inbound, fails) = (Arc::new(orders.inbound()), hr.clone());
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let inbound = StubInbound::new(move |message| {
        let (orders_inbound, fails, counted) = (Arc::clone(&orders_inbound), fails.clone(), Arc::clone(&counted));
        async move {
            if message.sender.id == "hr" && counted.fetch_add(1, Ordering::SeqCst) == 0 {
                fails.cancelled().await;
                return Err(InboundError("the disk is full".into()));
            }
            orders_inbound.accept(message).await
        }
    });
    start_listener(&harness, Arc::new(inbound)).await;
    orders.wait_until_busy().await;

    let context = jetstream::new(follower.client.clone());
    context.delete_stream("SATCHEL_REQUESTS").await.unwrap();
    // The server names a stream before that takes anything.
    let takes_request = async || try_send(&follower, "hr", &request("nats:hr", "two")).await.is_ok();
    wait_until_async("the stream is made again", takes_request).await;
    wait_until("it is handled for the first time", || attempts.load(Ordering::SeqCst) == 1).await;
    orders.release();
    assert_eq!(follower.next().await.0, "satchel.v1.receipt.orders.one");
    // What follows the receipt of `orders` is the removal of its request. The retry comes a second later.
    hr.cancel();
    assert_eq!(follower.next().await.0, "satchel.v1.receipt.hr.two");
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
}
