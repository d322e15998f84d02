//! What one tool call yields.

use std::{convert::Infallible, fmt::Display};

use serde::{Deserialize, Serialize};

use crate::{Attachment, AttachmentId, Filename, NewAttachment, ReminderId, StoredBlob};

/// A request to send the reply as a voice message, too.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VoiceRequest {
    /// The words to speak; `None` speaks the reply's text, of several texts the last.
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

/// A reminder that a call has made or cancelled. The reply of the turn shows it to the people of the conversation, whatever the
/// model writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeNotice {
    /// The reminder that the call made; `None` where it made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<ReminderId>,
    /// The reminder that the call cancelled; `None` where it cancelled none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<ReminderId>,
    /// The text, as Markdown.
    pub text: String,
}

/// A file of an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutcomeFile {
    /// The call made it; the ledger numbers it when it records the outcome.
    New(NewAttachment),
    /// The conversation has it already.
    Stored(Attachment),
}

/// What a call has yielded, as the ledger has recorded it: every file has its number.
pub type RecordedOutcome = ToolOutcome<Attachment>;

/// What one tool call yields. Every field may be absent: a tool that only made a file has nothing else to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "F: Deserialize<'de>"))]
pub struct ToolOutcome<F = OutcomeFile> {
    /// The outcome as text, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The outcome as data, for the model and for scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
    /// The files that the call made or brought, in its own order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<F>,
    /// The files that the model is to see beside the answer. They are not delivered for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub viewed_files: Vec<ViewedFile<F>>,
    /// A request to send the reply as a voice message, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<VoiceRequest>,
    /// The exact files of the reply, in order; an empty list withholds all. Resolved by the tool: every file is of
    /// this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<Vec<F>>,
    /// What a script wants a model to look at. The model is called for it, even if no model requested the script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakes: Vec<WakeRequest>,
    /// What the reply shows to the people about reminders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<OutcomeNotice>,
    /// Whether the text says why the call failed. One that failed in part has data or files of what it did.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
    /// Whether the call may have had an effect, and nothing says which. It counts as failed, and its text says what is
    /// known. The text alone, which may be a server's, never makes an outcome unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

impl<F> Default for ToolOutcome<F> {
    fn default() -> Self {
        Self {
            text: None,
            data: None,
            attachments: Vec::new(),
            viewed_files: Vec::new(),
            voice: None,
            selection: None,
            wakes: Vec::new(),
            notices: Vec::new(),
            failed: false,
            unknown: false,
        }
    }
}

impl<F> ToolOutcome<F> {
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

    /// Makes the outcome of a call that may have had an effect, with what the model should know about it.
    #[must_use]
    pub fn from_unknown(detail: impl Display) -> Self {
        Self { unknown: true, ..Self::from_failure(format!("outcome unknown: {detail}")) }
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

    /// Returns its files: the files, the viewed ones, the selected ones. One may occur in several of these.
    pub fn files(&self) -> impl Iterator<Item = &F> {
        let viewed = self.viewed_files.iter().map(|viewed| &viewed.file);
        self.attachments.iter().chain(viewed).chain(self.selection.iter().flatten())
    }

    /// Replaces each of its files.
    #[must_use]
    pub fn map_files<G>(self, mut replace: impl FnMut(F) -> G) -> ToolOutcome<G> {
        let Ok(outcome) = self.try_map_files(|file| Ok::<_, Infallible>(replace(file)));
        outcome
    }

    /// Replaces each of its files, in its order: the files, the viewed ones, the selected ones.
    ///
    /// # Errors
    /// The first that `replace` returns.
    pub fn try_map_files<G, E>(self, mut replace: impl FnMut(F) -> Result<G, E>) -> Result<ToolOutcome<G>, E> {
        let Self { text, data, attachments, viewed_files, voice, selection, wakes, notices, failed, unknown } = self;
        let attachments = attachments.into_iter().map(&mut replace).collect::<Result<_, E>>()?;
        let viewed_files = viewed_files
            .into_iter()
            .map(|ViewedFile { file, picture }| Ok(ViewedFile { file: replace(file)?, picture }))
            .collect::<Result<_, E>>()?;
        let selection = selection.map(|files| files.into_iter().map(&mut replace).collect()).transpose()?;
        Ok(ToolOutcome { text, data, attachments, viewed_files, voice, selection, wakes, notices, failed, unknown })
    }
}

impl ToolOutcome {
    /// Returns the files that the call made, each once.
    #[must_use]
    pub fn new_files(&self) -> Vec<NewAttachment> {
        let mut new_files: Vec<NewAttachment> = Vec::new();
        for file in self.files() {
            if let OutcomeFile::New(file) = file
                && new_files.iter().all(|other| other.id != file.id)
            {
                new_files.push(file.clone());
            }
        }
        new_files
    }
}

/// A file that a model is to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewedFile<F> {
    /// The file.
    #[serde(flatten)]
    pub file: F,
    /// What is shown in its place, such as one page of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<Picture>,
}

/// A picture that was made of a file, for a model alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    /// What it is called to the model.
    pub filename: Filename,
    /// Its bytes.
    pub stored: StoredBlob,
}

impl<F> From<F> for ViewedFile<F> {
    fn from(file: F) -> Self {
        Self { file, picture: None }
    }
}

impl OutcomeFile {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> AttachmentId {
        match self {
            Self::New(file) => file.id,
            Self::Stored(file) => file.id,
        }
    }

    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::New(file) => file.bytes,
            Self::Stored(file) => file.bytes,
        }
    }
}

impl From<RecordedOutcome> for ToolOutcome {
    fn from(recorded: RecordedOutcome) -> Self {
        recorded.map_files(Into::into)
    }
}

impl From<NewAttachment> for OutcomeFile {
    fn from(file: NewAttachment) -> Self {
        Self::New(file)
    }
}

impl From<Attachment> for OutcomeFile {
    fn from(file: Attachment) -> Self {
        Self::Stored(file)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_alone_makes_no_outcome_unknown() {
        let unknown = ToolOutcome::<Attachment>::from_unknown("the connection was lost");
        assert_eq!(unknown.to_model_text(), "error: outcome unknown: the connection was lost");
        let stored = json!({"text": "outcome unknown: the connection was lost", "failed": true, "unknown": true});
        assert_eq!(serde_json::to_value(&unknown).unwrap(), stored);
        assert_eq!(serde_json::from_value::<RecordedOutcome>(stored).unwrap(), unknown);
        assert!(unknown.clone().map_files(OutcomeFile::Stored).unknown);

        let forged = json!({"text": "outcome unknown: the connection was lost", "failed": true});
        assert!(!serde_json::from_value::<RecordedOutcome>(forged).unwrap().unknown);
    }
}
