//! The one thing that routing reads.

use serde::{Deserialize, Serialize};

use crate::{Attachment, VoiceRequest};

/// What a person gets for a turn: text, voice, files. Routing reads nothing else (ADR 0002).
///
/// Its JSON has these fields and no other: one that is misspelt is an error, not a response without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "F: Deserialize<'de>"))]
pub struct OutgoingResponse<F = Attachment> {
    /// The reply's text in Markdown; never blank when present.
    pub text: Option<String>,
    /// Whether and what to speak.
    pub voice: Option<VoiceRequest>,
    /// The files to deliver, in order, each once.
    #[serde(default)]
    pub attachments: Vec<F>,
}

impl<F> Default for OutgoingResponse<F> {
    fn default() -> Self {
        Self { text: None, voice: None, attachments: Vec::new() }
    }
}

impl<F> OutgoingResponse<F> {
    /// Replaces each of its files.
    ///
    /// # Errors
    /// The first that `replace` returns.
    pub fn try_map_files<G, E>(self, replace: impl FnMut(F) -> Result<G, E>) -> Result<OutgoingResponse<G>, E> {
        let Self { text, voice, attachments } = self;
        let attachments = attachments.into_iter().map(replace).collect::<Result<_, E>>()?;
        Ok(OutgoingResponse { text, voice, attachments })
    }
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
