//! The host's half: what the port promises, with workers that are shell scripts, obedient and not.
#![expect(clippy::unwrap_used, reason = "tests")]

mod contract;
mod stub_worker;
