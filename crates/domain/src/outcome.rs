//! What one tool call yields.

use serde::{Deserialize, Serialize};

use crate::Attachment;

/// A request to send the reply as a voice message, too.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VoiceRequest {
    /// The words to speak; `None` speaks the reply's text.
    pub text: Option<String>,
}

/// Something that a script wants a model to look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WakeRequest {
    /// What the model shall know.
    pub context: serde_json::Value,
    /// Whether it shall also know what ran the script.
    pub include_event: bool,
}

/// What one tool call yields. Every field may be absent: a tool that only made a file has nothing else to say.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// The outcome as text, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The outcome as data, for the model and for scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
    /// The files that the call made or brought, in its own order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The files that the model is to see beside the answer. They are not delivered for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub viewed_files: Vec<Attachment>,
    /// A request to send the reply as a voice message, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<VoiceRequest>,
    /// The exact files of the reply, in order; an empty list withholds all. Resolved by the tool: every file is of
    /// this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Vec<Attachment>>,
    /// What a script wants a model to look at. The model is called for it, even if no model requested the script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakes: Vec<WakeRequest>,
    /// Whether the text says why the call failed. One that failed in part has data or files of what it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

impl ToolOutcome {
    /// An outcome of data alone.
    #[must_use]
    pub fn from_data(data: serde_json::Value) -> Self {
        Self { data: Some(data), ..Self::default() }
    }

    /// Makes an outcome of text alone.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Makes the outcome of a failed call, with the reason for the model; the turn continues.
    #[must_use]
    pub fn from_failure(reason: impl Into<String>) -> Self {
        Self { text: Some(reason.into()), failed: true, ..Self::default() }
    }

    /// Returns whether the call failed and still yielded something.
    #[must_use]
    pub fn has_failed_in_part(&self) -> bool {
        self.failed && (self.data.is_some() || !self.attachments.is_empty())
    }

    /// Returns the outcome as the model reads it: its text, else its data as JSON, else `done`.
    #[must_use]
    pub fn to_model_text(&self) -> String {
        match (&self.text, &self.data) {
            (Some(text), _) if self.failed && !text.starts_with("Error: ") => format!("error: {text}"),
            (Some(text), _) => text.clone(),
            (None, Some(data)) => data.to_string(),
            (None, None) => "done".to_owned(),
        }
    }
}
