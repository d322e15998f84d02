//! How far a schedule has come, and what a wrong clock does to that. Pure.

use std::time::Duration;

use satchel_domain::Timestamp;
use serde::{Deserialize, Serialize};

/// Further ahead of the clock than this nothing can have been done: the clock was wrong then, or it is wrong now.
const MAX_CLOCK_AHEAD: Duration = Duration::from_secs(24 * 60 * 60);

/// A clock that is wrong more often than this is never right.
const MAX_CLOCK_SAMPLES: usize = 8;

/// How far a schedule has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScheduleProgress {
    /// By which expression and zone. Of another one nothing can have been missed yet.
    pub(super) rhythm: String,
    /// Up to when all of its times are dealt with.
    pub(super) done: Timestamp,
    /// How far it had come by clocks that showed a later day, in order. Nobody knows which of the clocks was wrong; once
    /// the present one shows such a day too, all is dealt with up to there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ahead: Vec<Timestamp>,
}

impl ScheduleProgress {
    /// Of a rhythm of which all is dealt with up to `done`.
    pub(super) fn new(rhythm: String, done: Timestamp) -> Self {
        Self { rhythm, done, ahead: Vec::new() }
    }

    /// All is dealt with up to `done`, and whatever was before.
    pub(super) fn reach(&mut self, done: Timestamp) {
        self.done = self.done.max(done);
    }

    /// Goes by what the clock shows now. Tells whether it went back so far that all begins anew.
    pub(super) fn on_clock(&mut self, now: Timestamp) -> bool {
        let shown_again = self.ahead.partition_point(|mark| *mark <= now);
        let latest = self.ahead.drain(..shown_again).next_back();
        self.done = latest.map_or(self.done, |mark| mark.max(self.done));
        let anew = self.done > now.saturating_add(MAX_CLOCK_AHEAD);
        if anew {
            let at = self.ahead.partition_point(|mark| *mark < self.done);
            self.ahead.insert(at, self.done);
            self.ahead.dedup();
            self.ahead.truncate(MAX_CLOCK_SAMPLES);
            self.done = now;
        }
        anew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 60 * 60 * 1_000;
    const DAY: i64 = 24 * HOUR;

    /// What becomes of it while the clock shows one time after the other.
    fn followed(clock: &[i64]) -> ScheduleProgress {
        let mut progress = ScheduleProgress::new("@daily UTC".into(), Timestamp(100 * DAY));
        for now in clock {
            progress.on_clock(Timestamp(*now));
            progress.reach(Timestamp(*now));
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
