//! How fast the bot asks: counted always, refused where the rules have a pace (Rate Limits).

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use satchel_fake_kit::TestClock;
use sha2::Digest;
use tokio::time::Instant;

use crate::{DiscordRates, refusal::ApiRefusal, route::FakeRoute};

#[derive(Debug)]
pub(crate) struct RateCounter {
    clock: TestClock,
    rules: Option<DiscordRates>,
    report: RateReport,
    /// The windows that are open, by route and major parameter.
    buckets: HashMap<(String, Option<String>), CountWindow>,
    global: Option<CountWindow>,
}

/// How fast the bot has been.
#[derive(Debug, Clone, Default)]
pub struct RateReport {
    /// Requests that were let through.
    pub accepted: u64,
    /// Those that earned a 429 for their haste; a script's are not counted.
    pub refused: u64,
    /// Those that were let through, by route.
    pub routes: BTreeMap<String, u64>,
    /// From the first that was let through to the last.
    pub span: Duration,
    began: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct CountWindow {
    ends: Instant,
    left: u32,
}

impl CountWindow {
    fn open(allowed: (u32, Duration), now: Instant) -> Self {
        Self { ends: now + allowed.1, left: allowed.0 }
    }

    /// Takes one of those that are left.
    fn take(&mut self, allowed: (u32, Duration), now: Instant) -> Result<(), Duration> {
        if self.ends <= now {
            *self = Self::open(allowed, now);
        }
        let Some(left) = self.left.checked_sub(1) else { return Err(self.ends - now) };
        self.left = left;
        Ok(())
    }
}

impl RateCounter {
    pub(crate) fn new(rules: Option<DiscordRates>, clock: TestClock) -> Self {
        Self { clock, rules, report: RateReport::default(), buckets: HashMap::new(), global: None }
    }

    /// Lets a request through or not, and says what stands in the headers of its answer.
    pub(crate) fn allow(&mut self, route: &FakeRoute) -> (HeaderMap, Result<(), ApiRefusal>) {
        let now = self.clock.now();
        let Some(rules) = &self.rules else {
            self.report.record(now, route);
            return (HeaderMap::new(), Ok(()));
        };
        let allowed = rules.routes.get(&route.name).copied().unwrap_or(rules.others);
        let key = (route.name.clone(), route.major.clone());
        let window = self.buckets.entry(key).or_insert_with(|| CountWindow::open(allowed, now));
        let mut wait = window.take(allowed, now).err().map(|wait| (wait, false));
        // Global Rate Limit: "Interaction endpoints are not bound to the bot's Global Rate Limit."
        if wait.is_none() && !route.name.contains("/interactions/") {
            let per_second = (rules.global_per_second, Duration::from_secs(1));
            let global = self.global.get_or_insert_with(|| CountWindow::open(per_second, now));
            wait = global.take(per_second, now).err().map(|wait| (wait, true));
        }
        let mut headers = headers(route, allowed.0, window, &self.clock);
        let Some((wait, global)) = wait else {
            self.report.record(now, route);
            return (headers, Ok(()));
        };
        self.report.refused += 1;
        let refusal = ApiRefusal::too_many_requests(seconds(wait), global);
        headers.extend(limited(&refusal));
        (headers, Err(refusal))
    }

    pub(crate) fn report(&self) -> RateReport {
        self.report.clone()
    }
}

impl RateReport {
    fn record(&mut self, now: Instant, route: &FakeRoute) {
        self.accepted += 1;
        self.span = now.duration_since(*self.began.get_or_insert(now));
        *self.routes.entry(route.name.clone()).or_default() += 1;
    }
}

/// Rate Limits, Header Format.
fn headers(route: &FakeRoute, limit: u32, window: &CountWindow, clock: &TestClock) -> HeaderMap {
    let reset_after = window.ends.saturating_duration_since(clock.now());
    let digest = sha2::Sha256::digest(&route.name);
    let bucket: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderMap::from_iter([
        header("x-ratelimit-limit", limit.to_string()),
        header("x-ratelimit-remaining", window.left.to_string()),
        header("x-ratelimit-reset", format!("{:.3}", (clock.unix_time() + reset_after).as_secs_f64())),
        header("x-ratelimit-reset-after", format!("{:.3}", reset_after.as_secs_f64())),
        header("x-ratelimit-bucket", bucket),
    ])
}

/// What stands in the headers of a 429 besides (Rate Limits, Exceeding A Rate Limit).
pub(crate) fn limited(refusal: &ApiRefusal) -> HeaderMap {
    let Some(wait) = refusal.wait else { return HeaderMap::new() };
    let mut headers = HeaderMap::from_iter([
        header("retry-after", format!("{:.0}", wait.seconds.ceil().max(1.0))),
        header("x-ratelimit-scope", if wait.global { "global" } else { "user" }.to_owned()),
    ]);
    if wait.global {
        headers.extend([header("x-ratelimit-global", "true".to_owned())]);
    }
    headers
}

fn header(name: &'static str, value: String) -> (HeaderName, HeaderValue) {
    (HeaderName::from_static(name), HeaderValue::from_str(&value).expect("numbers and names"))
}

/// Milliseconds are the finest that Discord tells, rounded up so that whoever waits so long is let through.
fn seconds(wait: Duration) -> f64 {
    (wait.as_secs_f64() * 1000.0).ceil() / 1000.0
}
