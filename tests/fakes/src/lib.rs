//! A strict fake chat platform over HTTP for tests, and the small channel adapter that speaks to it.
//!
//! [`FakePlatform`] runs in the test's own process, so that its [`Transcript`] survives whatever is done to the
//! client; [`FakeChannel`] is the client's side of it. Limits are enforced as the real platforms enforce them, each
//! with its source beside it, and every fault of the fault matrix is data ([`Fault`]).

pub mod channel;
pub mod fake_file;
pub mod fault;
pub mod memory_blobs;
pub mod platform;
pub mod rules;
pub mod transcript;
mod wire;

pub use channel::{FakeChannel, Timeouts};
pub use fake_file::FakeFile;
pub use fault::{Fault, Moment, Operation, ScriptedFault, When};
pub use memory_blobs::MemoryBlobs;
pub use platform::FakePlatform;
pub use rules::{FakeMode, PlatformRules};
pub use transcript::{Shown, Transcript, TranscriptFile, TranscriptMessage};
