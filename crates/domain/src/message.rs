//! The messages of a conversation as history keeps them: words and references to files, never bytes.

use serde::{Deserialize, Serialize};

use crate::{Attachment, CallId, RefusedFile};

/// A tool call that the model asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our id of the call: its turn and ordinal.
    pub id: CallId,
    /// The tool's name as Satchel knows it, dots included.
    pub name: String,
    /// The arguments as the model gave them, not yet checked.
    pub arguments: serde_json::Value,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What a person wrote and sent.
    Person {
        /// Their words; may be empty when files came alone.
        text: String,
        /// The files that came with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// The files that could not be taken, and why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<RefusedFile>,
    },
    /// What the model wrote and which tools it asked for.
    Model {
        /// Its words; may be empty when it only asked for tools.
        text: String,
        /// The calls, in the model's order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// What a tool answered.
    Tool {
        /// The call that it answers.
        call: CallId,
        /// The answer as the model reads it.
        text: String,
        /// The files that it made.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// What Satchel tells the model, such as what could not be delivered.
    Note {
        /// The words.
        text: String,
    },
}
