//! A server that is away, for a while or with all it had stored.

use std::time::Duration;

use futures::StreamExt;
use satchel_ports::EventBus;
use satchel_requirements::required;
use tokio::time::timeout;

use crate::harness::{Harness, TIMEOUT, received};

#[tokio::test]
async fn publishing_without_a_server_waits_for_nothing() {
    let Some(mut harness) = required(Harness::start().await) else { return };
    let bus = harness.bus().await;
    let mut own = bus.subscribe().await.unwrap();
    harness.server.stop();
    let publishing = async {
        for number in 0..6_000 {
            bus.publish(received(number)).await.unwrap();
            assert_eq!(own.next().await, Some(received(number)), "this process has it at once");
        }
    };
    timeout(TIMEOUT, publishing).await.expect("nobody waits for the server");
    assert!(bus.dropped_events() > 0, "what waits is bounded");
    assert!(!bus.flush(Duration::from_millis(50)).await, "nothing has reached the server");
}

#[tokio::test]
async fn events_of_an_outage_arrive_after_it() {
    let Some(mut harness) = required(Harness::start().await) else { return };
    let (one, other) = (harness.bus().await, harness.bus().await);
    let mut events = other.subscribe().await.unwrap();
    one.publish(received(1)).await.unwrap();
    assert_eq!(timeout(TIMEOUT, events.next()).await.unwrap(), Some(received(1)));
    for is_data_lost in [false, true] {
        harness.server.stop();
        if is_data_lost {
            harness.server.remove_data();
        }
        one.publish(received(2)).await.unwrap();
        harness.server.restart().await;
        one.publish(received(3)).await.unwrap();
        assert!(one.flush(TIMEOUT).await, "the stream is made again, lost: {is_data_lost}");
        let stored = harness.stored_messages("SATCHEL_EVENTS").await;
        assert_eq!(stored, if is_data_lost { 2 } else { 3 }, "each once");
        // The other process may have connected again after the first of them: then it polls.
        let arrival = async {
            loop {
                one.publish(received(4)).await.unwrap();
                let arrived = async { while events.next().await != Some(received(4)) {} };
                if timeout(Duration::from_millis(100), arrived).await.is_ok() {
                    break;
                }
            }
        };
        if !is_data_lost {
            timeout(TIMEOUT, arrival).await.expect("the other process gets events again");
            // An event whose confirmation is lost with the server would come once more, and be counted.
            assert!(one.flush(TIMEOUT).await, "all of them are confirmed");
            // For the next count.
            harness.server.stop();
            harness.server.remove_data();
            harness.server.restart().await;
        }
    }
}
