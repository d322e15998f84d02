//! Models behind the network: OpenAI, Anthropic, Gemini, Ollama and whoever speaks as they do, as one `LanguageModel`.
//!
//! A request is arranged as data first (`conversation`, by the table in `abilities`), then handed to the vendor's
//! client; what comes back is read by `answer`, and what goes wrong is put into words by `failure`. Everything that can
//! be decided without the network is a pure function.

mod abilities;
mod answer;
mod check;
mod conversation;
mod failure;
mod fallback;
mod files;
mod media_kind;
mod names;
mod ollama;
mod patience;
mod remote;
mod request;
mod settings;
mod thoughts;

pub use fallback::Fallback;
pub use media_kind::{MediaKind, unsupported_kind};
pub use ollama::find_ollama;
pub use patience::Patience;
pub use remote::RemoteModel;
pub use settings::{ModelSettings, Provider, SettingsError};
