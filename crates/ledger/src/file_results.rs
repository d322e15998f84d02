//! The results of tools that tell what is in a file: which they are, by the calls that name it, and what takes their place
//! once it is forgotten.

use std::collections::{BTreeMap, BTreeSet};

use satchel_domain::{
    Attachment, AttachmentId, CallId, HistoryMessage, ToolCall, ToolOutcome, WorkspacePath, path::Mount,
    script::SCRIPT_TOOL,
};
use satchel_ports::ledger::JournalEntry;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::stored::AttachmentRef;

/// Tools whose results never hold what is in a file at a path that they are given.
const TOOLS_WITHOUT_CONTENT: [&str; 6] =
    ["attachment.add", "attachment.save_all", "attachment_save", "file_delete", "file_list", "file_write"];

/// The tool that reads files which its arguments don't name.
const SEARCH_TOOL: &str = "file_search";

/// How many digits of a digest the result of a download has.
const SHORT_DIGEST_LENGTH: usize = 10;

/// How calls name a file: by its id, and by the paths at which it was saved. No tool that reads files takes a number.
#[derive(Debug)]
pub struct FileMentions {
    id: String,
    /// That of its bytes, which the results of saving them have.
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
        Self { id: file.id.to_string(), digest: file.sha256.to_string(), paths: BTreeSet::new() }
    }

    /// A text that each result of saving the file has.
    #[must_use]
    pub fn saving_text(&self) -> &str {
        self.digest.get(..SHORT_DIGEST_LENGTH).unwrap_or(&self.digest)
    }

    /// Adds the paths at which calls of a turn saved the file.
    pub fn add_saved_paths(&mut self, journal: &[JournalEntry<AttachmentRef>]) {
        for data in outcomes(journal).values().filter_map(|outcome| outcome.data.as_ref()) {
            collect_saved_paths(data, &self.digest, &mut self.paths);
        }
    }

    /// Texts of which at least one is in the journal of each turn with a result that tells what is in the file.
    #[must_use]
    pub fn search_texts(&self) -> Vec<String> {
        let mut texts = BTreeSet::from([self.id.clone(), self.id.to_uppercase(), self.saving_text().to_owned()]);
        texts.extend(self.paths.iter().flat_map(path_texts));
        if !self.paths.is_empty() {
            texts.insert(format!("\"{SEARCH_TOOL}\""));
        }
        texts.into_iter().collect()
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

    /// Whether a call names the file, and may answer with what is in it. Earlier versions took ids in capitals, too.
    fn is_named_in(&self, call: &ToolCall) -> bool {
        let reads_paths = !TOOLS_WITHOUT_CONTENT.contains(&call.name.as_str());
        let has_id = |text: &str| text.to_ascii_lowercase().contains(&self.id);
        let is_named = |text: &str| has_id(text) || (reads_paths && self.has_path(call, text));
        has_text(&call.arguments, &is_named)
    }

    /// Whether an argument is one of the paths, or a script that has one as a text of its own.
    fn has_path(&self, call: &ToolCall, text: &str) -> bool {
        let is_path = text.parse::<WorkspacePath>().is_ok_and(|path| self.paths.contains(&path));
        is_path || (call.name == SCRIPT_TOOL && self.paths.iter().any(|path| is_in_script(path, text)))
    }

    /// Whether a call has saved the file, or may have found something in it where it was saved.
    fn is_found_in(&self, call: &ToolCall, outcome: &ToolOutcome<AttachmentRef>) -> bool {
        self.has_digest_in(outcome) || (call.name == SEARCH_TOOL && self.is_searched_in(call, outcome))
    }

    /// Whether a search has found one of the paths. One with a file had more to say than its result holds, so it counts if
    /// it went through a directory of one.
    fn is_searched_in(&self, call: &ToolCall, outcome: &ToolOutcome<AttachmentRef>) -> bool {
        let given = call.arguments.get("path").and_then(Value::as_str);
        let directory = given.map_or(Ok(WorkspacePath::root(Mount::Shared)), str::parse::<WorkspacePath>);
        let is_cut = !outcome.attachments.is_empty();
        let may_be_cut_off =
            |path: &WorkspacePath| is_cut && directory.as_ref().is_ok_and(|directory| is_beneath(path, directory));
        let result = outcome.to_model_text();
        self.paths.iter().any(|path| may_be_cut_off(path) || result.contains(&json_text(&path.to_string())))
    }

    /// Whether an outcome has the address of the file's bytes where erasing its record in lists leaves it. A text that is
    /// no JSON, such as the beginning of a long result, has no records.
    fn has_digest_in(&self, outcome: &ToolOutcome<AttachmentRef>) -> bool {
        let is_in_text = |text: &str| {
            text.contains(self.saving_text())
                && match serde_json::from_str::<Value>(text) {
                    Ok(value) => self.has_digest(&value),
                    Err(_) => text.contains(&self.digest),
                }
        };
        let is_in_data = outcome.data.as_ref().is_some_and(|data| self.has_digest(data));
        is_in_data || outcome.text.as_deref().is_some_and(is_in_text)
    }

    /// Whether a value has the digest. In a record of a list, which has the file's id and no path, it doesn't count: the
    /// record of this file is erased by its id, and that of another file with the same bytes stays.
    fn has_digest(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains(&self.digest),
            Value::Array(values) => values.iter().any(|value| self.has_digest(value)),
            Value::Object(fields) => {
                let is_record = fields.contains_key("id") && !fields.contains_key("path");
                let counts = |name: &str| !is_record || name != "sha256";
                saved_path(fields, &self.digest).is_some()
                    || fields.iter().any(|(name, value)| counts(name) && self.has_digest(value))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
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
            paths.extend(saved_path(fields, digest).and_then(|path| path.parse::<WorkspacePath>().ok()));
            fields.values().for_each(|value| collect_saved_paths(value, digest, paths));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the path beside a digest, which a download shortens.
fn saved_path<'a>(fields: &'a Map<String, Value>, digest: &str) -> Option<&'a str> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let is_short = |short: &str| short.len() == SHORT_DIGEST_LENGTH && digest.starts_with(short);
    let is_saved = text("sha256") == Some(digest) || text("sha10").is_some_and(is_short);
    text("path").filter(|_| is_saved)
}

/// Texts of which one is wherever a path is written: its last component behind a slash, or, directly in `/shared`, as a text
/// of its own, in JSON or in a script within that.
fn path_texts(path: &WorkspacePath) -> Vec<String> {
    let Some(name) = path.file_name().map(json_text) else { return Vec::new() };
    let mut texts = vec![format!("/{name}")];
    if path.mount() == Mount::Shared && !path.relative().contains('/') {
        texts.extend([format!("\"{name}\""), format!("\"{name}\\"), format!("\"{name}/"), format!("'{name}'")]);
    }
    texts
}

/// Whether a path is a directory, or something in it.
fn is_beneath(path: &WorkspacePath, directory: &WorkspacePath) -> bool {
    let is_in = |rest: &str| rest.is_empty() || rest.starts_with('/') || directory.relative().is_empty();
    path.mount() == directory.mount() && path.relative().strip_prefix(directory.relative()).is_some_and(is_in)
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
