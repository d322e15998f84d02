//! Who may go before whom, as a function of who came when: pure, with time as an argument.

use std::time::Duration;

use satchel_domain::PartId;
use teloxide::types::ChatId;
use tokio::time::Instant;

use super::budget::RateBudget;

/// How long somebody who was told to come back is waited for when their time has come.
const RETURN_GRACE: Duration = Duration::from_millis(250);

/// How long the place is kept of somebody who does not come back: longer than the longest wait between two tries.
const RESERVATION_TTL: Duration = Duration::from_secs(120);

/// How many places are kept at most for those who are away; of more than that some go to the end when they come back.
const MAX_WAITERS: usize = 1_000;

/// Who waits: a part for its chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) chat: ChatId,
    pub(super) part: PartId,
}

/// A budget, and those who wait for it in the order in which they may go.
#[derive(Debug)]
pub(super) struct FairQueue {
    /// What may still be sent.
    pub(super) budget: RateBudget,
    tickets: Vec<QueueSlot>,
}

/// A place in the line.
#[derive(Debug)]
struct QueueSlot {
    caller: Waiter,
    /// Whoever has a lower one goes first.
    rank: Instant,
    messages: usize,
    /// When somebody comes back who does not wait here.
    away_until: Option<Instant>,
}

impl FairQueue {
    /// A line in which nobody waits.
    pub(super) fn new(budget: RateBudget) -> Self {
        Self { budget, tickets: Vec::new() }
    }

    /// Lets somebody wait, at the place that is kept for them or by their rank. Returns the rank that counts.
    pub(super) fn join(&mut self, caller: Waiter, rank: Instant, messages: usize, now: Instant) -> Instant {
        self.tickets.retain(|ticket| ticket.away_until.is_none_or(|until| until + RESERVATION_TTL > now));
        if let Some(ticket) = self.tickets.iter_mut().find(|ticket| ticket.caller == caller) {
            ticket.away_until = None;
            ticket.messages = messages;
            return ticket.rank;
        }
        let place = self.tickets.partition_point(|ticket| ticket.rank <= rank);
        self.tickets.insert(place, QueueSlot { caller, rank, messages, away_until: None });
        rank
    }

    /// When somebody may go who waits here: once all have gone who may go before.
    pub(super) fn ready_at(&self, caller: Waiter, now: Instant) -> Instant {
        let mut budget = self.budget.clone();
        let mut at = now;
        for ticket in &self.tickets {
            at = budget.next(at, ticket.messages);
            if ticket.caller == caller {
                break;
            }
            if ticket.away_until.is_none_or(|until| until + RETURN_GRACE > now) {
                // It is the moment that was just asked for.
                let _ = budget.acquire(at, ticket.messages);
            }
        }
        at
    }

    /// Counts a call as made by somebody whose turn it is.
    pub(super) fn proceed(&mut self, caller: Waiter, messages: usize, now: Instant) {
        // Whose turn it is was just looked up under the same lock.
        let _ = self.budget.acquire(now, messages);
        self.remove(caller);
    }

    /// Keeps the place of somebody who comes back later.
    pub(super) fn reserve_until(&mut self, caller: Waiter, until: Instant) {
        if self.tickets.len() > MAX_WAITERS {
            return self.remove(caller);
        }
        self.tickets.iter_mut().filter(|ticket| ticket.caller == caller).for_each(|ticket| {
            ticket.away_until = Some(until);
        });
    }

    /// Gives up somebody's place.
    pub(super) fn remove(&mut self, caller: Waiter) {
        self.tickets.retain(|ticket| ticket.caller != caller);
    }

    /// Gives up the place of somebody who waits here, but not the one that is kept for them.
    pub(super) fn stop_waiting(&mut self, caller: Waiter) {
        self.tickets.retain(|ticket| ticket.caller != caller || ticket.away_until.is_some());
    }

    /// Whether it is as if nobody had ever come.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        let is_forgotten = |ticket: &QueueSlot| ticket.away_until.is_some_and(|until| until + RESERVATION_TTL <= now);
        self.tickets.iter().all(is_forgotten) && self.budget.is_fresh(now)
    }
}
