//! What may still be asked, as a function of what was asked and answered: pure, with time as an argument.
//!
//! Discord tells with each answer how much is left of the budget that the call was counted in, and which bucket that
//! was; all calls together have a limit of their own. Calls that are on their way are taken for not yet counted, which
//! is on the safe side.
//!
//! A bucket's name alone is no budget, whatever Rate Limits says: new messages and changes of messages bear the same
//! name and are counted apart (discord-api-docs #1442, #8073). Nor has a route one bucket: another resource, or another
//! thing that is asked of the same one, may name another. So budgets are a route's for a resource, by the buckets that
//! were named there; and a call, of which nobody knows in which it will be counted, keeps to all of them.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use satchel_domain::capabilities::RateLimits;
use tokio::time::Instant;

use super::request::RateLimitRoute;

/// By how much longer a second is taken to be: what leaves evenly arrives unevenly, up to so much later.
const SLOWER_BY: f64 = 0.1;

/// The part of the calls of a second that may leave at once.
const AT_ONCE: u32 = 10;

/// The part of the calls of a second that those who give way leave to the others.
const RESERVED_REQUESTS: usize = 4;

/// How soon whoever waits for answers to others looks again.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// How many budgets are remembered before those that are as good as new are forgotten.
const BUCKET_CACHE_SIZE: usize = 1_000;

/// What is known of all budgets.
#[derive(Debug)]
pub(super) struct BucketTable {
    everything: Option<SlidingWindow>,
    everything_closed_until: Option<Instant>,
    budgets: HashMap<RateLimitRoute, RouteLimits>,
    paced: bool,
}

/// How a call wants to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallPriority {
    /// Whether it leaves room for others.
    pub(super) gives_way: bool,
    /// Whether it counts among all calls.
    pub(super) counts_for_all: bool,
}

/// What an answer tells about its budget.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RateLimitHeaders {
    pub(super) bucket: String,
    /// How many calls it holds when it is full.
    pub(super) limit: u32,
    /// How many are left.
    pub(super) remaining: u32,
    /// When it is full again.
    pub(super) reset_after: Duration,
}

/// What may be asked of a route for one resource.
#[derive(Debug, Default)]
struct RouteLimits {
    /// What the last answer in each bucket told.
    buckets: HashMap<String, Bucket>,
    on_their_way: u32,
    closed_until: Option<Instant>,
}

#[derive(Debug)]
struct Bucket {
    /// How many calls it holds.
    limit: u32,
    /// How many are left.
    remaining: u32,
    /// Until when.
    reset: Instant,
}

/// So many calls in any span of a second. They are spread over it: what leaves all at once arrives late, and then
/// together with what leaves next.
#[derive(Debug)]
struct SlidingWindow {
    length: Duration,
    most: usize,
    made: VecDeque<Instant>,
    /// How many may leave at once after a silence.
    burst: u32,
    /// When as many may leave again; the generic cell rate algorithm's theoretical arrival time.
    full_at: Option<Instant>,
}

impl BucketTable {
    /// One that keeps to this pace; without one only what was refused is heeded.
    pub(super) fn new(pace: Option<RateLimits>) -> Self {
        Self {
            everything: pace.and_then(|pace| pace.per_second).map(SlidingWindow::new),
            everything_closed_until: None,
            budgets: HashMap::new(),
            paced: pace.is_some(),
        }
    }

    /// Counts a call as on its way, or tells when to ask again.
    pub(super) fn acquire(
        &mut self,
        now: Instant,
        route: &RateLimitRoute,
        manner: CallPriority,
    ) -> Result<(), Instant> {
        let at = self.next(now, route, manner);
        if at > now {
            return Err(at);
        }
        if manner.counts_for_all
            && let Some(window) = &mut self.everything
        {
            window.record_request(now);
        }
        self.evict(now);
        self.budgets.entry(route.clone()).or_default().reserve(now);
        Ok(())
    }

    /// A call has ended, with whatever.
    pub(super) fn release(&mut self, route: &RateLimitRoute) {
        if let Some(budget) = self.budgets.get_mut(route) {
            budget.on_their_way = budget.on_their_way.saturating_sub(1);
        }
    }

    /// Heeds what the answer to an ended call tells.
    pub(super) fn record(&mut self, now: Instant, route: &RateLimitRoute, told: RateLimitHeaders) {
        if self.paced {
            self.budgets.entry(route.clone()).or_default().update(now, told);
        }
    }

    /// Asks nothing of this route for its resource before `until`.
    pub(super) fn close_until(&mut self, route: &RateLimitRoute, until: Instant) {
        let budget = self.budgets.entry(route.clone()).or_default();
        budget.closed_until = budget.closed_until.max(Some(until));
    }

    /// Takes nothing at all before `until`.
    pub(super) fn close_all_until(&mut self, until: Instant) {
        self.everything_closed_until = self.everything_closed_until.max(Some(until));
    }

    fn next(&self, now: Instant, route: &RateLimitRoute, manner: CallPriority) -> Instant {
        let own = self.budgets.get(route).map(|budget| budget.next(now));
        let window = self.everything.as_ref().filter(|_| manner.counts_for_all);
        let window = window.and_then(|window| window.next(manner.gives_way));
        let closed = self.everything_closed_until.filter(|_| manner.counts_for_all);
        [own, window, closed].into_iter().flatten().fold(now, Instant::max)
    }

    fn evict(&mut self, now: Instant) {
        if self.budgets.len() >= BUCKET_CACHE_SIZE {
            self.budgets.retain(|_, budget| !budget.is_fresh(now));
        }
    }
}

impl RouteLimits {
    fn next(&self, now: Instant) -> Instant {
        let buckets = self.buckets.values().filter_map(|bucket| bucket.next(now, self.on_their_way));
        buckets.chain(self.closed_until).fold(now, Instant::max)
    }

    fn reserve(&mut self, now: Instant) {
        // What is left after the reset is told by the next answer.
        for bucket in self.buckets.values_mut().filter(|bucket| bucket.reset > now) {
            bucket.remaining = bucket.remaining.saturating_sub(1);
        }
        self.on_their_way += 1;
    }

    fn update(&mut self, now: Instant, told: RateLimitHeaders) {
        let RateLimitHeaders { bucket, limit, remaining, reset_after } = told;
        // A bucket that is full again and isn't named any more holds nobody up.
        self.buckets.retain(|_, bucket| bucket.reset > now);
        let remaining = remaining.saturating_sub(self.on_their_way);
        self.buckets.insert(bucket, Bucket { limit: limit.max(1), remaining, reset: now + reset_after });
    }

    fn is_fresh(&self, now: Instant) -> bool {
        let are_full = self.buckets.values().all(|bucket| bucket.reset <= now);
        are_full && self.on_their_way == 0 && self.closed_until.is_none_or(|until| until <= now)
    }
}

impl Bucket {
    /// When it has a call to give, where it hasn't now.
    fn next(&self, now: Instant, on_their_way: u32) -> Option<Instant> {
        if self.reset > now {
            return (self.remaining == 0).then_some(self.reset);
        }
        // It is full again, but those who are on their way have it already.
        (on_their_way >= self.limit).then(|| now + RECHECK_INTERVAL)
    }
}

impl SlidingWindow {
    fn new(most: u32) -> Self {
        Self {
            length: Duration::from_secs(1).mul_f64(1.0 + SLOWER_BY),
            most: usize::try_from(most).unwrap_or(usize::MAX).max(1),
            made: VecDeque::new(),
            burst: (most / AT_ONCE).max(1),
            full_at: None,
        }
    }

    /// When one more may be made, with room left behind it or not.
    fn next(&self, leaving_room: bool) -> Option<Instant> {
        let most = if leaving_room { self.most - self.most / RESERVED_REQUESTS } else { self.most };
        let in_the_way = self.made.len().checked_sub(most.max(1)).map(|index| self.made[index] + self.length);
        let ahead = self.interval() * (self.burst - 1);
        in_the_way.max(self.full_at.and_then(|full_at| full_at.checked_sub(ahead)))
    }

    fn record_request(&mut self, now: Instant) {
        self.full_at = Some(self.full_at.map_or(now, |full_at| full_at.max(now)) + self.interval());
        self.made.push_back(now);
        while self.made.len() > self.most {
            self.made.pop_front();
        }
    }

    fn interval(&self) -> Duration {
        self.length / u32::try_from(self.most).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
