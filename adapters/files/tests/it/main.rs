//! The adapter against the contracts of its ports, and what only a disk can do to it.

#![expect(clippy::unwrap_used, reason = "what fails ends the test")]

mod blobs;
mod memory_blobs;
mod native_runner;
mod workspace;
mod workspace_faults;
