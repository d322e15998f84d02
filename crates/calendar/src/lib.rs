//! The calendar: time zones, points in time as people and models write them, and cron expressions. Pure.
//!
//! What runs at set times is decided here alone, for the schedules of the configuration and for reminders; the caller passes
//! the present time in.

#[cfg(feature = "cron")]
pub mod cron;
mod written_time;
mod zone;

pub use written_time::{MAX_DAYS_AHEAD, TimeError, WrittenTime};
pub use zone::Zone;
