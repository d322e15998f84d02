//! What the strict fake servers share: a listener that can refuse and cut connections, faults as data and the scripts
//! of them, files that people send, blobs in memory, the transcript that a person would read, and texts as models write
//! them.
//!
//! The servers themselves are in `tests/fake-telegram`, `tests/fake-discord` and `tests/fake-model`.

mod chat_corpus;
mod condition;
mod fake_file;
mod fault;
mod fault_script;
mod faulty_blobs;
mod faulty_response;
mod late_requests;
mod listener;
mod marked_text;
mod python_client;
mod python_packages;
mod test_clock;
mod transcript;
mod upload;

pub use chat_corpus::{ChatCase, chat_corpus, visible_lines};
pub use condition::wait_for_change;
pub use fake_file::FakeFile;
pub use fault::{Fault, FaultTiming, RequestPhase, ServerFault};
pub use fault_script::{FaultScript, ScriptedRequest};
pub use faulty_blobs::FaultyBlobs;
pub use faulty_response::{connection_fault, half_of};
pub use late_requests::LateRequests;
pub use listener::{ConnectionCutter, ListenerGate, serve};
pub use marked_text::{MarkedText, TextMark};
pub use python_client::PythonClient;
pub use python_packages::PythonPackages;
pub use test_clock::TestClock;
pub use transcript::{
    Contents, DUPLICATE_LABEL, Duplicate, MessageKind, Transcript, TranscriptFile, TranscriptMessage, VisibleItem,
};
pub use upload::ReceivedUpload;

/// Clients of this workspace's reqwest can be built with it alone, even where nothing is encrypted, as soon as one
/// crate of the build speaks TLS.
pub fn install_tls_provider() {
    let _installed_already = rustls::crypto::ring::default_provider().install_default();
}
