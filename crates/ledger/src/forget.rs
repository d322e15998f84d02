//! Forgetting a file: what documents that name it say of it afterwards.

use satchel_domain::{Attachment, HistoryMessage, OutgoingResponse, PartContent};
use satchel_ports::ledger::{JournalEntry, Transcription};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::stored::{AttachmentRef, Result, StoredError};

/// What stands in place of the words of a voice note.
const REPLACEMENT: &str = "(forgotten)";

/// A file that is forgotten. Of it documents keep the id alone, and none of the words that were heard in it.
#[derive(Debug)]
pub struct ForgottenFile<'a> {
    pub file: &'a Attachment,
    /// The words that were heard in it: they were made from its bytes.
    pub transcription: Option<String>,
}

impl ForgottenFile<'_> {
    /// # Errors
    /// When the document can't be read.
    pub fn rewrite_history(&self, message: Value) -> Result<Value> {
        self.rewrite(message, |message: HistoryMessage<_>, bare| message.try_map_files(bare))
    }

    /// # Errors
    /// When the document can't be read.
    pub fn rewrite_response(&self, response: Value) -> Result<Value> {
        self.rewrite(response, |response: OutgoingResponse<_>, bare| response.try_map_files(bare))
    }

    /// # Errors
    /// When the document can't be read.
    pub fn rewrite_part(&self, content: Value) -> Result<Value> {
        self.rewrite(content, |content: PartContent<_>, bare| content.try_map_files(bare))
    }

    /// # Errors
    /// When the document can't be read.
    pub fn rewrite_entry(&self, entry: Value) -> Result<Value> {
        self.rewrite(entry, |entry: JournalEntry<AttachmentRef>, bare| {
            Ok(self.without_pictures(entry.try_map_files(bare)?))
        })
    }

    /// Erases the file, the one at this place, in the message that brought it. What the platform has sent goes as a whole.
    pub fn erase_in_message(&self, message: &mut Value, position: i64) {
        let place = usize::try_from(position).unwrap_or(usize::MAX);
        if let Some(reference) = message.get_mut("files").and_then(|files| files.get_mut(place)) {
            self.erase_in_reference(reference);
        }
        if let Some(message) = message.as_object_mut() {
            message.remove("raw");
        }
    }

    /// Erases what a channel's reference to the file says of it.
    pub fn erase_in_reference(&self, reference: &mut Value) {
        let mut tombstone = self.file.clone();
        tombstone.erase();
        reference["filename"] = Value::from(tombstone.filename.as_str());
        reference["locator"] = Value::from("");
        reference["caption"] = Value::from("");
    }

    /// Rewrites a document: of the file its id remains, and none of the words that were heard in it.
    fn rewrite<T: DeserializeOwned + Serialize>(
        &self,
        document: Value,
        map_files: impl FnOnce(T, &dyn Fn(AttachmentRef) -> Result<AttachmentRef>) -> Result<T>,
    ) -> Result<Value> {
        let bare = |file: AttachmentRef| Ok(if file.id == self.file.id { file.id.into() } else { file });
        let unreadable = |_| StoredError::Invalid { what: "document" };
        let document: T = serde_json::from_value(document).map_err(unreadable)?;
        let mut rewritten = serde_json::to_value(map_files(document, &bare)?).map_err(unreadable)?;
        if let Some(words) = &self.transcription {
            replace_text(&mut rewritten, words);
        }
        Ok(rewritten)
    }

    /// Removes the pictures that were made of the file.
    fn without_pictures(&self, mut entry: JournalEntry<AttachmentRef>) -> JournalEntry<AttachmentRef> {
        if let JournalEntry::Outcome { outcome, .. } = &mut entry {
            let of_file = outcome.viewed_files.iter_mut().filter(|viewed| viewed.file.id == self.file.id);
            of_file.for_each(|viewed| viewed.picture = None);
        }
        entry
    }
}

fn replace_text(document: &mut Value, words: &str) {
    match document {
        Value::Object(fields) => fields.values_mut().for_each(|value| replace_text(value, words)),
        Value::Array(values) => values.iter_mut().for_each(|value| replace_text(value, words)),
        Value::String(text) if text.contains(words) => *text = text.replace(words, REPLACEMENT),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the words of a voice note, if it has any.
#[must_use]
pub fn transcribed_text(transcription: Transcription) -> Option<String> {
    match transcription {
        Transcription::Text(words) => Some(words.trim().to_owned()).filter(|words| !words.is_empty()),
        Transcription::Failed(_) => None,
    }
}
