//! Who may go before whom, as a function of who came when: pure, with time as an argument.

use std::time::Duration;

use satchel_domain::PartId;
use teloxide::types::ChatId;
use tokio::time::Instant;

use super::budget::Budget;

/// How long somebody who was told to come back is waited for when their time has come.
const LATE: Duration = Duration::from_millis(250);

/// How long the place is kept of somebody who does not come back: longer than the longest wait between two tries.
const KEPT: Duration = Duration::from_secs(120);

/// How many places are kept at most for those who are away; of more than that some go to the end when they come back.
const PLACES: usize = 1_000;

/// Who waits: a part for its chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) chat: ChatId,
    pub(super) part: PartId,
}

/// A budget, and those who wait for it in the order in which they may go.
#[derive(Debug)]
pub(super) struct Line {
    /// What may still be sent.
    pub(super) budget: Budget,
    tickets: Vec<Ticket>,
}

/// A place in the line.
#[derive(Debug)]
struct Ticket {
    caller: Caller,
    /// Whoever has a lower one goes first.
    rank: Instant,
    messages: usize,
    /// When somebody comes back who does not wait here.
    away_until: Option<Instant>,
}

impl Line {
    /// A line in which nobody waits.
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget, tickets: Vec::new() }
    }

    /// Lets somebody wait, at the place that is kept for them or by their rank. Returns the rank that counts.
    pub(super) fn join(&mut self, caller: Caller, rank: Instant, messages: usize, now: Instant) -> Instant {
        self.tickets.retain(|ticket| ticket.away_until.is_none_or(|until| until + KEPT > now));
        if let Some(ticket) = self.tickets.iter_mut().find(|ticket| ticket.caller == caller) {
            ticket.away_until = None;
            ticket.messages = messages;
            return ticket.rank;
        }
        let place = self.tickets.partition_point(|ticket| ticket.rank <= rank);
        self.tickets.insert(place, Ticket { caller, rank, messages, away_until: None });
        rank
    }

    /// When somebody may go who waits here: once all have gone who may go before.
    pub(super) fn turn(&self, caller: Caller, now: Instant) -> Instant {
        let mut budget = self.budget.clone();
        let mut at = now;
        for ticket in &self.tickets {
            at = budget.next(at, ticket.messages);
            if ticket.caller == caller {
                break;
            }
            if ticket.away_until.is_none_or(|until| until + LATE > now) {
                // It is the moment that was just asked for.
                let _ = budget.take(at, ticket.messages);
            }
        }
        at
    }

    /// Counts a call as made by somebody whose turn it is.
    pub(super) fn go(&mut self, caller: Caller, messages: usize, now: Instant) {
        // Whose turn it is was just looked up under the same lock.
        let _ = self.budget.take(now, messages);
        self.leave(caller);
    }

    /// Keeps the place of somebody who comes back later.
    pub(super) fn keep_place(&mut self, caller: Caller, until: Instant) {
        if self.tickets.len() > PLACES {
            return self.leave(caller);
        }
        self.tickets.iter_mut().filter(|ticket| ticket.caller == caller).for_each(|ticket| {
            ticket.away_until = Some(until);
        });
    }

    /// Gives up somebody's place.
    pub(super) fn leave(&mut self, caller: Caller) {
        self.tickets.retain(|ticket| ticket.caller != caller);
    }

    /// Gives up the place of somebody who waits here, but not the one that is kept for them.
    pub(super) fn stop_waiting(&mut self, caller: Caller) {
        self.tickets.retain(|ticket| ticket.caller != caller || ticket.away_until.is_some());
    }

    /// Whether it is as if nobody had ever come.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        let is_forgotten = |ticket: &Ticket| ticket.away_until.is_some_and(|until| until + KEPT <= now);
        self.tickets.iter().all(is_forgotten) && self.budget.is_fresh(now)
    }
}
