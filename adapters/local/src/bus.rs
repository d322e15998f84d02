//! The bus within one process, bounded, with an unruly variant that repeats and reorders as a remote bus may.

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

/// How many events an unruly subscription shuffles at once.
const WINDOW: usize = 4;

/// How long an unruly subscription waits for another event to shuffle with; after it, what there is comes out.
const REORDER_DELAY: Duration = Duration::from_millis(3);

/// An [`EventBus`] within the process.
#[derive(Debug)]
pub struct LocalBus {
    sender: broadcast::Sender<BusEvent>,
    lost: Arc<AtomicU64>,
    unruly: Option<u64>,
}

impl LocalBus {
    /// A bus that keeps order and delivers once, as long as subscribers keep up.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(CAPACITY)
    }

    /// A bus on which at most `events` events wait for a subscriber; at least one does.
    #[must_use]
    pub fn with_capacity(events: usize) -> Self {
        Self { sender: broadcast::Sender::new(events.max(1)), lost: Arc::default(), unruly: None }
    }

    /// A bus that does all that the contract allows: it repeats some events and changes the order of neighbours.
    /// What it does to the same events depends on the seed alone. Nothing is held back for longer than a few
    /// milliseconds and nothing is lost that [`LocalBus::new`] would not lose.
    #[must_use]
    pub fn with_reordering(seed: u64) -> Self {
        Self { unruly: Some(seed), ..Self::new() }
    }

    /// How many events slow subscribers have lost, all together.
    #[must_use]
    pub fn dropped_events(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
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
        // An error only says that nobody listens, and then nobody misses it.
        let _ = self.sender.send(event);
        Ok(())
    }

    async fn subscribe(&self) -> Result<EventStream, BusError> {
        let subscription =
            Subscription { receiver: self.sender.subscribe(), lost: Arc::clone(&self.lost), told: false };
        Ok(match self.unruly {
            None => Box::pin(stream::unfold(subscription, async |mut subscription| {
                Some((subscription.next().await?, subscription))
            })),
            Some(seed) => Box::pin(stream::unfold(
                ReorderingSubscription { subscription, window: VecDeque::new(), dice: SplitMix64(seed), ended: false },
                async |mut unruly| Some((unruly.next().await?, unruly)),
            )),
        })
    }
}

/// One subscriber's end of the bus.
struct Subscription {
    receiver: broadcast::Receiver<BusEvent>,
    lost: Arc<AtomicU64>,
    told: bool,
}

impl Subscription {
    async fn next(&mut self) -> Option<BusEvent> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(events)) => {
                    self.lost.fetch_add(events, Ordering::Relaxed);
                    if !self.told {
                        tracing::debug!(
                            events.lost = events,
                            "a slow subscriber of the event bus lost {events} events; it will poll"
                        );
                        self.told = true;
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
    dice: SplitMix64,
    ended: bool,
}

impl ReorderingSubscription {
    async fn next(&mut self) -> Option<BusEvent> {
        while self.window.len() < WINDOW && !self.ended {
            let arrived = if self.window.is_empty() {
                self.subscription.next().await
            } else {
                match timeout(REORDER_DELAY, self.subscription.next()).await {
                    Ok(arrived) => arrived,
                    Err(_nothing_more_for_now) => break,
                }
            };
            match arrived {
                Some(event) => self.window.push_back(event),
                None => self.ended = true,
            }
        }
        let chosen = self.window.remove(self.dice.below(self.window.len()))?;
        if self.dice.below(3) == 0 {
            self.window.push_back(chosen.clone());
        }
        Some(chosen)
    }
}

/// SplitMix64: a few lines of determinism, so that a failing test can be repeated by its seed.
struct SplitMix64(u64);

impl SplitMix64 {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % sides.max(1) as u64).expect("less than a usize")
    }
}

#[cfg(test)]
mod tests;
