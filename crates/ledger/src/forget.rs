//! Forgetting a file: what documents that name it say of it afterwards.

use std::cmp::Reverse;

use satchel_domain::{Attachment, FileReference, Filename, HistoryMessage, OutgoingResponse, PartContent, ToolOutcome};
use satchel_ports::ledger::{JournalEntry, Transcription};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::stored::{AttachmentRef, Result, StoredError};

/// What replaces the words of a voice note.
const REPLACEMENT: &str = "(forgotten)";

/// A file that is forgotten. Of it documents keep the id alone, and none of the words that were heard in it.
#[derive(Debug)]
pub struct ForgottenFile<'a> {
    pub file: &'a Attachment,
    /// The words that were heard in it, which were made from its bytes: the longest first, so that no part of a text is left
    /// behind a shorter one.
    transcriptions: Vec<String>,
}

impl<'a> ForgottenFile<'a> {
    /// A file with what was made of the words that were heard in it.
    #[must_use]
    pub fn new(file: &'a Attachment, transcriptions: Vec<Transcription>) -> Self {
        let mut transcriptions: Vec<String> = transcriptions.into_iter().filter_map(transcribed_text).collect();
        transcriptions.sort_by_key(|words| Reverse(words.len()));
        Self { file, transcriptions }
    }

    /// # Errors
    /// When the document can't be read.
    pub fn rewrite_history(&self, message: Value) -> Result<Value> {
        self.rewrite(message, |message: HistoryMessage<AttachmentRef>, bare| {
            let mut message = message.try_map_files(bare)?;
            if let HistoryMessage::Tool { text, .. } = &mut message {
                self.erase_records_in_text(text);
            }
            Ok(message)
        })
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
            let mut entry = entry.try_map_files(bare)?;
            if let JournalEntry::Outcome { outcome, .. } = &mut entry {
                self.erase_in_outcome(outcome);
            }
            Ok(entry)
        })
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
        for words in &self.transcriptions {
            replace_text(&mut rewritten, words);
        }
        Ok(rewritten)
    }

    /// Erases what the outcome of a call says of the file, and the pictures that were made of it.
    fn erase_in_outcome(&self, outcome: &mut ToolOutcome<AttachmentRef>) {
        let of_file = outcome.viewed_files.iter_mut().filter(|viewed| viewed.file.id == self.file.id);
        of_file.for_each(|viewed| viewed.picture = None);
        if let Some(text) = &mut outcome.text {
            self.erase_records_in_text(text);
        }
        if let Some(data) = &mut outcome.data {
            erase_records(data, &self.file.id.to_string());
        }
    }

    /// Erases what a result that is JSON says of the file. A list of files keeps the others.
    fn erase_records_in_text(&self, text: &mut String) {
        let id = self.file.id.to_string();
        if text.contains(&id)
            && let Ok(mut result) = serde_json::from_str::<Value>(text)
            && erase_records(&mut result, &id)
        {
            *text = result.to_string();
        }
    }
}

/// Erases the file at this place in the message that brought it. What the platform has sent goes as a whole.
pub fn erase_in_message(message: &mut Value, position: i64) {
    let place = usize::try_from(position).unwrap_or(usize::MAX);
    if let Some(reference) = message.get_mut("files").and_then(|files| files.get_mut(place)) {
        erase_reference(reference);
    }
    if let Some(message) = message.as_object_mut() {
        message.remove("raw");
    }
}

/// Erases what a channel's reference to a file says of it.
pub fn erase_reference(reference: &mut Value) {
    let unreadable = |_| FileReference::new(String::new(), Filename::from_untrusted(""));
    let file = serde_json::from_value(reference.take()).unwrap_or_else(unreadable);
    *reference = json!(file.into_forgotten());
}

/// Leaves the id and the number of the file's records in a result; returns whether there were any.
fn erase_records(result: &mut Value, id: &str) -> bool {
    // All are counted, so that none is left behind the first.
    let count_erased = |value: &mut Value| usize::from(erase_records(value, id));
    match result {
        Value::Object(fields) if fields.get("id").and_then(Value::as_str) == Some(id) => {
            fields.retain(|name, _| ["id", "number"].contains(&name.as_str()));
            fields.insert("forgotten".to_owned(), Value::Bool(true));
            true
        }
        Value::Object(fields) => fields.values_mut().map(count_erased).sum::<usize>() > 0,
        Value::Array(values) => values.iter_mut().map(count_erased).sum::<usize>() > 0,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
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
fn transcribed_text(transcription: Transcription) -> Option<String> {
    match transcription {
        Transcription::Text(words) => Some(words.trim().to_owned()).filter(|words| !words.is_empty()),
        Transcription::Failed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use satchel_domain::{AttachmentId, AttachmentSource, CallId, MediaInfo, Sha256, Timestamp, TurnId, Visibility};
    use uuid::Uuid;

    use super::*;

    fn file() -> Attachment {
        Attachment {
            id: AttachmentId(Uuid::from_u128(1)),
            number: NonZeroU64::MIN,
            conversation: "web:a".parse().unwrap(),
            source: AttachmentSource::User,
            filename: Filename::from_untrusted("secret.txt"),
            mime: "text/plain".to_owned(),
            bytes: 5,
            sha256: Sha256([1; 32]),
            media: MediaInfo::default(),
            description: String::new(),
            created_at: Timestamp(0),
            visibility: Visibility::Deliver,
            link_revocation: None,
        }
    }

    #[test]
    fn list_keeps_other_files_than_the_forgotten_one() {
        let (file, other) = (file(), AttachmentId(Uuid::from_u128(2)));
        let record = |id: AttachmentId, number: u64, name: &str| {
            let sha256 = Sha256([1; 32]).to_string();
            json!({ "id": id, "number": number, "filename": name, "sha256": sha256, "bytes": 5 })
        };
        let list = json!({ "total": 2, "attachments": [record(file.id, 1, "secret.txt"), record(other, 2, "b.txt")] });
        let call = CallId { turn: TurnId(Uuid::nil()), ordinal: 0 };
        let message = HistoryMessage::<AttachmentRef>::Tool { call, text: list.to_string(), attachments: Vec::new() };
        let outcome = ToolOutcome::<AttachmentRef>::from_data(list);
        let entry = JournalEntry::Outcome { ordinal: 0, outcome };
        let forgotten = ForgottenFile::new(&file, Vec::new());
        let expected = json!({
            "total": 2,
            "attachments": [{ "id": file.id, "number": 1, "forgotten": true }, record(other, 2, "b.txt")],
        });
        let rewritten = forgotten.rewrite_history(serde_json::to_value(message).unwrap()).unwrap();
        assert_eq!(rewritten["text"], expected.to_string());
        let rewritten = forgotten.rewrite_entry(serde_json::to_value(entry).unwrap()).unwrap();
        assert_eq!(rewritten["outcome"]["data"], expected);
    }

    #[test]
    fn reference_to_a_forgotten_file_keeps_only_the_digest_of_its_id() {
        let reference = FileReference {
            platform_id: Some("unique-7".to_owned()),
            source_url: Some("https://cdn.example/7/secret.txt".to_owned()),
            mime: Some("text/plain".to_owned()),
            bytes: Some(4711),
            stored: Some(Sha256([1; 32])),
            caption: "my diary".to_owned(),
            ..FileReference::new("link-7".to_owned(), Filename::from_untrusted("secret.txt"))
        };
        let mut stored = serde_json::to_value(reference).unwrap();
        for _ in 0..2 {
            erase_reference(&mut stored);
            let erased: FileReference = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!(erased.forgotten_id, Some(Sha256::digest("unique-7")));
            let stored = stored.to_string();
            let digest = Sha256([1; 32]).to_string();
            for trace in ["unique-7", "link-7", "secret", "cdn.example", "text/plain", "4711", "diary", &digest] {
                assert!(!stored.contains(trace), "{stored}");
            }
        }
    }

    /// A retry may have heard more in a voice note than the first turn.
    #[test]
    fn all_transcriptions_of_a_file_are_replaced() {
        let file = file();
        let heard = ["bring", "bring bread"].map(|words| Transcription::Text(words.to_owned()));
        let forgotten = ForgottenFile::new(&file, heard.into());
        let message = HistoryMessage::<AttachmentRef>::Person {
            text: "bring bread, bring it".to_owned(),
            attachments: vec![file.id.into()],
            refused: Vec::new(),
            origin: None,
        };
        let rewritten = forgotten.rewrite_history(serde_json::to_value(message).unwrap()).unwrap();
        assert_eq!(rewritten["text"], "(forgotten), (forgotten) it");
    }

    #[test]
    fn other_text_with_the_id_stays() {
        let file = file();
        let forgotten = ForgottenFile::new(&file, Vec::new());
        for text in [format!("saved {}", file.id), json!({ "attachments": [file.id] }).to_string()] {
            let mut kept = text.clone();
            forgotten.erase_records_in_text(&mut kept);
            assert_eq!(kept, text);
        }
    }
}
