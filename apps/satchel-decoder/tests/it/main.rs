//! The worker as Satchel uses it: started by the host's own code, for real documents and hostile ones.
#![expect(clippy::unwrap_used, reason = "tests")]

mod documents;
#[path = "../../src/fixtures.rs"]
mod fixtures;
mod harness;
mod hostile;
mod worker;
