//! A fair queue of waiters for a rate budget. Pure, with time as an argument.

use std::time::Duration;

use satchel_domain::PartId;
use teloxide::types::ChatId;
use tokio::time::Instant;

use super::budget::RateBudget;

/// How long a reserved slot delays others after its time has come.
const RETURN_GRACE: Duration = Duration::from_millis(250);

/// How long a slot is reserved for a waiter that does not return: longer than the longest delay between two attempts.
const RESERVATION_TTL: Duration = Duration::from_secs(120);

/// How many slots are kept; beyond that a returning waiter starts at the end of the queue.
const MAX_WAITERS: usize = 1_000;

/// A part that waits to be sent to its chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) chat: ChatId,
    pub(super) part: PartId,
}

/// A budget and its waiters, in the order in which they may proceed.
#[derive(Debug)]
pub(super) struct FairQueue {
    /// What may still be sent.
    pub(super) budget: RateBudget,
    slots: Vec<QueueSlot>,
}

/// A waiter's slot in the queue.
#[derive(Debug)]
struct QueueSlot {
    waiter: Waiter,
    /// Lower ranks proceed first.
    rank: Instant,
    messages: usize,
    /// When the waiter returns, if it does not wait here.
    returns_at: Option<Instant>,
}

impl FairQueue {
    /// Creates an empty queue.
    pub(super) fn new(budget: RateBudget) -> Self {
        Self { budget, slots: Vec::new() }
    }

    /// Adds a waiter at its reserved slot, or by its rank. Returns the effective rank.
    pub(super) fn join(&mut self, waiter: Waiter, rank: Instant, messages: usize, now: Instant) -> Instant {
        self.slots.retain(|slot| slot.returns_at.is_none_or(|until| until + RESERVATION_TTL > now));
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.waiter == waiter) {
            slot.returns_at = None;
            slot.messages = messages;
            return slot.rank;
        }
        let index = self.slots.partition_point(|slot| slot.rank <= rank);
        self.slots.insert(index, QueueSlot { waiter, rank, messages, returns_at: None });
        rank
    }

    /// When a waiter may proceed: after all that are before it.
    pub(super) fn ready_at(&self, waiter: Waiter, now: Instant) -> Instant {
        let mut budget = self.budget.clone();
        let mut at = now;
        for slot in &self.slots {
            at = budget.ready_at(at, slot.messages);
            if slot.waiter == waiter {
                break;
            }
            if slot.returns_at.is_none_or(|until| until + RETURN_GRACE > now) {
                // `at` is the time that the budget has just returned.
                let _ = budget.acquire(at, slot.messages);
            }
        }
        at
    }

    /// Counts the call of a waiter that is ready, and removes it.
    pub(super) fn proceed(&mut self, waiter: Waiter, messages: usize, now: Instant) {
        // Readiness was just checked under the same lock.
        let _ = self.budget.acquire(now, messages);
        self.remove(waiter);
    }

    /// Reserves the slot of a waiter that returns later.
    pub(super) fn reserve_until(&mut self, waiter: Waiter, until: Instant) {
        if self.slots.len() > MAX_WAITERS {
            return self.remove(waiter);
        }
        self.slots.iter_mut().filter(|slot| slot.waiter == waiter).for_each(|slot| {
            slot.returns_at = Some(until);
        });
    }

    /// Removes a waiter's slot.
    pub(super) fn remove(&mut self, waiter: Waiter) {
        self.slots.retain(|slot| slot.waiter != waiter);
    }

    /// Removes the slot of a waiter that waits here, but not a reserved one.
    pub(super) fn stop_waiting(&mut self, waiter: Waiter) {
        self.slots.retain(|slot| slot.waiter != waiter || slot.returns_at.is_some());
    }

    /// Whether it is in the state of a new queue and can be evicted.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        let has_expired = |slot: &QueueSlot| slot.returns_at.is_some_and(|until| until + RESERVATION_TTL <= now);
        self.slots.iter().all(has_expired) && self.budget.is_fresh(now)
    }
}
