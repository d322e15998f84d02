//! The one thing that routing reads.

use serde::{Deserialize, Serialize};

use crate::{Attachment, VoiceRequest};

/// What a person gets for a turn: text, voice, files. Routing reads nothing else (ADR 0002).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutgoingResponse {
    /// The reply's text in Markdown; never blank when present.
    pub text: Option<String>,
    /// Whether and what to speak.
    pub voice: Option<VoiceRequest>,
    /// The files to deliver, in order, each once.
    #[serde(default)]
    pub attachments: Vec<Attachment>,
}

impl OutgoingResponse {
    /// A response of words alone.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }
}
