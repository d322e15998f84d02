//! Points in time as people write them behind `/remind`, and as models write them in ISO 8601.
//!
//! Daylight saving time skips some local times, which are refused, and repeats others, of which the first one counts.

use jiff::{
    SignedDuration, ToSpan,
    civil::{Date, DateTime, Time},
    tz::AmbiguousOffset,
};
use satchel_domain::Timestamp;

use crate::Zone;

/// The furthest time that is accepted, in days: ten years.
pub const MAX_DAYS_AHEAD: i64 = 3_653;

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// The longest number in a delay, so that no sum overflows.
const MAX_DIGITS: usize = 9;

/// A point in time that somebody wrote, whatever the time is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenTime {
    /// After a while. A day later the clock shows the same time.
    Delay { days: i64, seconds: i64 },
    /// The next time that a clock shows this.
    Clock(Time),
    /// A date and time on the clocks of the person's zone.
    Local(DateTime),
    /// A date and time with its offset.
    Instant(jiff::Timestamp),
}

/// Why nothing can happen at a time, as text for people and models.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("that time has passed: it is {now} now")]
    Past {
        /// As people of the zone write it.
        now: String,
    },
    #[error("that is too far ahead: the furthest is ten years from now")]
    TooFar,
    #[error("there is no {clock} in {zone}: the clocks go forward then. Choose another time")]
    Skipped { clock: String, zone: String },
}

impl WrittenTime {
    /// Reads a time at the beginning of a text, and returns what follows it: `18:30 …`, `in 20m …`, `in 1 hour …`,
    /// `2026-12-04 18:30 …` or `2026-12-04T18:30+01:00 …`.
    #[must_use]
    pub fn parse(text: &str) -> Option<(Self, &str)> {
        let (word, rest) = split_word(text);
        if word.eq_ignore_ascii_case("in") {
            return parse_delay(rest);
        }
        if let Some(time) = parse_clock(word) {
            return Some((Self::Clock(time), rest));
        }
        if let Some(time) = Self::parse_iso(word) {
            return Some((time, rest));
        }
        let date: Date = word.parse().ok()?;
        let (word, rest) = split_word(rest);
        Some((Self::Local(date.to_datetime(parse_clock(word)?)), rest))
    }

    /// Reads a date and time in ISO 8601, with an offset or without one. A date alone is none.
    #[must_use]
    pub fn parse_iso(text: &str) -> Option<Self> {
        let text = text.trim();
        // Zones in brackets are no part of ISO 8601.
        if text.contains('[') || !text.contains(['T', 't', ' ']) {
            return None;
        }
        let instant = text.parse().map(Self::Instant);
        instant.or_else(|_| text.parse().map(Self::Local)).ok()
    }

    /// Finds the time, which must be ahead of `now`.
    ///
    /// # Errors
    /// When it has passed, is too far ahead, or is skipped by the clocks of the zone.
    pub fn resolve(self, now: Timestamp, zone: &Zone) -> Result<Timestamp, TimeError> {
        let present = zone.zoned(now).ok_or(TimeError::TooFar)?;
        let time = match self {
            Self::Delay { days, seconds } => {
                let is_far = days.saturating_add(seconds / DAY_SECONDS) > MAX_DAYS_AHEAD;
                let days = if is_far { return Err(TimeError::TooFar) } else { days.days() };
                let later =
                    present.checked_add(days).and_then(|later| later.checked_add(SignedDuration::from_secs(seconds)));
                later.map_err(|_| TimeError::TooFar)?.timestamp()
            }
            Self::Clock(time) => {
                let today = local_instant(present.date().to_datetime(time), zone);
                match today {
                    Ok(today) if today <= present.timestamp() => {
                        let tomorrow = present.date().tomorrow().map_err(|_| TimeError::TooFar)?;
                        local_instant(tomorrow.to_datetime(time), zone)?
                    }
                    today => today?,
                }
            }
            Self::Local(clock) => local_instant(clock, zone)?,
            Self::Instant(instant) => instant,
        };
        if time <= present.timestamp() {
            return Err(TimeError::Past { now: zone.describe(now) });
        }
        if time.duration_since(present.timestamp()) > SignedDuration::from_hours(24 * MAX_DAYS_AHEAD) {
            return Err(TimeError::TooFar);
        }
        Ok(Timestamp(time.as_millisecond()))
    }
}

/// The first instant of a local time.
fn local_instant(clock: DateTime, zone: &Zone) -> Result<jiff::Timestamp, TimeError> {
    let ambiguous = zone.time_zone().to_ambiguous_timestamp(clock);
    if let AmbiguousOffset::Gap { .. } = ambiguous.offset() {
        let clock = clock.strftime("%Y-%m-%d %H:%M").to_string();
        return Err(TimeError::Skipped { clock, zone: zone.title().to_owned() });
    }
    ambiguous.earlier().map_err(|_| TimeError::TooFar)
}

/// Splits off the first word.
fn split_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

/// Reads `9:05` or `18:30`.
fn parse_clock(word: &str) -> Option<Time> {
    let (hour, minute) = word.split_once(':')?;
    let is_number = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(hour, 1..=2) || !is_number(minute, 2..=2) {
        return None;
    }
    Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()
}

/// Reads `20m`, `1h30m`, `2 hours` and several of them.
fn parse_delay(text: &str) -> Option<(WrittenTime, &str)> {
    let (mut days, mut seconds): (i64, i64) = (0, 0);
    let mut rest = text;
    while let Some((amounts, after)) = parse_amounts(rest) {
        for (count, unit) in amounts {
            match unit {
                DelayUnit::Days(each) => days += count * each,
                DelayUnit::Seconds(each) => seconds += count * each,
            }
        }
        rest = after;
    }
    (rest.len() < text.len()).then_some((WrittenTime::Delay { days, seconds }, rest))
}

/// How long a unit of a delay is.
#[derive(Debug, Clone, Copy)]
enum DelayUnit {
    Days(i64),
    Seconds(i64),
}

impl DelayUnit {
    fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "s" | "sec" | "secs" | "second" | "seconds" => Self::Seconds(1),
            "m" | "min" | "mins" | "minute" | "minutes" => Self::Seconds(60),
            "h" | "hr" | "hrs" | "hour" | "hours" => Self::Seconds(60 * 60),
            "d" | "day" | "days" => Self::Days(1),
            "w" | "week" | "weeks" => Self::Days(7),
            _ => return None,
        })
    }
}

/// Reads the amounts of the first word, or of a number and the unit behind it, and returns what follows them.
fn parse_amounts(text: &str) -> Option<(Vec<(i64, DelayUnit)>, &str)> {
    let (word, rest) = split_word(text);
    if !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()) {
        let (unit, rest) = split_word(rest);
        return Some((vec![(parse_count(word)?, DelayUnit::parse(unit)?)], rest));
    }
    let mut amounts = Vec::new();
    let mut left = word;
    while !left.is_empty() {
        let digits = left.bytes().take_while(u8::is_ascii_digit).count();
        let (count, after) = left.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        amounts.push((parse_count(count)?, DelayUnit::parse(unit)?));
        left = after;
    }
    (!amounts.is_empty()).then_some((amounts, rest))
}

fn parse_count(digits: &str) -> Option<i64> {
    (digits.len() <= MAX_DIGITS).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(time: &str) -> Timestamp {
        Timestamp(time.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    fn berlin() -> Zone {
        Zone::find("Europe/Berlin").unwrap()
    }

    /// When a text is due if it is written at a time, and what follows the time.
    fn resolved(text: &str, now: &str) -> (Result<String, String>, String) {
        let (time, rest) = WrittenTime::parse(text).unwrap_or_else(|| panic!("{text} has a time"));
        let due = time.resolve(at(now), &berlin()).map(|due| berlin().to_iso(due)).map_err(|error| error.to_string());
        (due, rest.to_owned())
    }

    #[rstest]
    #[case::later_today("18:30 call mum", "2026-12-04T18:30:00+01:00", "call mum")]
    #[case::tomorrow("9:05 call mum", "2026-12-05T09:05:00+01:00", "call mum")]
    #[case::the_present_minute("12:00 x", "2026-12-05T12:00:00+01:00", "x")]
    #[case::delay("in 20m tea", "2026-12-04T12:20:05+01:00", "tea")]
    #[case::long_delay("IN 1h30m tea  time", "2026-12-04T13:30:05+01:00", "tea  time")]
    #[case::units_in_words("in 2 hours 5 minutes 3 apples", "2026-12-04T14:05:05+01:00", "3 apples")]
    #[case::days("in 1w 1d x", "2026-12-12T12:00:05+01:00", "x")]
    #[case::date_and_time("2026-12-24 18:30 carols", "2026-12-24T18:30:00+01:00", "carols")]
    #[case::iso("2026-12-24T18:30 carols", "2026-12-24T18:30:00+01:00", "carols")]
    #[case::iso_with_offset("2026-12-24T18:30+09:00 x", "2026-12-24T10:30:00+01:00", "x")]
    #[case::iso_in_utc("2026-12-24T18:30:15Z x", "2026-12-24T19:30:15+01:00", "x")]
    #[case::in_summer("2027-07-01 08:00\nlines\nstay", "2027-07-01T08:00:00+02:00", "lines\nstay")]
    fn written_time_is_found(#[case] text: &str, #[case] due: &str, #[case] rest: &str) {
        assert_eq!(resolved(text, "2026-12-04T12:00:05+01:00"), (Ok(due.to_owned()), rest.to_owned()));
    }

    #[rstest]
    #[case("tomorrow at 9 call mum")]
    #[case("")]
    #[case("in")]
    #[case("in a minute")]
    #[case("in 20 apples")]
    #[case("in 9999999999m x")]
    #[case("in -5m x")]
    #[case("25:00 x")]
    #[case("18:3 x")]
    #[case("2026-12-24 carols")]
    #[case("2026-02-30 10:00 x")]
    #[case("2026-12-24T18:30[Europe/Berlin] x")]
    #[case("１８:30 x")]
    fn other_wording_is_no_time(#[case] text: &str) {
        assert_eq!(WrittenTime::parse(text), None);
    }

    #[rstest]
    #[case::past("2026-12-04 11:59 x", "that time has passed: it is Friday 2026-12-04 at 12:00 (Europe/Berlin) now")]
    #[case::now("in 0m x", "that time has passed")]
    #[case::year_9999("9999-12-31 23:59 x", "that is too far ahead: the furthest is ten years from now")]
    #[case::year_9999_with_offset("9999-12-31T23:59+00:00 x", "that is too far ahead")]
    #[case::eleven_years("2037-12-05 10:00 x", "that is too far ahead")]
    #[case::long_delay("in 999999999w x", "that is too far ahead")]
    #[case::seconds("in 999999999h x", "that is too far ahead")]
    #[case::gap("2027-03-28 02:30 x", "there is no 2027-03-28 02:30 in Europe/Berlin: the clocks go forward then")]
    fn impossible_time_is_an_error(#[case] text: &str, #[case] says: &str) {
        let error = resolved(text, "2026-12-04T12:00:00+01:00").0.unwrap_err();
        assert!(error.starts_with(says), "{error}");
    }

    #[test]
    fn changes_of_the_clock_are_followed() {
        // The night in which 02:00 becomes 03:00, and the one in which 03:00 becomes 02:00.
        let (spring, autumn) = ("2027-03-27T12:00:00+01:00", "2027-10-30T12:00:00+02:00");
        let due = |text: &str, now: &str| resolved(text, now).0.unwrap();
        assert_eq!(due("in 1d x", spring), "2027-03-28T12:00:00+02:00", "the clock shows the same");
        assert_eq!(due("in 24h x", spring), "2027-03-28T13:00:00+02:00", "a day of real time");
        assert_eq!(due("2027-10-31 02:30 x", autumn), "2027-10-31T02:30:00+02:00", "the first of two");
        let gap = resolved("02:30 x", spring).0.unwrap_err();
        assert!(gap.starts_with("there is no 2027-03-28 02:30"), "{gap}");
        let between = "2027-10-31T02:40:00+02:00";
        assert_eq!(due("02:30 x", between), "2027-11-01T02:30:00+01:00", "what was repeated has been");
    }
}
