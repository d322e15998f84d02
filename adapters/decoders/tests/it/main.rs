//! The host's half: what the ports promise, with workers that are shell scripts, obedient and not.
#![expect(clippy::unwrap_used, reason = "tests")]

mod cache;
mod contract;
mod images;
mod recognition;
mod slots;
mod sound;
mod stub_worker;
