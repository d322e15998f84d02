//! What the local bus promises.

use std::collections::BTreeSet;

use futures::StreamExt;
use satchel_domain::TurnId;
use uuid::Uuid;

use super::*;

fn event(number: u128) -> BusEvent {
    BusEvent::MessageReceived {
        conversation: "console:main".parse().expect("a conversation"),
        turn: TurnId(Uuid::from_u128(number)),
    }
}

fn number(event: &BusEvent) -> u128 {
    let BusEvent::MessageReceived { turn, .. } = event else { return u128::MAX };
    turn.0.as_u128()
}

/// Publishes 0..50, closes the bus and returns what a subscriber saw.
async fn seen(bus: LocalBus) -> Vec<u128> {
    let events = bus.subscribe().await.unwrap();
    for at in 0..50 {
        bus.publish(event(at)).await.unwrap();
    }
    drop(bus);
    events.map(|event| number(&event)).collect().await
}

#[tokio::test]
async fn every_event_comes_in_order_to_every_subscriber() {
    let bus = LocalBus::new();
    let (mut one, mut two) = (bus.subscribe().await.unwrap(), bus.subscribe().await.unwrap());
    for at in 0..3 {
        bus.publish(event(at)).await.unwrap();
    }
    for at in 0..3 {
        assert_eq!(one.next().await, Some(event(at)));
        assert_eq!(two.next().await, Some(event(at)));
    }
}

#[tokio::test]
async fn subscribe_gets_what_is_published_after_it_returned() {
    let bus = LocalBus::new();
    bus.publish(event(1)).await.expect("nobody listens, which is no error");
    let mut events = bus.subscribe().await.unwrap();
    bus.publish(event(2)).await.unwrap();
    assert_eq!(events.next().await, Some(event(2)));
}

#[tokio::test]
async fn slow_subscriber_loses_events_without_delaying_others() {
    let bus = LocalBus::with_capacity(8);
    let mut slow = bus.subscribe().await.unwrap();
    let mut quick = bus.subscribe().await.unwrap();
    for at in 0..1000 {
        bus.publish(event(at)).await.unwrap();
        assert_eq!(quick.next().await, Some(event(at)));
    }
    assert_eq!(slow.next().await, Some(event(992)), "the newest are kept");
    assert_eq!(bus.dropped_events(), 992);
}

#[tokio::test]
async fn reordering_bus_repeats_and_reorders_deterministically_without_loss() {
    for seed in 0..20 {
        let events = seen(LocalBus::with_reordering(seed)).await;
        assert_eq!(events.iter().copied().collect::<BTreeSet<_>>(), (0..50).collect(), "seed {seed} lost events");
        assert!(events.len() > 50, "seed {seed} repeated nothing");
        let mut known = BTreeSet::new();
        let mut first_times = events.iter().filter(|event| known.insert(**event));
        assert!(!first_times.by_ref().is_sorted(), "seed {seed} kept the order");
        assert_eq!(events, seen(LocalBus::with_reordering(seed)).await, "seed {seed} is not deterministic");
    }
}

#[tokio::test]
async fn an_unruly_bus_holds_nothing_back() {
    let bus = LocalBus::with_reordering(7);
    let mut events = bus.subscribe().await.unwrap();
    bus.publish(event(1)).await.unwrap();
    let arrived = timeout(Duration::from_secs(5), events.next()).await.expect("a single event comes out");
    assert_eq!(arrived, Some(event(1)));
}
