//! When a schedule is due: its cron expression in its time zone. Pure.
//!
//! Daylight saving time skips some local times and repeats others. A skipped time is due at the end of the gap, a
//! repeated one at its first occurrence. An expression that matches every hour counts in real time instead: a run every
//! ten minutes continues in the repeated hour, and has no extra runs for a skipped one.

use std::{iter::successors, time::Duration};

use croner::{
    Cron, CronDateTime,
    errors::CronError,
    parser::{CronParser, Year},
};
use jiff::{
    SignedDuration, Zoned,
    civil::{DateTime, date},
    tz::{AmbiguousOffset, TimeZone},
};
use satchel_domain::Timestamp;
use serde::{Deserialize, Serialize};

/// How many missed runs are caught up at most.
const MAX_CATCH_UP_RUNS: usize = 24;

/// A run that is noticed this late was missed. The scheduler checks the clock twice as often.
const MISSED_AFTER: Duration = Duration::from_secs(60);

/// The longest expression that is accepted.
const MAX_EXPRESSION_BYTES: usize = 200;

/// A cron expression in a time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSchedule {
    expression: String,
    cron: Cron,
    zone: TimeZone,
    /// Whether it names every hour of the day.
    hourly: bool,
}

/// Why a cron expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseCronError(String);

/// What happens to missed runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// The last one runs late.
    RunOnce,
    Skip,
    /// The last 24 run late.
    RunAll,
}

/// The times that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTimes {
    /// The times to run for, in order.
    pub run: Vec<Timestamp>,
    /// The latest due time; everything up to it is settled by these runs.
    pub latest: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchDirection {
    Forward,
    Backward,
}

impl CronSchedule {
    /// Reads a cron expression of five fields, of six with the seconds in front, or a name such as `@daily`.
    ///
    /// # Errors
    /// When it is invalid, or never matches.
    pub fn parse(expression: &str, zone: TimeZone) -> Result<Self, ParseCronError> {
        let expression = expression.trim().to_owned();
        if expression.len() > MAX_EXPRESSION_BYTES {
            return Err(ParseCronError(format!("it is longer than {MAX_EXPRESSION_BYTES} characters")));
        }
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let cron = parser.parse(&expression).map_err(|error| ParseCronError(describe_error(error)))?;
        // The calendar repeats itself, so it doesn't matter from when on the first time is looked for.
        if cron.find_next_occurrence(&date(2000, 1, 1).at(0, 0, 0, 0), true).is_err() {
            return Err(ParseCronError("such a day never comes".to_owned()));
        }
        let hourly = (0..24).all(|hour| cron.pattern.hour_match(hour).unwrap_or(false));
        Ok(Self { expression, cron, zone, hourly })
    }

    /// The first time after `after`; `None` at the end of all calendars.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.times(after, SearchDirection::Forward).find(|time| *time > after)
    }

    /// The times that became due after `after` and up to `now`; `None` if there are none.
    #[must_use]
    pub fn due_between(&self, after: Timestamp, now: Timestamp, missed: MissedPolicy) -> Option<DueTimes> {
        let max_count = match missed {
            MissedPolicy::RunOnce | MissedPolicy::Skip => 1,
            MissedPolicy::RunAll => MAX_CATCH_UP_RUNS,
        };
        let mut run = self.last_times(after, now, max_count);
        let latest = *run.last()?;
        if missed == MissedPolicy::Skip && now.saturating_duration_since(latest) > MISSED_AFTER {
            run.clear();
        }
        Some(DueTimes { run, latest })
    }

    /// Returns the shortest time between two of the first `count` times after `after`; `None` if there are not two.
    #[must_use]
    pub fn shortest_interval(&self, after: Timestamp, count: usize) -> Option<Duration> {
        let times: Vec<Timestamp> = self.times(after, SearchDirection::Forward).take(count).collect();
        times.windows(2).map(|pair| pair[1].saturating_duration_since(pair[0])).min()
    }

    /// Formats a time in the schedule's zone.
    #[must_use]
    pub fn format_local(&self, time: Timestamp) -> String {
        let Some(zoned) = self.zoned(time) else { return String::new() };
        let format = if zoned.second() == 0 { "%Y-%m-%d %H:%M %Q" } else { "%Y-%m-%d %H:%M:%S %Q" };
        zoned.strftime(format).to_string()
    }

    /// The last `max_count` times after `after` up to `until`, in order. Searches backwards, because the clock of a
    /// machine without a battery may jump by fifty years.
    fn last_times(&self, after: Timestamp, until: Timestamp, max_count: usize) -> Vec<Timestamp> {
        let times = self.times(until, SearchDirection::Backward).skip_while(|time| *time > until);
        let mut last: Vec<Timestamp> = Vec::new();
        for time in times.take_while(|time| *time > after) {
            if last.len() == max_count {
                break;
            }
            // All times in a gap are due at its end, once.
            if last.last() != Some(&time) {
                last.push(time);
            }
        }
        last.reverse();
        last
    }

    /// The times from `from` forwards or backwards, possibly with a few on the other side of it and with duplicates.
    fn times(&self, from: Timestamp, direction: SearchDirection) -> Box<dyn Iterator<Item = Timestamp> + '_> {
        let Some(from) = self.zoned(from) else { return Box::new(std::iter::empty()) };
        if self.hourly {
            return Box::new(self.occurrences(from, direction).map(|time| to_timestamp(&time)));
        }
        let mut clock = from.datetime();
        // In the second of two repeated hours, the end of the first one is ahead on the clock.
        if let (SearchDirection::Backward, AmbiguousOffset::Fold { before, after }) =
            (direction, self.zone.to_ambiguous_timestamp(clock).offset())
        {
            let overlap = SignedDuration::from_secs(i64::from(before.seconds() - after.seconds()));
            clock = clock.saturating_add(overlap);
        }
        Box::new(self.occurrences(clock, direction).map_while(|clock| self.first_instant(clock)))
    }

    /// Where the expression matches, from `from` forwards or backwards.
    fn occurrences<T: CronDateTime + Clone>(&self, from: T, direction: SearchDirection) -> impl Iterator<Item = T> {
        let find = move |from: &T, inclusive: bool| match direction {
            SearchDirection::Forward => self.cron.find_next_occurrence(from, inclusive).ok(),
            SearchDirection::Backward => self.cron.find_previous_occurrence(from, inclusive).ok(),
        };
        successors(find(&from, true), move |found| find(found, false))
    }

    /// The first instant of a local time, or the end of the gap that skips it.
    fn first_instant(&self, clock: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(clock);
        let earlier = ambiguous.earlier().ok()?;
        let instant = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => earlier,
            AmbiguousOffset::Gap { .. } => self.zone.following(earlier).next()?.timestamp(),
        };
        Some(Timestamp(instant.as_millisecond()))
    }

    /// A time on the clocks of the zone, in whole seconds.
    fn zoned(&self, time: Timestamp) -> Option<Zoned> {
        let seconds = jiff::Timestamp::from_second(time.0.div_euclid(1_000)).ok()?;
        Some(seconds.to_zoned(self.zone.clone()))
    }
}

/// The expression and its zone.
impl std::fmt::Display for CronSchedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let zone = self.zone.iana_name().unwrap_or("the machine's own time");
        write!(f, "{} {zone}", self.expression)
    }
}

fn to_timestamp(time: &Zoned) -> Timestamp {
    Timestamp(time.timestamp().as_millisecond())
}

/// The parser's error as text for people.
fn describe_error(error: CronError) -> String {
    match error {
        CronError::InvalidPattern(_) => {
            "it has five fields (minute, hour, day of the month, month, day of the week), or six with the seconds in front"
                .to_owned()
        }
        CronError::IllegalCharacters(reason) | CronError::ComponentError(reason) => {
            let reason = reason.trim_start_matches("CronPattern ").trim_end_matches('.');
            let mut chars = reason.chars();
            let first = chars.next().map(|c| c.to_ascii_lowercase());
            first.into_iter().chain(chars).collect()
        }
        CronError::EmptyPattern => "it is empty".to_owned(),
        CronError::InvalidDate | CronError::InvalidTime | CronError::TimeSearchLimitExceeded => {
            "such a day never comes".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
