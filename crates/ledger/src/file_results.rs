//! The results of tools that tell what is in a file: which they are, by the calls that name it, and what takes their place
//! once it is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use satchel_domain::{
    Attachment, AttachmentId, CallId, HistoryMessage, ToolCall, ToolOutcome, WorkspacePath, path::Mount,
    script::SCRIPT_TOOL,
};
use satchel_ports::ledger::JournalEntry;
use serde_json::Value;
use uuid::Uuid;

use crate::stored::AttachmentRef;

/// Tools whose results never hold what is in a file at a path that they are given.
const TOOLS_WITHOUT_CONTENT: [&str; 6] =
    ["attachment.add", "attachment.save_all", "attachment_save", "file_delete", "file_list", "file_write"];

/// The tool that reads files which its arguments don't name.
const SEARCH_TOOL: &str = "file_search";

/// The arguments in which tools take the id of a file.
const ID_ARGUMENTS: [&str; 4] = ["id", "ids", "attachment_id", "attachment_ids"];

/// How calls name a file: by its id, by its number, and by the paths at which it was saved.
#[derive(Debug)]
pub struct FileMentions {
    id: String,
    number: u64,
    /// That of its bytes, which stands in the results of saving them.
    digest: String,
    paths: BTreeSet<WorkspacePath>,
}

/// Results that tell what is in a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FileResults {
    /// The calls whose results they are.
    pub calls: BTreeSet<CallId>,
    /// The files that came with these results.
    pub files: BTreeSet<AttachmentId>,
}

impl FileMentions {
    /// A file that was saved at no path so far.
    #[must_use]
    pub fn new(file: &Attachment) -> Self {
        let (id, digest) = (file.id.to_string(), file.sha256.to_string());
        Self { id, number: file.number.get(), digest, paths: BTreeSet::new() }
    }

    /// A text that stands in each result of saving the file.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Adds the paths at which calls of a turn saved the file.
    pub fn add_saved_paths(&mut self, journal: &[JournalEntry<AttachmentRef>]) {
        for data in outcomes(journal).values().filter_map(|outcome| outcome.data.as_ref()) {
            collect_saved_paths(data, &self.digest, &mut self.paths);
        }
    }

    /// Texts of which at least one stands in the journal of each turn with a result that tells what is in the file.
    #[must_use]
    pub fn search_texts(&self) -> Vec<String> {
        let number = self.number;
        let mut texts = vec![self.id.clone(), self.digest.clone(), format!("\"{number}\""), format!("\"#{number}\"")];
        texts.extend(ID_ARGUMENTS.iter().map(|argument| format!("\"{argument}\":{number}")));
        texts.extend(self.paths.iter().filter_map(WorkspacePath::file_name).map(json_text));
        texts
    }

    /// Finds the results in the journal of a turn that tell what is in the file.
    #[must_use]
    pub fn find_results(&self, journal: &[JournalEntry<AttachmentRef>]) -> FileResults {
        let outcomes = outcomes(journal);
        let calls = journal.iter().flat_map(|entry| match entry {
            JournalEntry::Model { calls, .. } => calls.as_slice(),
            _ => &[],
        });
        let mut results = FileResults::default();
        for call in calls {
            let outcome = outcomes.get(&call.id.ordinal).copied();
            if self.is_named_in(call) || outcome.is_some_and(|outcome| self.is_found_in(call, outcome)) {
                results.calls.insert(call.id);
                let files = outcome.into_iter().flat_map(|outcome| &outcome.attachments);
                results.files.extend(files.map(|file| file.id));
            }
        }
        results
    }

    /// Whether a call names the file, and may answer with what is in it.
    fn is_named_in(&self, call: &ToolCall) -> bool {
        let reads_paths = !TOOLS_WITHOUT_CONTENT.contains(&call.name.as_str());
        let is_named = |text: &str| text.contains(&self.id) || (reads_paths && self.has_path(call, text));
        self.has_number(call) || has_text(&call.arguments, &is_named)
    }

    /// Whether a call gives the file's number where tools take an id.
    fn has_number(&self, call: &ToolCall) -> bool {
        let is_number = |value: &Value| match value {
            Value::Number(number) => number.as_u64() == Some(self.number),
            Value::String(text) => text.trim().trim_start_matches('#').parse::<u64>().is_ok_and(|id| id == self.number),
            _ => false,
        };
        let is_given = |value: &Value| match value {
            Value::Array(values) => values.iter().any(is_number),
            value => is_number(value),
        };
        let is_for_attachments = call.name.starts_with("attachment");
        is_for_attachments && ID_ARGUMENTS.iter().any(|name| call.arguments.get(name).is_some_and(is_given))
    }

    /// Whether an argument is one of the paths, or a script that has one as a text of its own.
    fn has_path(&self, call: &ToolCall, text: &str) -> bool {
        let is_path = text.parse::<WorkspacePath>().is_ok_and(|path| self.paths.contains(&path));
        is_path || (call.name == SCRIPT_TOOL && self.paths.iter().any(|path| is_in_script(path, text)))
    }

    /// Whether a call has saved the file, or found something in it where it was saved.
    fn is_found_in(&self, call: &ToolCall, outcome: &ToolOutcome<AttachmentRef>) -> bool {
        let result = outcome.to_model_text();
        let has_path = || self.paths.iter().any(|path| result.contains(&json_text(&path.to_string())));
        result.contains(&self.digest) || (call.name == SEARCH_TOOL && has_path())
    }
}

impl FileResults {
    /// Adds those of another turn.
    pub fn add(&mut self, other: Self) {
        self.calls.extend(other.calls);
        self.files.extend(other.files);
    }

    /// The turns of the calls, each once.
    #[must_use]
    pub fn turns(&self) -> Vec<Uuid> {
        let turns: BTreeSet<Uuid> = self.calls.iter().map(|call| call.turn.0).collect();
        turns.into_iter().collect()
    }

    /// Replaces what a message of the history says of a file that is forgotten; `None` if it is no such result.
    #[must_use]
    pub fn replace_in_history(
        &self,
        message: HistoryMessage<AttachmentRef>,
        file: &Attachment,
    ) -> Option<HistoryMessage<AttachmentRef>> {
        match message {
            HistoryMessage::Tool { call, attachments, .. } if self.calls.contains(&call) => {
                Some(HistoryMessage::Tool { call, text: replacement(file), attachments })
            }
            _ => None,
        }
    }
}

/// Replaces what an outcome says of a file that is forgotten. Its files stay: each is forgotten by its own number.
#[must_use]
pub fn replace_outcome(outcome: ToolOutcome<AttachmentRef>, file: &Attachment) -> ToolOutcome<AttachmentRef> {
    ToolOutcome { text: Some(replacement(file)), data: None, voice: None, wakes: Vec::new(), ..outcome }
}

/// What the model reads in place of a result.
fn replacement(file: &Attachment) -> String {
    format!("[removed: this result told what is in the file #{}, which was forgotten]", file.number)
}

/// The outcomes of a turn by their ordinals.
fn outcomes(journal: &[JournalEntry<AttachmentRef>]) -> BTreeMap<u32, &ToolOutcome<AttachmentRef>> {
    let entries = journal.iter().filter_map(|entry| match entry {
        JournalEntry::Outcome { ordinal, outcome } => Some((*ordinal, outcome)),
        _ => None,
    });
    entries.collect()
}

/// Collects the paths beside a digest: a result of saving a file has both.
fn collect_saved_paths(value: &Value, digest: &str, paths: &mut BTreeSet<WorkspacePath>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect_saved_paths(value, digest, paths)),
        Value::Object(fields) => {
            let path = fields.get("path").and_then(Value::as_str);
            if fields.get("sha256").and_then(Value::as_str) == Some(digest) {
                paths.extend(path.and_then(|path| path.parse::<WorkspacePath>().ok()));
            }
            fields.values().for_each(|value| collect_saved_paths(value, digest, paths));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a text within a value meets a condition.
fn has_text(value: &Value, is_met: &dyn Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_met(text),
        Value::Array(values) => values.iter().any(|value| has_text(value, is_met)),
        Value::Object(fields) => fields.values().any(|value| has_text(value, is_met)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a script has a path as a text, in full, or as one in `/shared` may be written.
fn is_in_script(path: &WorkspacePath, script: &str) -> bool {
    let relative = path.relative();
    let spellings = [format!("\"{relative}\""), format!("'{relative}'"), format!("~/{relative}")];
    let is_shared = path.mount() == Mount::Shared;
    script.contains(&path.to_string()) || (is_shared && spellings.iter().any(|spelling| script.contains(spelling)))
}

/// A text as it stands within JSON.
fn json_text(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
