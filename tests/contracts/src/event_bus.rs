//! The promises of [`EventBus`], one function each; [`event_bus_contract!`](crate::event_bus_contract) runs them all.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use satchel_domain::{ConversationId, OutgoingResponse, TurnId};
use satchel_ports::{
    BusEvent, EventBus,
    event_bus::{EventStream, decode_event},
};
pub use satchel_requirements::required;
use tokio::time::timeout;
use uuid::Uuid;

/// Longer than an event takes on a busy machine.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(20);

/// More events than a subscriber may leave unread.
const FLOOD: u128 = 20_000;

/// A bus for one test.
#[async_trait]
pub trait EventBusFixture: Send + Sync + Sized {
    /// Makes a bus without subscribers. The error is what a test would need.
    async fn new() -> Result<Self, String>;

    /// Where events are published.
    fn publisher(&self) -> Arc<dyn EventBus>;

    /// Where they are subscribed to, which may be another process.
    fn subscriber(&self) -> Arc<dyn EventBus>;
}

/// Runs every promise of [`EventBus`] against an [`EventBusFixture`].
#[macro_export]
macro_rules! event_bus_contract {
    ($fixture:ty) => {
        $crate::event_bus_contract!(@each $fixture:
            published_event_arrives_unchanged
            every_event_arrives_at_least_once
            every_subscriber_gets_every_event
            earlier_events_are_not_delivered
            publishing_without_subscribers_succeeds
            slow_subscriber_delays_nobody
            dropped_subscription_ends_alone
            text_deltas_arrive_like_other_events
        );
    };
    (@each $fixture:ty: $($promise:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                let fixture = <$fixture as $crate::event_bus::EventBusFixture>::new().await;
                let Some(fixture) = $crate::event_bus::required(fixture) else { return };
                $crate::event_bus::$promise(fixture).await;
            }
        )*
    };
}

/// Mutation: a field of an event isn't written, or a conversation with dots and slashes has no subject.
pub async fn published_event_arrives_unchanged(fixture: impl EventBusFixture) {
    let mut events = fixture.subscriber().subscribe().await.unwrap();
    let example = |conversation: &str| BusEvent::TurnCompleted {
        conversation: conversation.parse().unwrap(),
        turn: TurnId(Uuid::from_u128(7)),
        ending: "done".into(),
        response: OutgoingResponse::from_text("A \"text\"\u{1F600}\n"),
    };
    for conversation in ["telegram:-100123/42", "web:a.b..c", "discord:@7", "console:A_b-c"] {
        let event = example(conversation);
        fixture.publisher().publish(event.clone()).await.unwrap();
        let same = async { while events.next().await.unwrap() != event {} };
        timeout(ARRIVAL_TIMEOUT, same).await.unwrap_or_else(|_| panic!("{conversation} did not arrive"));
    }
}

/// Mutation: an event that waits when the next one comes is replaced by it.
pub async fn every_event_arrives_at_least_once(fixture: impl EventBusFixture) {
    let mut events = fixture.subscriber().subscribe().await.unwrap();
    publish_all(&fixture, 0..200).await;
    assert_eq!(collect(&mut events, 200).await, (0..200).collect());
}

/// Mutation: subscribers share the events, as workers of a queue do.
pub async fn every_subscriber_gets_every_event(fixture: impl EventBusFixture) {
    let bus = fixture.subscriber();
    let (mut one, mut two) = (bus.subscribe().await.unwrap(), bus.subscribe().await.unwrap());
    let mut publishers_own = fixture.publisher().subscribe().await.unwrap();
    publish_all(&fixture, 0..50).await;
    for events in [&mut one, &mut two, &mut publishers_own] {
        assert_eq!(collect(events, 50).await, (0..50).collect());
    }
}

/// Mutation: a subscription starts with what is stored.
pub async fn earlier_events_are_not_delivered(fixture: impl EventBusFixture) {
    let mut witness = fixture.subscriber().subscribe().await.unwrap();
    publish_all(&fixture, 0..10).await;
    assert_eq!(collect(&mut witness, 10).await.len(), 10);
    let mut late = fixture.subscriber().subscribe().await.unwrap();
    publish_all(&fixture, 10..20).await;
    let seen = collect(&mut late, 10).await;
    // A bus that repeats may repeat what was on its way.
    assert!(seen.iter().all(|number| *number >= 10), "{seen:?}");
}

/// Mutation: the error of a channel that nobody reads becomes the publisher's.
pub async fn publishing_without_subscribers_succeeds(fixture: impl EventBusFixture) {
    publish_all(&fixture, 0..3).await;
    drop(fixture.subscriber().subscribe().await.unwrap());
    publish_all(&fixture, 3..6).await;
}

/// Mutation: a full queue is waited for, or it ends the subscription.
pub async fn slow_subscriber_delays_nobody(fixture: impl EventBusFixture) {
    let mut slow = fixture.subscriber().subscribe().await.unwrap();
    let mut quick = fixture.subscriber().subscribe().await.unwrap();
    let reading =
        tokio::spawn(async move { while number_in(&quick.next().await.expect("the bus is open")) != Some(FLOOD) {} });
    timeout(ARRIVAL_TIMEOUT, publish_all(&fixture, 0..FLOOD)).await.expect("nobody waits for the slow one");
    // Until both have got it: a bus may lose events of a flood.
    let last = async {
        while !reading.is_finished() {
            publish_all(&fixture, FLOOD..FLOOD + 1).await;
            // Nothing announces that a bus has room again.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(ARRIVAL_TIMEOUT, last).await.expect("the quick one gets the last event");
    let slow_one = async { while number_in(&slow.next().await.expect("it stays subscribed")) != Some(FLOOD) {} };
    timeout(ARRIVAL_TIMEOUT, slow_one).await.expect("the slow one gets later events");
}

/// Mutation: the first subscription that is dropped ends the others.
pub async fn dropped_subscription_ends_alone(fixture: impl EventBusFixture) {
    let bus = fixture.subscriber();
    let (dropped, mut kept) = (bus.subscribe().await.unwrap(), bus.subscribe().await.unwrap());
    publish_all(&fixture, 0..5).await;
    drop(dropped);
    publish_all(&fixture, 5..10).await;
    assert_eq!(collect(&mut kept, 10).await, (0..10).collect());
}

/// Mutation: what isn't stored isn't sent to others, either.
pub async fn text_deltas_arrive_like_other_events(fixture: impl EventBusFixture) {
    let mut events = fixture.subscriber().subscribe().await.unwrap();
    let turn = TurnId(Uuid::from_u128(7));
    let delta = BusEvent::TextDelta { conversation: conversation(), turn, message: 0, text: "Hel".into() };
    fixture.publisher().publish(delta.clone()).await.unwrap();
    let arrived = timeout(ARRIVAL_TIMEOUT, events.next()).await.expect("it arrives");
    assert_eq!(arrived, Some(delta));
}

/// An event of a later release, of an unknown type, and bytes that are no event: what consumers skip.
#[must_use]
pub fn unreadable_events() -> Vec<Vec<u8>> {
    let unreadable = [
        &br#"{"v":2,"type":"evt.message.received","where":"elsewhere"}"#[..],
        br#"{"v":1,"type":"evt.of.a.later.release","conversation":"web:a"}"#,
        br#"{"v":1,"type":"evt.message.received","conversation":"nowhere"}"#,
        b"\xff\x00{",
    ];
    unreadable.map(<[u8]>::to_vec).into_iter().inspect(|event| assert!(decode_event(event).is_err())).collect()
}

fn conversation() -> ConversationId {
    "web:a".parse().unwrap()
}

fn event(number: u128) -> BusEvent {
    BusEvent::MessageReceived { conversation: conversation(), turn: TurnId(Uuid::from_u128(number)) }
}

fn number_in(event: &BusEvent) -> Option<u128> {
    let BusEvent::MessageReceived { turn, .. } = event else { return None };
    Some(turn.0.as_u128())
}

async fn publish_all(fixture: &impl EventBusFixture, numbers: std::ops::Range<u128>) {
    let bus = fixture.publisher();
    for number in numbers {
        bus.publish(event(number)).await.unwrap();
    }
}

/// Reads until so many different events have come.
async fn collect(events: &mut EventStream, count: usize) -> BTreeSet<u128> {
    let mut seen = BTreeSet::new();
    let collecting = async {
        while seen.len() < count {
            seen.extend(number_in(&events.next().await.expect("the bus is open")));
        }
    };
    let outcome = timeout(ARRIVAL_TIMEOUT, collecting).await;
    assert!(outcome.is_ok(), "of {count} events only {} came", seen.len());
    seen
}
