//! How long to wait before a retry, and how to log an outage once instead of on each attempt.

use std::time::Duration;

/// How the wait before a retry grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure; it doubles with each further one.
    pub min_delay: Duration,
    pub max_delay: Duration,
}

impl Backoff {
    /// Returns the delay after this many failures, with jitter, so that clients don't retry in step after an outage.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let full_delay = self.min_delay.saturating_mul(1 << failures.min(20)).min(self.max_delay);
        full_delay / 2 + full_delay.mul_f64(random_fraction() / 2.0)
    }
}

/// Returns a random number from 0 to 1; 0.5 if the system has no randomness, which only costs the jitter.
#[must_use]
pub fn random_fraction() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

/// Counts consecutive failures and remembers which outage was logged last. `K` distinguishes kinds of outages.
#[derive(Debug)]
pub struct RetryTracker<K> {
    platform: &'static str,
    backoff: Backoff,
    failures: u32,
    reported: Option<K>,
}

impl<K: PartialEq> RetryTracker<K> {
    #[must_use]
    pub fn new(platform: &'static str, backoff: Backoff) -> Self {
        Self { platform, backoff, failures: 0, reported: None }
    }

    /// Counts a failure and returns the delay before the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.backoff.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// Records the current outage. Returns whether it has not been logged yet.
    pub fn start_outage(&mut self, outage: K) -> bool {
        let is_reported = self.reported.as_ref() == Some(&outage);
        self.reported = Some(outage);
        !is_reported
    }

    /// Records that the platform responds, and logs the recovery if an outage was logged. Keeps the failure count.
    pub fn mark_recovered(&mut self) {
        if self.reported.take().is_some() {
            tracing::info!("{} answers again", self.platform);
        }
    }

    /// Records that the platform responds reliably: resets the failure count, too.
    pub fn reset(&mut self) {
        self.mark_recovered();
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { min_delay: Duration::from_millis(250), max_delay: Duration::from_secs(30) };

    #[test]
    fn delays_double_up_to_the_longest() {
        for (failures, longest) in [(0, 250), (1, 500), (4, 4_000), (7, 30_000), (u32::MAX, 30_000)] {
            let delays: Vec<u128> = (0..20).map(|_| BACKOFF.delay(failures).as_millis()).collect();
            assert!(delays.iter().all(|delay| (longest / 2..=longest).contains(delay)), "{failures}: {delays:?}");
            assert!(delays.iter().any(|delay| *delay != delays[0]), "{failures}: {delays:?}");
        }
    }

    #[test]
    fn outage_is_new_until_it_changes_or_ends() {
        let mut tracker = RetryTracker::new("Stub", BACKOFF);
        assert!(tracker.start_outage("unreachable") && !tracker.start_outage("unreachable"));
        assert!(tracker.start_outage("busy") && tracker.start_outage("unreachable"));
        tracker.mark_recovered();
        assert!(tracker.start_outage("unreachable"));
    }

    #[test]
    fn only_a_reset_shortens_delays() {
        let mut tracker = RetryTracker::new("Stub", BACKOFF);
        let delays: Vec<Duration> = (0..8).map(|_| tracker.next_delay()).collect();
        assert!(delays[7] >= BACKOFF.max_delay / 2, "{delays:?}");
        tracker.start_outage(());
        tracker.mark_recovered();
        assert!(tracker.next_delay() >= BACKOFF.max_delay / 2);
        tracker.reset();
        assert!(tracker.next_delay() <= BACKOFF.min_delay);
    }
}
