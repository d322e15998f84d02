//! The suites against test channels, for promises that no shipped channel can break.

#![expect(clippy::unwrap_used, reason = "what fails ends the test")]

mod gaps;
mod keyed_channel;
