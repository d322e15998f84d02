//! A time zone, and how its people read a point in time.

use jiff::{Zoned, tz::TimeZone};
use satchel_domain::Timestamp;

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl From<TimeZone> for Zone {
    fn from(zone: TimeZone) -> Self {
        Self(zone)
    }
}

impl Zone {
    /// Finds a zone by its name, such as `Europe/Berlin`, in upper or lower case.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some()).map(Self)
    }

    /// Finds the zone that was chosen by its name; the default where none was chosen, or where there is none of that name.
    #[must_use]
    pub fn find_or(chosen: Option<&str>, default: &Self) -> Self {
        chosen.and_then(Self::find).unwrap_or_else(|| default.clone())
    }

    /// Its name; `None` of a machine's zone that has none.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.iana_name()
    }

    /// Its name for people.
    #[must_use]
    pub fn title(&self) -> &str {
        self.name().unwrap_or("the machine's own time")
    }

    #[must_use]
    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }

    /// Formats a time for people, with its weekday and zone.
    #[must_use]
    pub fn describe(&self, time: Timestamp) -> String {
        let Some(zoned) = self.zoned(time) else { return String::new() };
        let clock = if zoned.second() == 0 { "%A %Y-%m-%d at %H:%M" } else { "%A %Y-%m-%d at %H:%M:%S" };
        format!("{} ({})", zoned.strftime(clock), self.title())
    }

    /// Formats a time for a line of a list, to the minute.
    #[must_use]
    pub fn format_minute(&self, time: Timestamp) -> String {
        self.zoned(time).map_or_else(String::new, |zoned| zoned.strftime("%Y-%m-%d %H:%M").to_string())
    }

    /// Formats a time as ISO 8601 with its offset, in whole seconds.
    #[must_use]
    pub fn to_iso(&self, time: Timestamp) -> String {
        self.zoned(time).map_or_else(String::new, |zoned| zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
    }

    /// A time on the clocks of the zone, in whole seconds.
    pub(crate) fn zoned(&self, time: Timestamp) -> Option<Zoned> {
        let seconds = jiff::Timestamp::from_second(time.0.div_euclid(1_000)).ok()?;
        Some(seconds.to_zoned(self.0.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_described_in_its_zone() {
        let berlin = Zone::find("europe/berlin").unwrap();
        assert_eq!(berlin.name(), Some("Europe/Berlin"));
        let winter = Timestamp(1_796_405_400_000);
        assert_eq!(berlin.describe(winter), "Friday 2026-12-04 at 18:30 (Europe/Berlin)");
        assert_eq!(berlin.format_minute(winter), "2026-12-04 18:30");
        assert_eq!(berlin.to_iso(winter), "2026-12-04T18:30:00+01:00");
        let utc = Zone::from(TimeZone::UTC);
        assert_eq!(utc.describe(Timestamp(winter.0 + 20_500)), "Friday 2026-12-04 at 17:30:20 (UTC)");
        assert_eq!((Zone::find_or(Some("Europe/Berlin"), &utc), Zone::find_or(None, &utc)), (berlin, utc.clone()));
        let unnamed = Zone::from(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        assert_eq!(unnamed.describe(winter), "Friday 2026-12-04 at 18:30 (the machine's own time)");
        for unknown in ["", "Berlin", "../../etc/passwd", "CET-1CEST,M3.5.0,M10.5.0/3", "Etc/Unknown"] {
            assert_eq!(Zone::find(unknown), None, "{unknown}");
            assert_eq!(Zone::find_or(Some(unknown), &utc), utc);
        }
    }
}
