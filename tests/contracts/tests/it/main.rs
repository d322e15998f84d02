//! The suites against channels that nobody ships, for promises that no shipped one can break.

#![expect(clippy::unwrap_used, reason = "what fails ends the test")]

mod gaps;
mod keyed_channel;
