//! What a part sends, and what it does with it.

use serde::{Deserialize, Serialize};

use super::MessageRef;
use crate::{Attachment, Sha256};

/// The form in which a text is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Markup {
    /// Markdown, rendered into what the channel shows.
    Rich,
    /// The same characters without any rendering; the fallback when the platform refuses the rich form.
    Plain,
    /// Markdown, shown in the channel's own blocks: headings, tables, lists, formulas.
    Blocks,
}

impl Markup {
    fn is_rich(&self) -> bool {
        *self == Self::Rich
    }

    fn rich() -> Self {
        Self::Rich
    }
}

/// The form in which a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileForm {
    /// A photo, shown at once.
    Photo,
    /// A video with a player.
    Video,
    /// Music or speech with a player.
    Audio,
    /// A short, silent, looping film.
    Animation,
    /// A file to download; the form that takes anything.
    Document,
}

/// A file of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileItem<F = Attachment> {
    /// The file.
    pub attachment: F,
    /// How it is sent.
    pub form: FileForm,
    /// The text under it, or its alternative text; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub caption: String,
}

/// A voice after its prepare step: the bytes that every attempt sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedVoice {
    /// The digest of the OGG/Opus bytes.
    pub sha256: Sha256,
    /// Their size in bytes.
    pub bytes: u64,
    /// Playing time in milliseconds.
    pub duration_ms: u64,
    /// Loudness from 0 to 255 at no more than 256 points.
    pub waveform: Vec<u8>,
}

/// What one part sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", bound(deserialize = "F: Deserialize<'de>"))]
pub enum PartContent<F = Attachment> {
    /// A chunk of the reply's text, with the files that ride on it.
    Text {
        /// The chunk in Markdown.
        text: String,
        /// How it is sent.
        markup: Markup,
        /// The files on the same message, where the channel bundles.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<FileItem<F>>,
    },
    /// The reply as a voice message.
    Voice {
        /// The text to speak. Stored as `words`.
        #[serde(rename = "words")]
        text: String,
        /// Whether the reply's text contains it already, so that it needn't be written if synthesis fails.
        in_text: bool,
        /// The bytes, once the prepare step is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prepared: Option<PreparedVoice>,
        /// A file instead of a bubble; the fallback where voice messages are forbidden.
        #[serde(default)]
        as_file: bool,
        /// The text under it; empty for none.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        caption: String,
    },
    /// One file.
    File(FileItem<F>),
    /// Several files on one message.
    Album {
        /// The files, in order.
        items: Vec<FileItem<F>>,
    },
    /// The closing notice about what was not delivered: the last part of its response.
    Notice {
        /// The text in Markdown.
        text: String,
    },
    /// A text with buttons; a person without buttons writes their commands.
    Question {
        /// The text in Markdown; it names the commands, for channels without buttons.
        text: String,
        /// How it is sent. What earlier versions have stored is rich.
        #[serde(default = "Markup::rich", skip_serializing_if = "Markup::is_rich")]
        markup: Markup,
        /// The buttons.
        buttons: Vec<Button>,
    },
}

/// What a part does on its channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case", bound(deserialize = "F: Deserialize<'de>"))]
pub enum Operation<F = Attachment> {
    /// Sends this as a new message, or as several.
    Post {
        /// What it sends.
        content: PartContent<F>,
    },
    /// Replaces what a message of ours shows.
    Edit {
        /// The message. Stored as `target`.
        #[serde(rename = "target")]
        message: MessageRef,
        /// What it shows then.
        content: PartContent<F>,
    },
    /// Deletes a message of ours: a draft beside which no text is sent, or the question before a conversation is forgotten.
    Delete {
        /// The message. Stored as `target`.
        #[serde(rename = "target")]
        message: MessageRef,
    },
}

impl<F> Operation<F> {
    /// Makes the post of this content, or the edit of `message` if there is one.
    #[must_use]
    pub fn show(content: PartContent<F>, message: Option<MessageRef>) -> Self {
        match message {
            Some(message) => Self::Edit { message, content },
            None => Self::Post { content },
        }
    }

    /// The word for it in `--json`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Post { .. } => "post",
            Self::Edit { .. } => "edit",
            Self::Delete { .. } => "delete",
        }
    }

    /// Returns what it sends or shows; `None` for a deletion.
    #[must_use]
    pub fn content(&self) -> Option<&PartContent<F>> {
        match self {
            Self::Post { content } | Self::Edit { content, .. } => Some(content),
            Self::Delete { .. } => None,
        }
    }

    /// Returns what it sends or shows; `None` for a deletion.
    #[must_use]
    pub fn into_content(self) -> Option<PartContent<F>> {
        match self {
            Self::Post { content } | Self::Edit { content, .. } => Some(content),
            Self::Delete { .. } => None,
        }
    }

    /// Returns the message that it edits or deletes.
    #[must_use]
    pub fn target(&self) -> Option<&MessageRef> {
        match self {
            Self::Post { .. } => None,
            Self::Edit { message, .. } | Self::Delete { message } => Some(message),
        }
    }

    /// Returns the name of its content's kind in `--json`, logs and metrics; `delete` where it has none.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.content().map_or("delete", PartContent::kind)
    }

    /// Returns its files, in order.
    #[must_use]
    pub fn files(&self) -> &[FileItem<F>] {
        self.content().map_or(&[], PartContent::files)
    }

    /// Replaces each of its files.
    ///
    /// # Errors
    /// The first that `replace` returns.
    pub fn try_map_files<G, E>(self, replace: impl FnMut(F) -> Result<G, E>) -> Result<Operation<G>, E> {
        Ok(match self {
            Self::Post { content } => Operation::Post { content: content.try_map_files(replace)? },
            Self::Edit { message, content } => Operation::Edit { message, content: content.try_map_files(replace)? },
            Self::Delete { message } => Operation::Delete { message },
        })
    }
}

/// A button that a person can press instead of writing a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// The text on it.
    pub label: String,
    /// The command that pressing it sends for the person, at most 64 bytes: the smallest limit of a platform.
    pub command: String,
}

impl PartContent {
    /// Makes a rich text without files.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), markup: Markup::Rich, files: Vec::new() }
    }

    /// Makes a rich text with buttons.
    #[must_use]
    pub fn question(text: impl Into<String>, buttons: Vec<Button>) -> Self {
        Self::Question { text: text.into(), markup: Markup::Rich, buttons }
    }
}

impl<F> PartContent<F> {
    /// Replaces each of its files.
    ///
    /// # Errors
    /// The first that `replace` returns.
    pub fn try_map_files<G, E>(self, mut replace: impl FnMut(F) -> Result<G, E>) -> Result<PartContent<G>, E> {
        let mut map_item = |FileItem { attachment, form, caption }: FileItem<F>| {
            Ok(FileItem { attachment: replace(attachment)?, form, caption })
        };
        Ok(match self {
            Self::Text { text, markup, files } => {
                let files = files.into_iter().map(map_item).collect::<Result<_, E>>()?;
                PartContent::Text { text, markup, files }
            }
            Self::Voice { text, in_text, prepared, as_file, caption } => {
                PartContent::Voice { text, in_text, prepared, as_file, caption }
            }
            Self::File(item) => PartContent::File(map_item(item)?),
            Self::Album { items } => {
                PartContent::Album { items: items.into_iter().map(map_item).collect::<Result<_, E>>()? }
            }
            Self::Notice { text } => PartContent::Notice { text },
            Self::Question { text, markup, buttons } => PartContent::Question { text, markup, buttons },
        })
    }

    /// Returns the name of its kind in `--json`, logs and metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Voice { .. } => "voice",
            Self::File(_) => "file",
            Self::Album { .. } => "album",
            Self::Notice { .. } => "notice",
            Self::Question { .. } => "question",
        }
    }

    /// Returns whether it is a chunk of the response's text, with files, buttons or neither.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Text { .. } | Self::Question { .. })
    }

    /// Returns its files, in order.
    #[must_use]
    pub fn files(&self) -> &[FileItem<F>] {
        match self {
            Self::Text { files, .. } => files,
            Self::File(item) => std::slice::from_ref(item),
            Self::Album { items } => items,
            Self::Voice { .. } | Self::Notice { .. } | Self::Question { .. } => &[],
        }
    }

    /// Returns whether it must be prepared before it can be sent: a voice without its recording.
    #[must_use]
    pub fn needs_preparation(&self) -> bool {
        matches!(self, Self::Voice { prepared: None, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_earlier_versions_are_rich_and_stay_as_they_were() {
        let stored = r#"{"kind":"question","text":"May I?","buttons":[]}"#;
        let read: PartContent = serde_json::from_str(stored).unwrap();
        assert_eq!(read, PartContent::question("May I?", Vec::new()));
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
        let in_blocks = PartContent::Question { text: "?".to_owned(), markup: Markup::Blocks, buttons: Vec::new() };
        let stored = serde_json::to_value(&in_blocks).unwrap();
        assert_eq!(stored["markup"], "blocks");
        assert_eq!(serde_json::from_value::<PartContent>(stored).unwrap(), in_blocks);
    }
}
