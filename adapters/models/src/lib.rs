//! Models behind the network: OpenAI, Anthropic, Gemini, Ollama and compatible servers, as one `LanguageModel`.
//!
//! A request is built as data first (`provider_messages`, by the table in `capabilities`), then handed to the vendor's
//! client. The client's request and the answer pass through a `relay`, which keeps the answer within limits.
//! `response_stream` reads the answer, and `error` maps failures to messages. Everything that can be decided without the
//! network is a pure function.

mod body;
mod capabilities;
mod check;
mod error;
mod fallback;
mod file_signature;
mod files;
mod image_copies;
mod listing;
mod media_kind;
mod ollama;
mod provider_messages;
mod reasoning;
mod refused_files;
mod relay;
mod remote;
mod request;
mod request_policy;
mod response_stream;
mod settings;
mod tool_names;

pub use fallback::FallbackModel;
pub use listing::{ModelListError, list_models};
pub use media_kind::{MediaKind, unsupported_kind_reason};
pub use ollama::find_ollama;
pub use remote::RemoteModel;
pub use request_policy::RequestPolicy;
pub use settings::{ModelProvider, ModelSettings, ModelSettingsError};
