//! Discord's rate limits: delays requests until the limits allow them, and rejects those that would have to wait long.
//! A part that waits here is in state sending, so long waits happen in the ledger instead.
//!
//! [`BucketTable`] is pure, with time as an argument. Each response names the bucket in which the request was counted
//! and how many requests are left; all requests together have a global limit. Requests in flight are assumed not to be
//! counted yet, which is on the safe side.
//!
//! A bucket's name alone doesn't identify a limit, despite the Rate Limits page: new messages and edits have the same
//! name and are counted separately (discord-api-docs #1442, #8073). A route can also have several buckets. So limits
//! are stored by route and major parameter, then by bucket; a request respects all buckets of its route, because the
//! one that will count it is unknown.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::header::HeaderMap;
use satchel_domain::capabilities::RateLimits;
use tokio::time::{Instant, sleep_until};

use super::{
    CallError,
    request::{ApiRequest, RateLimitRoute, parse_retry_after},
};

/// The longest wait for a permit.
const MAX_LOCAL_WAIT: Duration = Duration::from_secs(2);

/// How long a low-priority request lets others go first. An edit may be a draft's last, so none is starved.
const LOW_PRIORITY_DELAY: Duration = Duration::from_secs(1);

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

/// The rate limits of a bot; clones share them.
#[derive(Clone)]
pub(super) struct RateLimiter(Arc<Mutex<BucketTable>>);

/// The permit to send a request, which counts as in flight until this is dropped.
pub(super) struct RateLimitPermit {
    rate_limiter: RateLimiter,
    route: RateLimitRoute,
    is_released: bool,
}

impl RateLimiter {
    pub(super) fn new(rate_limits: Option<RateLimits>) -> Self {
        Self(Arc::new(Mutex::new(BucketTable::new(rate_limits))))
    }

    /// Waits until a request may be sent.
    ///
    /// # Errors
    /// When it would take longer than two seconds; the error has the delay.
    pub(super) async fn acquire(&self, request: &ApiRequest) -> Result<RateLimitPermit, CallError> {
        let (route, start) = (request.route(), Instant::now());
        loop {
            let now = Instant::now();
            let is_low_priority = request.is_low_priority() && now < start + LOW_PRIORITY_DELAY;
            let priority = CallPriority { is_low_priority, counts_globally: !request.is_interaction() };
            let at = match self.buckets().acquire(now, &route, priority) {
                Ok(()) => return Ok(RateLimitPermit { rate_limiter: self.clone(), route, is_released: false }),
                Err(at) => at,
            };
            if at > start + MAX_LOCAL_WAIT {
                let retry_after = parse_retry_after((at - now).as_secs_f64());
                let reason = "Discord's rate limit is used up for now".to_owned();
                return Err(CallError::RateLimited { retry_after, global: false, reason });
            }
            sleep_until(at).await;
        }
    }

    fn buckets(&self) -> MutexGuard<'_, BucketTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RateLimitPermit {
    /// Records the rate limit headers of the response.
    pub(super) fn record_headers(&mut self, headers: &HeaderMap) {
        self.finish();
        if let Some(limits) = parse_headers(headers) {
            self.rate_limiter.buckets().record(Instant::now(), &self.route, limits);
        }
    }

    /// Closes the route, or all of them, for a duration.
    pub(super) fn close_route(&self, retry_after: Duration, global: bool) {
        let (until, mut buckets) = (Instant::now() + retry_after, self.rate_limiter.buckets());
        if global {
            buckets.close_all_until(until);
        } else {
            buckets.close_until(&self.route, until);
        }
    }

    fn finish(&mut self) {
        if !self.is_released {
            self.is_released = true;
            self.rate_limiter.buckets().release(&self.route);
        }
    }
}

impl Drop for RateLimitPermit {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Parses the rate limit headers (Rate Limits, Header Format); `None` if one is missing or malformed.
fn parse_headers(headers: &HeaderMap) -> Option<RateLimitHeaders> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let seconds: f64 = text("x-ratelimit-reset-after")?.parse().ok()?;
    Some(RateLimitHeaders {
        bucket: text("x-ratelimit-bucket")?.to_owned(),
        limit: text("x-ratelimit-limit")?.parse().ok()?,
        remaining: text("x-ratelimit-remaining")?.parse().ok()?,
        reset_after: parse_retry_after(seconds)?,
    })
}

/// The rate limits of all routes.
#[derive(Debug)]
struct BucketTable {
    global_window: Option<SlidingWindow>,
    globally_closed_until: Option<Instant>,
    routes: HashMap<RateLimitRoute, RouteLimits>,
    uses_headers: bool,
}

/// The priority of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CallPriority {
    /// Whether it leaves a reserve to other requests.
    is_low_priority: bool,
    /// Whether the global limit applies.
    counts_globally: bool,
}

/// The rate limit headers of a response.
#[derive(Debug, Clone, PartialEq)]
struct RateLimitHeaders {
    bucket: String,
    /// How many requests the full bucket allows.
    limit: u32,
    /// How many are left.
    remaining: u32,
    /// The time until it is full again.
    reset_after: Duration,
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
    fn new(rate_limits: Option<RateLimits>) -> Self {
        Self {
            global_window: rate_limits.and_then(|limits| limits.per_second).map(SlidingWindow::new),
            globally_closed_until: None,
            routes: HashMap::new(),
            uses_headers: rate_limits.is_some(),
        }
    }

    /// Counts a request as in flight, or returns when to try again.
    fn acquire(&mut self, now: Instant, route: &RateLimitRoute, priority: CallPriority) -> Result<(), Instant> {
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
    fn release(&mut self, route: &RateLimitRoute) {
        if let Some(limits) = self.routes.get_mut(route) {
            limits.in_flight = limits.in_flight.saturating_sub(1);
        }
    }

    /// Records the headers of a response.
    fn record(&mut self, now: Instant, route: &RateLimitRoute, headers: RateLimitHeaders) {
        if self.uses_headers {
            self.routes.entry(route.clone()).or_default().update(now, headers);
        }
    }

    /// Closes a route until the given time.
    fn close_until(&mut self, route: &RateLimitRoute, until: Instant) {
        let limits = self.routes.entry(route.clone()).or_default();
        limits.closed_until = limits.closed_until.max(Some(until));
    }

    /// Closes all routes until the given time.
    fn close_all_until(&mut self, until: Instant) {
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
mod tests {
    use super::*;

    const USUAL: CallPriority = CallPriority { is_low_priority: false, counts_globally: true };
    const GIVING_WAY: CallPriority = CallPriority { is_low_priority: true, counts_globally: true };
    const OF_AN_INTERACTION: CallPriority = CallPriority { is_low_priority: false, counts_globally: false };

    fn discord() -> BucketTable {
        BucketTable::new(Some(RateLimits {
            per_second: Some(50),
            per_conversation_second: None,
            burst: 1,
            per_group_minute: None,
        }))
    }

    fn route(template: &str, major: &str) -> RateLimitRoute {
        RateLimitRoute { template: template.to_owned(), major: major.to_owned() }
    }

    fn headers(bucket: &str, limit: u32, remaining: u32, reset_ms: u64) -> RateLimitHeaders {
        RateLimitHeaders { bucket: bucket.to_owned(), limit, remaining, reset_after: Duration::from_millis(reset_ms) }
    }

    fn after(start: Instant, milliseconds: u64) -> Instant {
        start + Duration::from_millis(milliseconds)
    }

    /// Makes a call whose answer tells this.
    fn call(limiter: &mut BucketTable, now: Instant, route: &RateLimitRoute, told: RateLimitHeaders) {
        limiter.acquire(now, route, USUAL).expect("it may be made");
        limiter.release(route);
        limiter.record(now, route, told);
    }

    #[test]
    fn exhausted_bucket_reopens_exactly_at_reset() {
        let (mut limiter, start, send) = (discord(), Instant::now(), route("POST messages", "/1"));
        call(&mut limiter, start, &send, headers("a", 5, 0, 3_000));
        assert_eq!(limiter.acquire(start, &send, USUAL), Err(after(start, 3_000)));
        assert_eq!(limiter.acquire(after(start, 2_999), &send, USUAL), Err(after(start, 3_000)));
        assert!(limiter.acquire(after(start, 3_000), &send, USUAL).is_ok());
    }

    #[test]
    fn shared_bucket_still_counts_per_route_and_resource() {
        let (mut limiter, start) = (discord(), Instant::now());
        let (send, edit) = (route("POST messages", "/1"), route("PATCH message", "/1"));
        call(&mut limiter, start, &edit, headers("shared", 5, 3, 3_000));
        call(&mut limiter, start, &send, headers("shared", 5, 0, 3_000));
        assert_eq!(limiter.acquire(start, &send, USUAL), Err(after(start, 3_000)));
        assert!(limiter.acquire(start, &route("POST messages", "/2"), USUAL).is_ok(), "another channel");
        call(&mut limiter, start, &edit, headers("shared", 5, 2, 4_000));
        assert_eq!(
            limiter.acquire(start, &send, USUAL),
            Err(after(start, 3_000)),
            "what is told of edits is no news of sends"
        );
        call(&mut limiter, start, &edit, headers("shared", 5, 0, 9_000));
        assert!(limiter.acquire(after(start, 3_000), &send, USUAL).is_ok());
        assert_eq!(limiter.acquire(after(start, 3_000), &edit, USUAL), Err(after(start, 9_000)));
    }

    #[test]
    fn limits_survive_when_route_names_another_bucket() {
        let (mut limiter, start) = (discord(), Instant::now());
        let (here, there) = (route("PATCH channel", "/1"), route("PATCH channel", "/2"));
        call(&mut limiter, start, &here, headers("names", 2, 0, 9_000));
        call(&mut limiter, start, &there, headers("topics", 5, 4, 1_000));
        assert_eq!(
            limiter.acquire(start, &here, USUAL),
            Err(after(start, 9_000)),
            "what another resource names is no news"
        );
        // Two answers for one resource cross, each counted in a bucket of its own.
        let (mut limiter, both) = (discord(), &here);
        for _ in 0..2 {
            limiter.acquire(start, both, USUAL).expect("nothing is known yet");
        }
        for answer in [headers("names", 2, 0, 9_000), headers("topics", 5, 4, 1_000)] {
            limiter.release(both);
            limiter.record(start, both, answer);
        }
        assert_eq!(
            limiter.acquire(start, both, USUAL),
            Err(after(start, 9_000)),
            "in which it will be counted nobody knows"
        );
        assert!(limiter.acquire(after(start, 9_000), both, USUAL).is_ok());
    }

    #[test]
    fn in_flight_requests_count_against_remaining_limit() {
        let (mut limiter, start, send) = (discord(), Instant::now(), route("POST messages", "/1"));
        call(&mut limiter, start, &send, headers("a", 3, 2, 5_000));
        limiter.acquire(start, &send, USUAL).expect("two are left");
        limiter.acquire(start, &send, USUAL).expect("one is left");
        assert_eq!(limiter.acquire(start, &send, USUAL), Err(after(start, 5_000)));
        limiter.release(&send);
        limiter.record(start, &send, headers("a", 3, 1, 5_000));
        assert_eq!(
            limiter.acquire(start, &send, USUAL),
            Err(after(start, 5_000)),
            "the other has the one that is left"
        );
        limiter.release(&send);
        limiter.record(start, &send, headers("a", 3, 1, 5_000));
        assert!(limiter.acquire(start, &send, USUAL).is_ok(), "it was counted already");
    }

    #[test]
    fn reset_grants_no_more_than_limit() {
        let (mut limiter, start, send) = (discord(), Instant::now(), route("POST messages", "/1"));
        call(&mut limiter, start, &send, headers("a", 1, 1, 1_000));
        limiter.acquire(start, &send, USUAL).expect("one is left");
        let reset = after(start, 1_000);
        assert!(limiter.acquire(reset, &send, USUAL).is_err(), "the slow one may be counted after the reset");
        limiter.release(&send);
        assert!(limiter.acquire(reset, &send, USUAL).is_ok());
        assert!(
            limiter.acquire(after(reset, 1), &send, USUAL).is_err(),
            "until the next answer tells how much is left"
        );
    }

    /// When calls are made by those who always have more to ask, each about something of its own.
    fn greedy(limiter: &mut BucketTable, start: Instant, milliseconds: u64, manner: CallPriority) -> Vec<Duration> {
        let mut made = Vec::new();
        for millisecond in 0..milliseconds {
            let now = after(start, millisecond);
            for number in 0..10 {
                let route = route("POST messages", &format!("/{millisecond}-{number}"));
                if limiter.acquire(now, &route, manner).is_ok() {
                    limiter.release(&route);
                    made.push(now - start);
                }
            }
        }
        made
    }

    /// The most that arrive in any second, each later than it left by no more than `late`.
    fn most_in_a_second(made: &[Duration], late: impl Fn(usize) -> u64) -> usize {
        let mut arrived: Vec<Duration> =
            made.iter().enumerate().map(|(index, at)| *at + Duration::from_millis(late(index))).collect();
        arrived.sort_unstable();
        let second = Duration::from_secs(1);
        let within = |begin: &Duration| arrived.iter().filter(|at| **at >= *begin && **at < *begin + second).count();
        arrived.iter().map(within).max().unwrap_or(0)
    }

    #[test]
    fn requests_keep_to_fifty_per_second_despite_delays() {
        let made = greedy(&mut discord(), Instant::now(), 10_000, USUAL);
        assert!(most_in_a_second(&made, |index| [0, 90, 30, 60][index % 4]) <= 50);
        assert!(made.len() >= 445, "{} of 500 in ten seconds", made.len());
    }

    #[test]
    fn edits_of_growing_replies_leave_room_for_sends() {
        let (mut limiter, start) = (discord(), Instant::now());
        let edits = greedy(&mut limiter, start, 3_000, GIVING_WAY);
        assert_eq!(most_in_a_second(&edits, |_| 0), 38);
        assert!(limiter.acquire(after(start, 3_000), &route("POST", "/1"), USUAL).is_ok());
    }

    #[test]
    fn interaction_responses_bypass_global_limit() {
        let (mut limiter, start) = (discord(), Instant::now());
        limiter.close_all_until(after(start, 9_000));
        assert_eq!(limiter.acquire(start, &route("POST", "/1"), USUAL), Err(after(start, 9_000)));
        assert!(limiter.acquire(start, &route("POST callback", "/1/token"), OF_AN_INTERACTION).is_ok());
        assert!(limiter.acquire(after(start, 9_000), &route("POST", "/1"), USUAL).is_ok());
    }

    #[test]
    fn closed_bucket_reopens_on_time_even_unpaced() {
        let (mut limiter, start, send) = (BucketTable::new(None), Instant::now(), route("POST messages", "/1"));
        call(&mut limiter, start, &send, headers("a", 5, 0, 60_000));
        assert!(limiter.acquire(start, &send, USUAL).is_ok(), "without a pace only what was refused counts");
        limiter.close_until(&send, after(start, 7_000));
        limiter.close_until(&send, after(start, 3_000));
        assert_eq!(limiter.acquire(start, &send, USUAL), Err(after(start, 7_000)));
        assert!(limiter.acquire(start, &route("POST messages", "/2"), USUAL).is_ok(), "it was one channel's");
        assert!(limiter.acquire(after(start, 7_000), &send, USUAL).is_ok());
    }

    #[test]
    fn what_is_as_good_as_new_is_forgotten() {
        let (mut limiter, start) = (discord(), Instant::now());
        for channel in 0..3_000 {
            let now = after(start, channel * 100);
            call(&mut limiter, now, &route("POST messages", &channel.to_string()), headers("a", 5, 4, 1_000));
        }
        assert!(limiter.routes.len() <= BUCKET_CACHE_SIZE + 1, "{} are remembered", limiter.routes.len());
    }
}
