//! Reminders: schedules that people make in chat, once or recurring.

use std::{fmt, num::ParseIntError, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::AttachmentId;

/// The most reminders that a person has at a time.
pub const MAX_REMINDERS_PER_PERSON: u32 = 100;

/// The longest text of a reminder, in characters.
pub const MAX_REMINDER_CHARS: usize = 4_000;

/// The number by which people name a reminder. It is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReminderId(pub u64);

impl fmt::Display for ReminderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ReminderId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// What happens when a reminder is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReminderContent {
    /// A text and files of the conversation are delivered as they are.
    Message {
        /// The text; empty if there are only files.
        text: String,
        /// The files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<AttachmentId>,
    },
    /// The model gets this text and replies.
    Prompt(String),
}

impl ReminderContent {
    /// Returns its text.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Message { text, .. } | Self::Prompt(text) => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_reminder_content_is_read_back() {
        for (content, stored) in [
            (ReminderContent::Message { text: "tea".into(), files: vec![] }, r#"{"message":{"text":"tea"}}"#),
            (ReminderContent::Prompt("news".into()), r#"{"prompt":"news"}"#),
        ] {
            assert_eq!(serde_json::to_string(&content).unwrap(), stored);
            assert_eq!(serde_json::from_str::<ReminderContent>(stored).unwrap(), content);
        }
    }
}
