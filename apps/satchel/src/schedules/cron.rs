//! When a schedule is due: its cron expression by the clocks of its time zone. Pure.
//!
//! Twice a year these clocks jump. A time of day that is skipped comes when the clocks have jumped, one that is there
//! twice comes at the first. Only where an expression names every hour does each real hour count: what happens every ten
//! minutes goes on in the hour that is there twice, and makes up for nothing in one that isn't there.

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

/// How many missed times are made up for, at most.
const MAX_CATCH_UP_RUNS: usize = 24;

/// A time that was noticed this late was missed. Whoever waits for it looks at the clock twice as often.
const MISSED_AFTER: Duration = Duration::from_secs(60);

/// No expression that somebody means is longer than this.
const LONGEST_EXPRESSION: usize = 200;

/// The times at which something happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronSchedule {
    expression: String,
    cron: Cron,
    zone: TimeZone,
    /// Whether it names every hour of the day.
    hourly: bool,
}

/// What an expression lacks to be a rhythm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseCronError(String);

/// What becomes of times that came while nobody was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// The last of them is made up for.
    RunOnce,
    Skip,
    /// The last two dozen are made up for.
    RunAll,
}

/// The times that have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueTimes {
    /// Those at which it is to happen, in order.
    pub run: Vec<Timestamp>,
    /// The last that has come; all up to here is dealt with by this.
    pub reached: Timestamp,
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
    /// When it is none, or describes a time that never comes.
    pub fn parse(expression: &str, zone: TimeZone) -> Result<Self, ParseCronError> {
        let expression = expression.trim().to_owned();
        if expression.len() > LONGEST_EXPRESSION {
            return Err(ParseCronError(format!("it is longer than {LONGEST_EXPRESSION} characters")));
        }
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let cron = parser.parse(&expression).map_err(|error| ParseCronError(reason(error)))?;
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

    /// What has come after `after` up to `now`, and what of it is to happen; `None` when nothing has come.
    #[must_use]
    pub fn due_between(&self, after: Timestamp, now: Timestamp, missed: MissedPolicy) -> Option<DueTimes> {
        let most = match missed {
            MissedPolicy::RunOnce | MissedPolicy::Skip => 1,
            MissedPolicy::RunAll => MAX_CATCH_UP_RUNS,
        };
        let mut run = self.last(after, now, most);
        let reached = *run.last()?;
        if missed == MissedPolicy::Skip && now.saturating_duration_since(reached) > MISSED_AFTER {
            run.clear();
        }
        Some(DueTimes { run, reached })
    }

    /// A time as people of the zone write it.
    #[must_use]
    pub fn format_local(&self, time: Timestamp) -> String {
        let Some(zoned) = self.zoned(time) else { return String::new() };
        let form = if zoned.second() == 0 { "%Y-%m-%d %H:%M %Q" } else { "%Y-%m-%d %H:%M:%S %Q" };
        zoned.strftime(form).to_string()
    }

    /// The last `most` times after `after` up to `until`, in order. They are looked for from the end, because the clock
    /// of a machine without a battery may have jumped over fifty years.
    fn last(&self, after: Timestamp, until: Timestamp, most: usize) -> Vec<Timestamp> {
        let times = self.times(until, SearchDirection::Backward).skip_while(|time| *time > until);
        let mut last: Vec<Timestamp> = Vec::new();
        for time in times.take_while(|time| *time > after) {
            if last.len() == most {
                break;
            }
            // What the clocks jumped over comes at one moment, and once.
            if last.last() != Some(&time) {
                last.push(time);
            }
        }
        last.reverse();
        last
    }

    /// The times from `from` on or back, perhaps with a few on the other side of it, and with repeats.
    fn times(&self, from: Timestamp, direction: SearchDirection) -> Box<dyn Iterator<Item = Timestamp> + '_> {
        let Some(from) = self.zoned(from) else { return Box::new(std::iter::empty()) };
        if self.hourly {
            return Box::new(self.walk(from, direction).map(|time| milliseconds(&time)));
        }
        let mut clock = from.datetime();
        // Seen from the second of two hours, the end of the first lies ahead on the clock.
        if let (SearchDirection::Backward, AmbiguousOffset::Fold { before, after }) =
            (direction, self.zone.to_ambiguous_timestamp(clock).offset())
        {
            let again = SignedDuration::from_secs(i64::from(before.seconds() - after.seconds()));
            clock = clock.saturating_add(again);
        }
        Box::new(self.walk(clock, direction).map_while(|clock| self.moment(clock)))
    }

    /// Where the expression matches, from `from` on or back.
    fn walk<T: CronDateTime + Clone>(&self, from: T, direction: SearchDirection) -> impl Iterator<Item = T> {
        let find = move |from: &T, inclusive: bool| match direction {
            SearchDirection::Forward => self.cron.find_next_occurrence(from, inclusive).ok(),
            SearchDirection::Backward => self.cron.find_previous_occurrence(from, inclusive).ok(),
        };
        successors(find(&from, true), move |found| find(found, false))
    }

    /// When the clocks of the zone show this for the first time, or have jumped over it.
    fn moment(&self, clock: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(clock);
        let earlier = ambiguous.earlier().ok()?;
        let moment = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => earlier,
            AmbiguousOffset::Gap { .. } => self.zone.following(earlier).next()?.timestamp(),
        };
        Some(Timestamp(moment.as_millisecond()))
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

fn milliseconds(time: &Zoned) -> Timestamp {
    Timestamp(time.timestamp().as_millisecond())
}

/// The library's complaint without the words for its own callers.
fn reason(error: CronError) -> String {
    match error {
        CronError::InvalidPattern(_) => {
            "it has five fields (minute, hour, day of the month, month, day of the week), or six with the seconds in front"
                .to_owned()
        }
        CronError::IllegalCharacters(reason) | CronError::ComponentError(reason) => {
            let reason = reason.trim_start_matches("CronPattern ").trim_end_matches('.');
            let mut letters = reason.chars();
            let first = letters.next().map(|letter| letter.to_ascii_lowercase());
            first.into_iter().chain(letters).collect()
        }
        CronError::EmptyPattern => "it is empty".to_owned(),
        CronError::InvalidDate | CronError::InvalidTime | CronError::TimeSearchLimitExceeded => {
            "such a day never comes".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
