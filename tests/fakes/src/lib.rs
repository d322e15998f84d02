//! A strict fake chat platform, a strict fake Bot API, a strict fake Discord and a strict fake model server over HTTP for
//! tests, and the small channel adapter that speaks to the platform.
//!
//! [`FakePlatform`] runs in the test's own process, so that its [`Transcript`] survives whatever is done to the
//! client; [`FakeChannel`] is the client's side of it. Limits are enforced as the real platforms enforce them, each
//! with its source beside it, and every fault of the fault matrix is data ([`Fault`]).

pub mod channel;
pub mod discord;
pub mod fake_file;
pub mod fault;
mod late_requests;
pub mod memory_blobs;
pub mod model;
pub mod platform;
pub mod rules;
mod script;
pub mod speech;
pub mod telegram;
pub mod transcript;
mod upload;
mod wire;

pub use channel::{FakeChannel, Timeouts};
pub use discord::{DiscordRules, FakeDiscord};
pub use fake_file::FakeFile;
pub use fault::{Fault, Moment, Operation, ScriptedFault, ServerFault, When};
pub use memory_blobs::MemoryBlobs;
pub use model::FakeModelServer;
pub use platform::FakePlatform;
pub use rules::{FakeMode, PlatformRules};
pub use speech::{AskedSpeech, FakeSpeechServer, SpeechFault};
pub use telegram::{FakeTelegram, TelegramRules};
pub use transcript::{Shown, Transcript, TranscriptFile, TranscriptMessage};

/// Clients of this workspace's reqwest can be built with it alone, even where nothing is encrypted, as soon as one
/// crate of the build speaks TLS.
pub fn install_tls_provider() {
    let _installed_already = rustls::crypto::ring::default_provider().install_default();
}
