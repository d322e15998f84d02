//! Lets calls wait for their turn, and tells those who would have to wait long to come back.
//!
//! A part that waits here counts as being sent, one that waits in the ledger doesn't.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::header::HeaderMap;
use satchel_domain::capabilities::RateLimits;
use tokio::time::{Instant, sleep_until};

use super::{
    CallError,
    buckets::{BucketTable, CallPriority, RateLimitHeaders},
    request::{ApiRequest, RateLimitRoute},
    response::parse_retry_after,
};

/// How long is waited here for one's turn.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// How long a call gives way. Which edit is a reply's last can't be told, so none waits for ever.
const LOW_PRIORITY_DELAY: Duration = Duration::from_secs(1);

/// The pace of a bot; clones share it.
#[derive(Clone)]
pub(super) struct RateLimiter(Arc<Mutex<BucketTable>>);

/// A call whose turn it is. It counts as on its way until this is dropped.
pub(super) struct RateLimitPermit {
    pacer: RateLimiter,
    route: RateLimitRoute,
    ended: bool,
}

impl RateLimiter {
    pub(super) fn new(pace: Option<RateLimits>) -> Self {
        Self(Arc::new(Mutex::new(BucketTable::new(pace))))
    }

    /// Waits until a call may be made.
    ///
    /// # Errors
    /// How long it would take, where that is long.
    pub(super) async fn acquire(&self, call: &ApiRequest) -> Result<RateLimitPermit, CallError> {
        let (route, start) = (call.route(), Instant::now());
        loop {
            let now = Instant::now();
            let gives_way = call.is_low_priority() && now < start + LOW_PRIORITY_DELAY;
            let manner = CallPriority { gives_way, counts_for_all: !call.is_of_an_interaction() };
            let at = match self.limiter().acquire(now, &route, manner) {
                Ok(()) => return Ok(RateLimitPermit { pacer: self.clone(), route, ended: false }),
                Err(at) => at,
            };
            if at > start + LONGEST_WAIT {
                let retry_after = parse_retry_after((at - now).as_secs_f64());
                let reason = "Discord takes no more of these for now".to_owned();
                return Err(CallError::RateLimited { retry_after, global: false, reason });
            }
            sleep_until(at).await;
        }
    }

    fn limiter(&self) -> MutexGuard<'_, BucketTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RateLimitPermit {
    /// Heeds what the answer tells about the budget.
    pub(super) fn record_headers(&mut self, headers: &HeaderMap) {
        self.finish();
        if let Some(told) = parse_headers(headers) {
            self.pacer.limiter().record(Instant::now(), &self.route, told);
        }
    }

    /// Heeds that no more is taken for so long.
    pub(super) fn close_bucket(&self, retry_after: Duration, global: bool) {
        let (until, mut limiter) = (Instant::now() + retry_after, self.pacer.limiter());
        if global {
            limiter.close_all_until(until);
        } else {
            limiter.close_until(&self.route, until);
        }
    }

    fn finish(&mut self) {
        if !self.ended {
            self.ended = true;
            self.pacer.limiter().release(&self.route);
        }
    }
}

impl Drop for RateLimitPermit {
    fn drop(&mut self) {
        self.finish();
    }
}

/// What the headers tell (Rate Limits, Header Format); nothing where one is missing or can't be read.
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
