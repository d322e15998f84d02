//! What the fake model server was asked, in one form for all wires.

use std::time::Instant;

use serde_json::Value;

use crate::ModelWire;

#[derive(Debug, Clone)]
pub struct AskedModel {
    pub wire: ModelWire,
    pub at: Instant,
    /// The model that was asked for.
    pub model: String,
    pub system: String,
    /// The conversation; turns of one side that follow each other are as they came.
    pub turns: Vec<AskedTurn>,
    /// Signatures of the model's thoughts that came back with it.
    pub thoughts: Vec<String>,
    /// The names of the offered tools.
    pub tools: Vec<String>,
    /// The body as it came.
    pub body: Value,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
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
pub enum AskedTurn {
    User(Vec<AskedPart>),
    Model { text: String, calls: Vec<AskedCall> },
    Results(Vec<AskedResult>),
}

/// A part of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedPart {
    Text(String),
    File(AskedFile),
}

/// A file that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedFile {
    pub mime: String,
    /// Its name, where the wire carries one.
    pub name: Option<String>,
    /// Its bytes, decoded.
    pub bytes: Vec<u8>,
}

/// A call of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedCall {
    /// Its id, where the wire carries one.
    pub id: Option<String>,
    pub name: String,
    pub arguments: Value,
    pub signature: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AskedResult {
    /// The id of the call, where the wire carries one.
    pub id: Option<String>,
    /// The tool, where the wire carries it.
    pub name: Option<String>,
    /// What it says and shows.
    pub parts: Vec<AskedPart>,
}

impl AskedModel {
    /// All words of the person's turns, Satchel's notes included.
    #[must_use]
    pub fn words(&self) -> String {
        let users = self.turns.iter().filter_map(|turn| match turn {
            AskedTurn::User(parts) => Some(texts(parts)),
            _ => None,
        });
        users.collect::<Vec<_>>().join("\n")
    }

    /// All files of the person's turns.
    #[must_use]
    pub fn files(&self) -> Vec<AskedFile> {
        let users = self.turns.iter().filter_map(|turn| match turn {
            AskedTurn::User(parts) => Some(files(parts)),
            _ => None,
        });
        users.flatten().collect()
    }

    /// All answers of tools, in order.
    #[must_use]
    pub fn results(&self) -> Vec<AskedResult> {
        let results = self.turns.iter().filter_map(|turn| match turn {
            AskedTurn::Results(results) => Some(results.clone()),
            _ => None,
        });
        results.flatten().collect()
    }

    /// All calls, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<AskedCall> {
        let calls = self.turns.iter().filter_map(|turn| match turn {
            AskedTurn::Model { calls, .. } => Some(calls.clone()),
            _ => None,
        });
        calls.flatten().collect()
    }

    /// The words of the person's last turn.
    pub(crate) fn last_words(&self) -> String {
        let last = self.turns.iter().rev().find_map(|turn| match turn {
            AskedTurn::User(parts) => Some(texts(parts)),
            _ => None,
        });
        last.unwrap_or_default()
    }
}

impl AskedResult {
    #[must_use]
    pub fn text(&self) -> String {
        texts(&self.parts)
    }

    #[must_use]
    pub fn files(&self) -> Vec<AskedFile> {
        files(&self.parts)
    }
}

fn texts(parts: &[AskedPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        AskedPart::Text(text) => Some(text.as_str()),
        AskedPart::File(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn files(parts: &[AskedPart]) -> Vec<AskedFile> {
    let files = parts.iter().filter_map(|part| match part {
        AskedPart::File(file) => Some(file.clone()),
        AskedPart::Text(_) => None,
    });
    files.collect()
}
