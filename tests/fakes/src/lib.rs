//! A strict fake Bot API, a strict fake Discord and a strict fake model server over HTTP for tests.
//!
//! They run in the test's own process, so that their [`Transcript`] survives whatever is done to the client. Limits are
//! enforced as the real platforms enforce them, each with its source beside it, and every fault of the fault matrix is
//! data ([`Fault`]).

pub mod discord;
mod door;
pub mod fake_file;
pub mod fault;
mod late_requests;
pub mod memory_blobs;
pub mod model;
mod script;
pub mod speech;
pub mod telegram;
pub mod transcript;
mod upload;

pub use discord::{DiscordRules, FakeDiscord};
pub use fake_file::FakeFile;
pub use fault::{Fault, Moment, ServerFault, When};
pub use memory_blobs::MemoryBlobs;
pub use model::FakeModelServer;
pub use speech::{AskedSpeech, FakeSpeechServer, SpeechFault};
pub use telegram::{FakeTelegram, TelegramRules};
pub use transcript::{Shown, Transcript, TranscriptFile, TranscriptMessage};

/// Clients of this workspace's reqwest can be built with it alone, even where nothing is encrypted, as soon as one
/// crate of the build speaks TLS.
pub fn install_tls_provider() {
    let _installed_already = rustls::crypto::ring::default_provider().install_default();
}
