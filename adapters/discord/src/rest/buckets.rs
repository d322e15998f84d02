//! The state of Discord's rate limits. Pure, with time as an argument.
//!
//! Each response names the bucket in which the request was counted and how many requests are left; all requests
//! together have a global limit. Requests in flight are assumed not to be counted yet, which is on the safe side.
//!
//! A bucket's name alone doesn't identify a limit, despite the Rate Limits page: new messages and edits have the same
//! name and are counted separately (discord-api-docs #1442, #8073). A route can also have several buckets. So limits
//! are stored by route and major parameter, then by bucket; a request respects all buckets of its route, because the
//! one that will count it is unknown.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use satchel_domain::capabilities::RateLimits;
use tokio::time::Instant;

use super::request::RateLimitRoute;

/// The share by which a window is longer than a second: evenly spaced requests arrive with jitter.
const WINDOW_MARGIN: f64 = 0.1;

/// The share of a second's requests that may be sent in a burst, as a divisor.
const BURST_DIVISOR: u32 = 10;

/// The share of a second's requests that low-priority requests leave to others, as a divisor.
const RESERVED_DIVISOR: usize = 4;

/// How soon a request that waits for the responses of others checks again.
const RECHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The number of routes above which idle ones are evicted.
const BUCKET_CACHE_SIZE: usize = 1_000;

/// The rate limits of all routes.
#[derive(Debug)]
pub(super) struct BucketTable {
    global_window: Option<SlidingWindow>,
    globally_closed_until: Option<Instant>,
    routes: HashMap<RateLimitRoute, RouteLimits>,
    uses_headers: bool,
}

/// The priority of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallPriority {
    /// Whether it leaves a reserve to other requests.
    pub(super) is_low_priority: bool,
    /// Whether the global limit applies.
    pub(super) counts_globally: bool,
}

/// The rate limit headers of a response.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RateLimitHeaders {
    pub(super) bucket: String,
    /// How many requests the full bucket allows.
    pub(super) limit: u32,
    /// How many are left.
    pub(super) remaining: u32,
    /// The time until it is full again.
    pub(super) reset_after: Duration,
}

/// The limits of one route.
#[derive(Debug, Default)]
struct RouteLimits {
    /// The state of each bucket after its last response.
    buckets: HashMap<String, Bucket>,
    in_flight: u32,
    closed_until: Option<Instant>,
}

#[derive(Debug)]
struct Bucket {
    /// How many requests the full bucket allows.
    limit: u32,
    /// How many are left.
    remaining: u32,
    /// When it is full again.
    reset_at: Instant,
}

/// Limits the requests in any window of a second and spreads them over it: a burst arrives late, and then together with
/// the next requests.
#[derive(Debug)]
struct SlidingWindow {
    length: Duration,
    max_requests: usize,
    sent_at: VecDeque<Instant>,
    /// How many may be sent at once after a pause.
    burst: u32,
    /// When a full burst is allowed again: the theoretical arrival time of the generic cell rate algorithm.
    full_at: Option<Instant>,
}

impl BucketTable {
    /// Creates a table with these limits; without any, only rejections are respected.
    pub(super) fn new(rate_limits: Option<RateLimits>) -> Self {
        Self {
            global_window: rate_limits.and_then(|limits| limits.per_second).map(SlidingWindow::new),
            globally_closed_until: None,
            routes: HashMap::new(),
            uses_headers: rate_limits.is_some(),
        }
    }

    /// Counts a request as in flight, or returns when to try again.
    pub(super) fn acquire(
        &mut self,
        now: Instant,
        route: &RateLimitRoute,
        priority: CallPriority,
    ) -> Result<(), Instant> {
        let at = self.next_at(now, route, priority);
        if at > now {
            return Err(at);
        }
        if priority.counts_globally
            && let Some(window) = &mut self.global_window
        {
            window.record_request(now);
        }
        self.evict(now);
        self.routes.entry(route.clone()).or_default().reserve(now);
        Ok(())
    }

    /// Counts a request as finished, with any outcome.
    pub(super) fn release(&mut self, route: &RateLimitRoute) {
        if let Some(limits) = self.routes.get_mut(route) {
            limits.in_flight = limits.in_flight.saturating_sub(1);
        }
    }

    /// Records the headers of a response.
    pub(super) fn record(&mut self, now: Instant, route: &RateLimitRoute, headers: RateLimitHeaders) {
        if self.uses_headers {
            self.routes.entry(route.clone()).or_default().update(now, headers);
        }
    }

    /// Closes a route until the given time.
    pub(super) fn close_until(&mut self, route: &RateLimitRoute, until: Instant) {
        let limits = self.routes.entry(route.clone()).or_default();
        limits.closed_until = limits.closed_until.max(Some(until));
    }

    /// Closes all routes until the given time.
    pub(super) fn close_all_until(&mut self, until: Instant) {
        self.globally_closed_until = self.globally_closed_until.max(Some(until));
    }

    fn next_at(&self, now: Instant, route: &RateLimitRoute, priority: CallPriority) -> Instant {
        let route_at = self.routes.get(route).map(|limits| limits.next_at(now));
        let window = self.global_window.as_ref().filter(|_| priority.counts_globally);
        let window_at = window.and_then(|window| window.next_at(priority.is_low_priority));
        let closed_until = self.globally_closed_until.filter(|_| priority.counts_globally);
        [route_at, window_at, closed_until].into_iter().flatten().fold(now, Instant::max)
    }

    fn evict(&mut self, now: Instant) {
        if self.routes.len() >= BUCKET_CACHE_SIZE {
            self.routes.retain(|_, limits| !limits.is_idle(now));
        }
    }
}

impl RouteLimits {
    fn next_at(&self, now: Instant) -> Instant {
        let buckets = self.buckets.values().filter_map(|bucket| bucket.next_at(now, self.in_flight));
        buckets.chain(self.closed_until).fold(now, Instant::max)
    }

    fn reserve(&mut self, now: Instant) {
        // The next response says what is left after the reset.
        for bucket in self.buckets.values_mut().filter(|bucket| bucket.reset_at > now) {
            bucket.remaining = bucket.remaining.saturating_sub(1);
        }
        self.in_flight += 1;
    }

    fn update(&mut self, now: Instant, headers: RateLimitHeaders) {
        let RateLimitHeaders { bucket, limit, remaining, reset_after } = headers;
        // A full bucket that isn't named any more blocks nothing.
        self.buckets.retain(|_, bucket| bucket.reset_at > now);
        let remaining = remaining.saturating_sub(self.in_flight);
        self.buckets.insert(bucket, Bucket { limit: limit.max(1), remaining, reset_at: now + reset_after });
    }

    fn is_idle(&self, now: Instant) -> bool {
        let are_buckets_full = self.buckets.values().all(|bucket| bucket.reset_at <= now);
        are_buckets_full && self.in_flight == 0 && self.closed_until.is_none_or(|until| until <= now)
    }
}

impl Bucket {
    /// Returns when it allows a request, if it doesn't now.
    fn next_at(&self, now: Instant, in_flight: u32) -> Option<Instant> {
        if self.reset_at > now {
            return (self.remaining == 0).then_some(self.reset_at);
        }
        // It is full again, but the requests in flight use it up.
        (in_flight >= self.limit).then(|| now + RECHECK_INTERVAL)
    }
}

impl SlidingWindow {
    fn new(max_requests: u32) -> Self {
        Self {
            length: Duration::from_secs(1).mul_f64(1.0 + WINDOW_MARGIN),
            max_requests: usize::try_from(max_requests).unwrap_or(usize::MAX).max(1),
            sent_at: VecDeque::new(),
            burst: (max_requests / BURST_DIVISOR).max(1),
            full_at: None,
        }
    }

    /// Returns when the next request may be sent.
    fn next_at(&self, is_low_priority: bool) -> Option<Instant> {
        let max_requests =
            if is_low_priority { self.max_requests - self.max_requests / RESERVED_DIVISOR } else { self.max_requests };
        let window_at =
            self.sent_at.len().checked_sub(max_requests.max(1)).map(|index| self.sent_at[index] + self.length);
        let burst_offset = self.interval() * (self.burst - 1);
        window_at.max(self.full_at.and_then(|full_at| full_at.checked_sub(burst_offset)))
    }

    fn record_request(&mut self, now: Instant) {
        self.full_at = Some(self.full_at.map_or(now, |full_at| full_at.max(now)) + self.interval());
        self.sent_at.push_back(now);
        while self.sent_at.len() > self.max_requests {
            self.sent_at.pop_front();
        }
    }

    fn interval(&self) -> Duration {
        self.length / u32::try_from(self.max_requests).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests;
