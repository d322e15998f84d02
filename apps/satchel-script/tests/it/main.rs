//! Tests of the real program over its pipes, as its host uses it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says best by failing what it did not expect")]

mod bombs;
mod builtins;
mod conversation;
mod dialect;
mod examples;
mod failures;
mod formats;
mod worker;
