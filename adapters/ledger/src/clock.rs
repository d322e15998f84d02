//! The ledger's clock: the wall clock's time, which for one process never goes back and never stands still.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use satchel_domain::Timestamp;

/// Follows the wall clock where it leaps ahead, as it does when a machine wakes up. Where it is set back time goes on
/// as if it were not: nothing seems to happen before what caused it, and a wait is as long as it was meant to be.
#[derive(Debug)]
pub(crate) struct Clock {
    begun: Instant,
    /// The largest lead of the wall clock over the time since `begun`, in microseconds.
    lead: AtomicI64,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), lead: AtomicI64::new(i64::MIN) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        // In this order: a pause between the two makes the lead smaller, and the largest one counts.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let running = self.begun.elapsed();
        self.at(microseconds(wall.as_micros()), microseconds(running.as_micros()))
    }

    /// The time when the wall clock shows `wall` and `running` has passed, both in microseconds.
    fn at(&self, wall: i64, running: i64) -> Timestamp {
        let lead = wall.saturating_sub(running);
        let lead = lead.max(self.lead.fetch_max(lead, Ordering::Relaxed));
        Timestamp(running.saturating_add(lead) / 1_000)
    }
}

fn microseconds(number: u128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;

    #[test]
    fn clock_advances_while_wall_clock_is_set_back() {
        let clock = Clock::new();
        let noon = 12 * HOUR;
        assert_eq!(clock.at(noon, 0), Timestamp(noon / 1_000));
        let set_back = noon - 3 * HOUR;
        for seconds in 1..5 {
            let now = clock.at(set_back + seconds * SECOND, seconds * SECOND);
            assert_eq!(now, Timestamp((noon + seconds * SECOND) / 1_000));
        }
    }

    #[test]
    fn a_leap_ahead_is_followed() {
        let clock = Clock::new();
        clock.at(0, 0);
        assert_eq!(clock.at(HOUR, SECOND), Timestamp(HOUR / 1_000));
        assert_eq!(clock.at(HOUR + SECOND, 2 * SECOND), Timestamp((HOUR + SECOND) / 1_000));
    }

    #[test]
    fn a_pause_between_the_two_looks_changes_nothing() {
        let clock = Clock::new();
        clock.at(HOUR, 0);
        assert_eq!(clock.at(HOUR + SECOND, 4 * SECOND), Timestamp((HOUR + 4 * SECOND) / 1_000));
        assert_eq!(clock.at(HOUR + 5 * SECOND, 5 * SECOND), Timestamp((HOUR + 5 * SECOND) / 1_000));
    }

    #[test]
    fn it_shows_the_wall_clocks_time() {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let shown = u128::try_from(Clock::new().now().0).unwrap();
        assert!((wall..wall + 60_000).contains(&shown), "{shown} at {wall}");
    }
}
