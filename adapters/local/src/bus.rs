//! The bus within one process, bounded, with a variant that repeats and reorders events as a remote bus may.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::stream;
use satchel_ports::{BusError, BusEvent, EventBus, event_bus::EventStream};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::timeout,
};

/// How many events wait for the slowest subscriber before it loses the oldest.
const CAPACITY: usize = 1024;

/// How many events a reordering subscription shuffles at a time.
const REORDER_WINDOW: usize = 4;

/// How long a reordering subscription waits for another event to shuffle with; after it, the waiting ones come out.
const REORDER_DELAY: Duration = Duration::from_millis(3);

/// An [`EventBus`] within the process.
#[derive(Debug)]
pub struct LocalBus {
    sender: broadcast::Sender<BusEvent>,
    lost_events: Arc<AtomicU64>,
    reordering_seed: Option<u64>,
}

impl LocalBus {
    /// A bus that keeps the order and delivers each event once, as long as subscribers keep up.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(CAPACITY)
    }

    /// A bus on which at most `events` events wait for a subscriber; the minimum is one.
    #[must_use]
    pub fn with_capacity(events: usize) -> Self {
        Self { sender: broadcast::Sender::new(events.max(1)), lost_events: Arc::default(), reordering_seed: None }
    }

    /// A bus that does everything that the contract allows: it repeats some events and changes the order of neighbours,
    /// deterministically by the seed. No event is delayed for longer than a few milliseconds, and none is lost that
    /// [`LocalBus::new`] would not lose.
    #[must_use]
    pub fn with_reordering(seed: u64) -> Self {
        Self { reordering_seed: Some(seed), ..Self::new() }
    }

    /// How many events slow subscribers have lost in total.
    #[must_use]
    pub fn dropped_events(&self) -> u64 {
        self.lost_events.load(Ordering::Relaxed)
    }
}

impl Default for LocalBus {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl EventBus for LocalBus {
    async fn publish(&self, event: BusEvent) -> Result<(), BusError> {
        // An error only means that there is no subscriber.
        let _ = self.sender.send(event);
        Ok(())
    }

    async fn subscribe(&self) -> Result<EventStream, BusError> {
        let subscription = Subscription {
            receiver: self.sender.subscribe(),
            lost_events: Arc::clone(&self.lost_events),
            has_logged_loss: false,
        };
        Ok(match self.reordering_seed {
            None => Box::pin(stream::unfold(subscription, async |mut subscription| {
                Some((subscription.next().await?, subscription))
            })),
            Some(seed) => Box::pin(stream::unfold(
                ReorderingSubscription {
                    subscription,
                    window: VecDeque::new(),
                    random: SplitMix64(seed),
                    is_closed: false,
                },
                async |mut subscription| Some((subscription.next().await?, subscription)),
            )),
        })
    }
}

/// One subscriber's end of the bus.
struct Subscription {
    receiver: broadcast::Receiver<BusEvent>,
    lost_events: Arc<AtomicU64>,
    has_logged_loss: bool,
}

impl Subscription {
    async fn next(&mut self) -> Option<BusEvent> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(events)) => {
                    self.lost_events.fetch_add(events, Ordering::Relaxed);
                    if !self.has_logged_loss {
                        tracing::debug!(
                            events.lost = events,
                            "a slow subscriber of the event bus lost {events} events; it will poll"
                        );
                        self.has_logged_loss = true;
                    }
                }
            }
        }
    }
}

/// A subscription that repeats and reorders.
struct ReorderingSubscription {
    subscription: Subscription,
    window: VecDeque<BusEvent>,
    random: SplitMix64,
    is_closed: bool,
}

impl ReorderingSubscription {
    async fn next(&mut self) -> Option<BusEvent> {
        while self.window.len() < REORDER_WINDOW && !self.is_closed {
            let received = if self.window.is_empty() {
                self.subscription.next().await
            } else {
                match timeout(REORDER_DELAY, self.subscription.next()).await {
                    Ok(received) => received,
                    Err(_elapsed) => break,
                }
            };
            match received {
                Some(event) => self.window.push_back(event),
                None => self.is_closed = true,
            }
        }
        let chosen = self.window.remove(self.random.next_below(self.window.len()))?;
        if self.random.next_below(3) == 0 {
            self.window.push_back(chosen.clone());
        }
        Some(chosen)
    }
}

/// SplitMix64: a small deterministic generator, so that a failing test can be reproduced by its seed.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).expect("less than a usize")
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod contract;
