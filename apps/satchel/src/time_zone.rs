//! The time zone of this machine.

use jiff::tz::TimeZone;

/// The time zone of this machine (`TZ`, or the system's setting), or UTC if it is unknown.
#[must_use]
pub fn machine_zone() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}
