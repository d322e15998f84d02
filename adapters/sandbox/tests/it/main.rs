//! The sandbox: the contracts of the files beneath it and of the workspace above it, and guests that misbehave.

#![expect(clippy::unwrap_used, reason = "what fails ends the test")]

mod differential;
mod hostile;
mod runner;
mod workspace;
mod workspace_faults;
