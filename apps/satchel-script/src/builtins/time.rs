//! The time, always in UTC: as text in ISO 8601, which scripts concatenate, and as seconds, which they compute with.

use jiff::{SignedDuration, Timestamp, civil, fmt::strtime, tz::TimeZone};
use starlark::{environment::GlobalsBuilder, starlark_module};

use crate::errors::script_error;

/// Formats a time, to the second.
fn format_time(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Parses a time: with an offset or `Z`, otherwise in UTC; a date means its start.
fn parse_time(text: &str) -> Result<Timestamp, String> {
    let text = text.trim();
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment);
    }
    text.parse::<civil::DateTime>()
        .and_then(|moment| moment.to_zoned(TimeZone::UTC))
        .map(|moment| moment.timestamp())
        .map_err(|_| format!("{text:?} is no time such as \"2026-11-22T12:00:00Z\" or \"2026-11-22\""))
}

fn time_from_seconds(seconds: i64) -> Result<Timestamp, String> {
    Timestamp::from_second(seconds).map_err(|_| format!("{seconds} seconds are out of the calendar's range"))
}

#[starlark_module]
pub(super) fn functions(builder: &mut GlobalsBuilder) {
    /// Now, such as `2026-11-22T12:00:00Z`.
    fn time_now() -> starlark::Result<String> {
        Ok(format_time(Timestamp::now()))
    }

    /// Now, in seconds since 1970.
    fn time_unix() -> starlark::Result<i64> {
        Ok(Timestamp::now().as_second())
    }

    /// The seconds since 1970 of the time that the text names.
    fn time_parse(text: &str) -> starlark::Result<i64> {
        // Rounds towards the past, also before 1970.
        let moment = parse_time(text).map_err(script_error)?;
        Ok(moment.as_second() - i64::from(moment.subsec_nanosecond() < 0))
    }

    /// Formats seconds since 1970 with a `strftime` format.
    fn time_format(seconds: i64, #[starlark(default = "%Y-%m-%dT%H:%M:%SZ")] format: &str) -> starlark::Result<String> {
        let moment = time_from_seconds(seconds).map_err(script_error)?;
        strtime::format(format, &moment.to_zoned(TimeZone::UTC))
            .map_err(|error| script_error(format!("the format {format:?} can't be used: {error}")))
    }

    /// Adds a duration to the time that the text names.
    fn time_add(
        text: &str,
        #[starlark(default = 0)] days: i64,
        #[starlark(default = 0)] hours: i64,
        #[starlark(default = 0)] minutes: i64,
        #[starlark(default = 0)] seconds: i64,
    ) -> starlark::Result<String> {
        let add = |moment: Timestamp| {
            let seconds = [(days, 86_400), (hours, 3_600), (minutes, 60), (seconds, 1)]
                .into_iter()
                .try_fold(0_i64, |sum, (count, each)| sum.checked_add(count.checked_mul(each)?))?;
            moment.checked_add(SignedDuration::from_secs(seconds)).ok()
        };
        let moment = add(parse_time(text).map_err(script_error)?);
        moment.map(format_time).ok_or_else(|| script_error("the time is out of the calendar's range"))
    }
}
