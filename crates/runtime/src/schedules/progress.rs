//! The progress of a schedule, and how it handles a wrong clock. Pure.

use std::time::Duration;

use satchel_domain::Timestamp;
use serde::{Deserialize, Serialize};

/// Progress further ahead of the clock than this is impossible: the clock was wrong then, or it is wrong now.
const MAX_CLOCK_AHEAD: Duration = Duration::from_secs(24 * 60 * 60);

/// How many setbacks of the clock are remembered.
const MAX_CLOCK_SAMPLES: usize = 8;

/// The progress of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScheduleProgress {
    /// The expression and its zone. A changed one has missed nothing yet.
    #[serde(rename = "rhythm")]
    pub(super) cron: String,
    /// All times up to here are settled.
    pub(super) done: Timestamp,
    /// The progress under clocks that were days ahead, in order. Which clock was wrong is unknown; once the present
    /// clock reaches such a time, everything up to it is settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ahead: Vec<Timestamp>,
}

impl ScheduleProgress {
    /// A schedule whose times up to `done` are settled.
    pub(super) fn new(cron: String, done: Timestamp) -> Self {
        Self { cron, done, ahead: Vec::new() }
    }

    /// Settles all times up to `done`; never moves back.
    pub(super) fn advance_to(&mut self, done: Timestamp) {
        self.done = self.done.max(done);
    }

    /// Adjusts the progress to the clock. Returns whether the clock went back so far that the schedule restarts.
    pub(super) fn on_clock(&mut self, now: Timestamp) -> bool {
        let passed = self.ahead.partition_point(|sample| *sample <= now);
        let latest = self.ahead.drain(..passed).next_back();
        self.done = latest.map_or(self.done, |sample| sample.max(self.done));
        let went_back = self.done > now.saturating_add(MAX_CLOCK_AHEAD);
        if went_back {
            let index = self.ahead.partition_point(|sample| *sample < self.done);
            self.ahead.insert(index, self.done);
            self.ahead.dedup();
            self.ahead.truncate(MAX_CLOCK_SAMPLES);
            self.done = now;
        }
        went_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 60 * 60 * 1_000;
    const DAY: i64 = 24 * HOUR;

    /// The progress after the clock has shown these times.
    fn followed(clock: &[i64]) -> ScheduleProgress {
        let mut progress = ScheduleProgress::new("@daily UTC".into(), Timestamp(100 * DAY));
        for now in clock {
            progress.on_clock(Timestamp(*now));
            progress.advance_to(Timestamp(*now));
        }
        progress
    }

    #[test]
    fn correct_clock_or_small_setback_records_no_rollback() {
        for (clock, done) in [
            ([101 * DAY, 102 * DAY], 102 * DAY),
            ([101 * DAY, 101 * DAY - 23 * HOUR], 101 * DAY),
            ([100 * DAY - 23 * HOUR, 99 * DAY], 100 * DAY),
        ] {
            assert_eq!(followed(&clock), ScheduleProgress::new("@daily UTC".into(), Timestamp(done)), "{clock:?}");
        }
    }

    #[test]
    fn rolled_back_progress_counts_once_clock_catches_up() {
        let behind = followed(&[DAY, 2 * DAY]);
        assert_eq!((behind.done.0, behind.ahead.as_slice()), (2 * DAY, [Timestamp(100 * DAY)].as_slice()));
        let mut set = behind.clone();
        assert!(!set.on_clock(Timestamp(100 * DAY + HOUR)));
        assert_eq!((set.done.0, set.ahead), (100 * DAY, vec![]));
        let ahead = followed(&[10_000 * DAY, 101 * DAY, DAY, 102 * DAY]);
        assert_eq!((ahead.done.0, ahead.ahead), (102 * DAY, vec![Timestamp(10_000 * DAY)]));
    }

    #[test]
    fn rollbacks_are_persisted_and_old_progress_has_none() {
        let behind = followed(&[DAY]);
        let kept = serde_json::to_string(&behind).unwrap();
        assert_eq!(serde_json::from_str::<ScheduleProgress>(&kept).unwrap(), behind);
        let before = serde_json::json!({ "rhythm": "@daily UTC", "done": 7 });
        let read: ScheduleProgress = serde_json::from_value(before.clone()).unwrap();
        assert_eq!(read, ScheduleProgress::new("@daily UTC".into(), Timestamp(7)));
        assert_eq!(serde_json::to_value(read).unwrap(), before);
    }

    #[test]
    fn repeated_clock_rollbacks_are_bounded_and_sorted() {
        let clock: Vec<i64> = (0..20).flat_map(|n| [(2_000 - 100 * n) * DAY, 0]).collect();
        let marks = followed(&clock).ahead;
        assert_eq!(marks.len(), MAX_CLOCK_SAMPLES);
        assert!(marks.is_sorted() && marks[0] == Timestamp(100 * DAY), "{marks:?}");
    }
}
