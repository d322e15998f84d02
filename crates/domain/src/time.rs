//! Time as a plain number that callers pass in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment in UTC, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The moment `after` this one; the far end of time instead of an overflow.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long this moment lies after `earlier`; zero when it doesn't.
    #[must_use]
    pub fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Writes the minute in UTC as ISO 8601, `2026-12-24T18:30Z`; `None` outside of the years 0 to 9999.
    #[must_use]
    pub fn to_utc_minute(self) -> Option<String> {
        let minutes = self.0.div_euclid(60_000);
        let (days, minute) = (minutes.div_euclid(1_440), minutes.rem_euclid(1_440));
        // Counted from 0000-03-01 in eras of 400 years, so that a leap day is the last day of its year.
        let days = days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        let is_writable = (0..=9_999).contains(&year);
        is_writable.then(|| format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}Z", minute / 60, minute % 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minute_is_written_in_utc() {
        for (seconds, written) in [
            (0, Some("1970-01-01T00:00Z")),
            (-1, Some("1969-12-31T23:59Z")),
            (951_782_399, Some("2000-02-28T23:59Z")),
            (951_782_400, Some("2000-02-29T00:00Z")),
            (951_868_800, Some("2000-03-01T00:00Z")),
            (1_700_000_000, Some("2023-11-14T22:13Z")),
            (4_107_542_400, Some("2100-03-01T00:00Z")),
            (253_402_300_799, Some("9999-12-31T23:59Z")),
            (253_402_300_800, None),
            (-62_167_219_200, Some("0000-01-01T00:00Z")),
            (-62_167_219_201, None),
        ] {
            assert_eq!(Timestamp(seconds * 1_000).to_utc_minute().as_deref(), written, "{seconds}");
        }
        assert_eq!((Timestamp(i64::MAX).to_utc_minute(), Timestamp(i64::MIN).to_utc_minute()), (None, None));
    }
}
