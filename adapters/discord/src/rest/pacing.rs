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
    call::{Call, Route},
    limiter::{Limiter, Manner, Told},
    response::parse_retry_after,
};

/// How long is waited here for one's turn.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// How long a call gives way. Which edit is a reply's last can't be told, so none waits for ever.
const GIVES_WAY: Duration = Duration::from_secs(1);

/// The pace of a bot; clones share it.
#[derive(Clone)]
pub(super) struct Pacer(Arc<Mutex<Limiter>>);

/// A call whose turn it is. It counts as on its way until this is dropped.
pub(super) struct Turn {
    pacer: Pacer,
    route: Route,
    ended: bool,
}

impl Pacer {
    pub(super) fn new(pace: Option<RateLimits>) -> Self {
        Self(Arc::new(Mutex::new(Limiter::new(pace))))
    }

    /// Waits until a call may be made.
    ///
    /// # Errors
    /// How long it would take, where that is long.
    pub(super) async fn wait(&self, call: &Call) -> Result<Turn, CallError> {
        let (route, start) = (call.route(), Instant::now());
        loop {
            let now = Instant::now();
            let gives_way = call.gives_way() && now < start + GIVES_WAY;
            let manner = Manner { gives_way, counts_for_all: !call.is_of_an_interaction() };
            let at = match self.limiter().take(now, &route, manner) {
                Ok(()) => return Ok(Turn { pacer: self.clone(), route, ended: false }),
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

    fn limiter(&self) -> MutexGuard<'_, Limiter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Heeds what the answer tells about the budget.
    pub(super) fn heed(&mut self, headers: &HeaderMap) {
        self.end();
        if let Some(told) = told(headers) {
            self.pacer.limiter().told(Instant::now(), &self.route, told);
        }
    }

    /// Heeds that no more is taken for so long.
    pub(super) fn close(&self, retry_after: Duration, global: bool) {
        let (until, mut limiter) = (Instant::now() + retry_after, self.pacer.limiter());
        if global {
            limiter.close_everything(until);
        } else {
            limiter.close(&self.route, until);
        }
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.pacer.limiter().ended(&self.route);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the headers tell (Rate Limits, Header Format); nothing where one is missing or can't be read.
fn told(headers: &HeaderMap) -> Option<Told> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let seconds: f64 = text("x-ratelimit-reset-after")?.parse().ok()?;
    Some(Told {
        bucket: text("x-ratelimit-bucket")?.to_owned(),
        limit: text("x-ratelimit-limit")?.parse().ok()?,
        remaining: text("x-ratelimit-remaining")?.parse().ok()?,
        reset_after: parse_retry_after(seconds)?,
    })
}
