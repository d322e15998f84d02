//! The worker as Satchel uses it: started by the host's own code, for real files and hostile ones.
#![expect(clippy::unwrap_used, reason = "tests")]

mod corpus;
mod documents;
#[path = "../../src/fixtures.rs"]
mod fixtures;
mod harness;
mod hostile;
#[path = "../../src/image_fixtures.rs"]
mod image_fixtures;
mod images;
mod sound;
#[path = "../../src/sound_fixtures.rs"]
mod sound_fixtures;
mod worker;
