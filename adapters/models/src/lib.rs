//! Models behind the network: OpenAI, Anthropic, Gemini, Ollama and whoever speaks as they do, as one `LanguageModel`.
//!
//! A request is arranged as data first (`conversation`, by the table in `abilities`), then handed to the vendor's
//! client; what comes back is read by `answer`, and what goes wrong is put into words by `failure`. Everything that can
//! be decided without the network is a pure function.

mod capabilities;
mod check;
mod error;
mod fallback;
mod files;
mod media_kind;
mod ollama;
mod provider_messages;
mod reasoning;
mod remote;
mod request;
mod request_policy;
mod response_stream;
mod settings;
mod tool_names;

pub use fallback::FallbackModel;
pub use media_kind::{MediaKind, unsupported_kind};
pub use ollama::find_ollama;
pub use remote::RemoteModel;
pub use request_policy::RequestPolicy;
pub use settings::{ModelProvider, ModelSettings, ModelSettingsError};
