//! By whose clocks this machine lives.

use jiff::tz::TimeZone;

/// The zone of this machine (`TZ`, or what its system is set to), or UTC where that isn't known.
#[must_use]
pub fn machine_zone() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}
