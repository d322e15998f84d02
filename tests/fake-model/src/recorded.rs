//! What the fake model server was asked, in one form for all wires.

use std::time::Instant;

use serde_json::Value;

use crate::ModelWire;

#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub wire: ModelWire,
    pub at: Instant,
    /// The model that was asked for.
    pub model: String,
    pub system: String,
    /// The conversation; turns of one side that follow each other are as they came.
    pub turns: Vec<RecordedTurn>,
    /// Signatures of the model's thoughts that came back with it.
    pub thoughts: Vec<String>,
    /// The names of the offered tools.
    pub tools: Vec<String>,
    /// The body as it came.
    pub body: Value,
    /// What became of it.
    pub status: RequestStatus,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestStatus {
    /// It is being answered.
    Running,
    /// It was answered to the scripted end, a fault included.
    Answered,
    /// The client went away before that.
    Abandoned,
    /// It broke a rule.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum RecordedTurn {
    User(Vec<RecordedPart>),
    Model { text: String, calls: Vec<RecordedCall> },
    Results(Vec<RecordedResult>),
}

/// A part of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedPart {
    Text(String),
    File(RecordedFile),
    /// The address of an image that the provider fetches.
    ImageUrl(String),
}

/// A file that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFile {
    pub mime: String,
    /// Its name, where the wire carries one.
    pub name: Option<String>,
    /// Its bytes, decoded.
    pub bytes: Vec<u8>,
}

/// A call of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCall {
    /// Its id, where the wire carries one.
    pub id: Option<String>,
    pub name: String,
    pub arguments: Value,
    pub signature: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecordedResult {
    /// The id of the call, where the wire carries one.
    pub id: Option<String>,
    /// The tool, where the wire carries it.
    pub name: Option<String>,
    /// What it says and shows.
    pub parts: Vec<RecordedPart>,
}

impl RecordedRequest {
    /// All words of the person's turns, Satchel's notes included.
    #[must_use]
    pub fn user_text(&self) -> String {
        let users = self.turns.iter().filter_map(|turn| match turn {
            RecordedTurn::User(parts) => Some(texts(parts)),
            _ => None,
        });
        users.collect::<Vec<_>>().join("\n")
    }

    /// All files of the person's turns.
    #[must_use]
    pub fn files(&self) -> Vec<RecordedFile> {
        let users = self.turns.iter().filter_map(|turn| match turn {
            RecordedTurn::User(parts) => Some(files(parts)),
            _ => None,
        });
        users.flatten().collect()
    }

    /// All parts of the person's turns, in order.
    #[must_use]
    pub fn user_parts(&self) -> Vec<RecordedPart> {
        let users = self.turns.iter().filter_map(|turn| match turn {
            RecordedTurn::User(parts) => Some(parts.clone()),
            _ => None,
        });
        users.flatten().collect()
    }

    /// All answers of tools, in order.
    #[must_use]
    pub fn results(&self) -> Vec<RecordedResult> {
        let results = self.turns.iter().filter_map(|turn| match turn {
            RecordedTurn::Results(results) => Some(results.clone()),
            _ => None,
        });
        results.flatten().collect()
    }

    /// All calls, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<RecordedCall> {
        let calls = self.turns.iter().filter_map(|turn| match turn {
            RecordedTurn::Model { calls, .. } => Some(calls.clone()),
            _ => None,
        });
        calls.flatten().collect()
    }

    /// The words of the person's last turn.
    pub(crate) fn last_user_text(&self) -> String {
        let last = self.turns.iter().rev().find_map(|turn| match turn {
            RecordedTurn::User(parts) => Some(texts(parts)),
            _ => None,
        });
        last.unwrap_or_default()
    }
}

impl RecordedResult {
    #[must_use]
    pub fn text(&self) -> String {
        texts(&self.parts)
    }

    #[must_use]
    pub fn files(&self) -> Vec<RecordedFile> {
        files(&self.parts)
    }
}

fn texts(parts: &[RecordedPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        RecordedPart::Text(text) => Some(text.as_str()),
        RecordedPart::File(_) | RecordedPart::ImageUrl(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn files(parts: &[RecordedPart]) -> Vec<RecordedFile> {
    let files = parts.iter().filter_map(|part| match part {
        RecordedPart::File(file) => Some(file.clone()),
        RecordedPart::Text(_) | RecordedPart::ImageUrl(_) => None,
    });
    files.collect()
}
