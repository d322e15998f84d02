//! Delays requests until the rate limits allow them, and rejects those that would have to wait long.
//!
//! A part that waits here is in state sending, so long waits happen in the ledger instead.

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

/// The longest wait for a permit.
const MAX_LOCAL_WAIT: Duration = Duration::from_secs(2);

/// How long a low-priority request lets others go first. An edit may be a draft's last, so none is starved.
const LOW_PRIORITY_DELAY: Duration = Duration::from_secs(1);

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
