//! The one thing that routing reads.

use serde::{Deserialize, Serialize};

use crate::{Attachment, VoiceRequest};

/// What a person gets for a turn: text, voice, files. Routing reads nothing else (ADR 0002).
///
/// Its JSON has these fields and no other: one that is misspelt is an error, not a response without it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// A response of text alone.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_with_an_unknown_field_is_refused() {
        let refused = serde_json::from_str::<OutgoingResponse>(r#"{"text": "hi", "attachements": []}"#).unwrap_err();
        assert!(refused.to_string().contains("unknown field `attachements`"), "{refused}");
        let response = OutgoingResponse::from_text("hi");
        let json = serde_json::to_string(&response).unwrap();
        assert_eq!(serde_json::from_str::<OutgoingResponse>(&json).unwrap(), response, "what is stored is read");
    }
}
