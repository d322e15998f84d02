//! The machine's clock, as a time that never goes back, and ids that carry it.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use satchel_domain::Timestamp;
use satchel_ports::{Clock, Ids};
use uuid::Uuid;

/// Follows the wall clock where it leaps ahead, as it does when a machine wakes up. Where it is set back time goes on
/// as if it were not: nothing seems to happen before what caused it, and a wait is as long as it was meant to be.
///
/// One instance serves a whole process: two of them differ after the wall clock was set back between their starts.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    /// The largest lead of the wall clock over the time since `started`, in microseconds.
    lead: AtomicI64,
}

impl SystemClock {
    #[must_use]
    pub fn new() -> Self {
        Self { started: Instant::now(), lead: AtomicI64::new(i64::MIN) }
    }

    /// The time when the wall clock shows `wall` and `running` has passed, both in microseconds.
    fn at(&self, wall: i64, running: i64) -> Timestamp {
        let lead = wall.saturating_sub(running);
        let lead = lead.max(self.lead.fetch_max(lead, Ordering::Relaxed));
        Timestamp(running.saturating_add(lead) / 1_000)
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // In this order: a pause between the two makes the lead smaller, and the largest one counts.
        let wall = wall_microseconds();
        let running = self.started.elapsed();
        self.at(wall, saturating_i64(running.as_micros()))
    }

    fn wall(&self) -> Timestamp {
        Timestamp(wall_microseconds() / 1_000)
    }
}

/// UUIDs of version 7: they sort by the time at which they were made.
#[derive(Debug, Clone, Copy, Default)]
pub struct UuidV7;

impl Ids for UuidV7 {
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}

fn wall_microseconds() -> i64 {
    saturating_i64(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros())
}

fn saturating_i64(number: u128) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;

    #[test]
    fn clock_advances_while_wall_clock_is_set_back() {
        let clock = SystemClock::new();
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
        let clock = SystemClock::new();
        clock.at(0, 0);
        assert_eq!(clock.at(HOUR, SECOND), Timestamp(HOUR / 1_000));
        assert_eq!(clock.at(HOUR + SECOND, 2 * SECOND), Timestamp((HOUR + SECOND) / 1_000));
    }

    #[test]
    fn a_pause_between_the_two_looks_changes_nothing() {
        let clock = SystemClock::new();
        clock.at(HOUR, 0);
        assert_eq!(clock.at(HOUR + SECOND, 4 * SECOND), Timestamp((HOUR + 4 * SECOND) / 1_000));
        assert_eq!(clock.at(HOUR + 5 * SECOND, 5 * SECOND), Timestamp((HOUR + 5 * SECOND) / 1_000));
    }

    #[test]
    fn both_times_are_the_machines() {
        let machine = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        for time in [SystemClock::new().now(), SystemClock::new().wall()] {
            let time = u128::try_from(time.0).unwrap();
            assert!((machine..machine + 60_000).contains(&time), "{time} at {machine}");
        }
    }

    #[test]
    fn ids_sort_by_creation() {
        let ids: Vec<_> = (0..10_000).map(|_| UuidV7.next()).collect();
        assert!(ids.is_sorted_by(|earlier, later| earlier < later) && ids[0].get_version_num() == 7);
    }

    #[test]
    fn time_never_goes_back() {
        let clock = SystemClock::new();
        let times: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(times.is_sorted());
    }
}
