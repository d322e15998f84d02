//! The files that the offline model knows, and how people name them.

use satchel_domain::size;
use satchel_ports::ModelMessage;
use serde_json::Value;

use super::replies::inline_code;

/// The prefix of a file reference.
const REFERENCE_PREFIX: &str = "[attachment ";

/// A file of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedFile {
    pub(super) id: String,
    pub(super) number: Option<u64>,
    pub(super) filename: String,
    pub(super) mime: String,
    pub(super) bytes: u64,
    pub(super) from_person: bool,
    /// Created for the model; the person gets it only by name or number.
    pub(super) internal: bool,
}

impl ListedFile {
    /// The line about it for a person.
    pub(super) fn summary_line(&self) -> String {
        let number = self.number.map(|number| format!("#{number} ")).unwrap_or_default();
        format!("- {number}{}, {}, {}", inline_code(&self.filename), self.mime, size::format_bytes(self.bytes))
    }
}

/// How a person names files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileSelector {
    /// it, this, that, them: the attached files, otherwise the ones mentioned last.
    Recent,
    /// everything: the attached files, otherwise all.
    All,
    /// `#17`.
    Number(u64),
    /// "the photo", "the pictures": the prefix of the MIME type, and whether it is plural.
    Kind(&'static str, bool),
    /// `/shared/a.txt`: a file of the workspace.
    Path(String),
    Name(String),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileSelection {
    pub(super) files: Vec<ListedFile>,
    /// The selectors that match no file.
    pub(super) missing: Vec<FileSelector>,
}

/// Selects from the attached files. A missing one may be older.
pub(super) fn select_new(selectors: &[FileSelector], new_files: &[ListedFile]) -> FileSelection {
    select(selectors, |selector| match selector {
        FileSelector::Recent | FileSelector::All => new_files.to_vec(),
        other => find_matching(other, new_files),
    })
}

/// Selects from the attached files and all others.
pub(super) fn select_all(
    selectors: &[FileSelector],
    new_files: &[ListedFile],
    all: &[ListedFile],
    mentioned: &[String],
) -> FileSelection {
    select(selectors, |selector| match selector {
        FileSelector::Recent | FileSelector::All if !new_files.is_empty() => new_files.to_vec(),
        FileSelector::Recent => {
            let mentioned_files: Vec<ListedFile> =
                all.iter().filter(|file| mentioned.contains(&file.id)).cloned().collect();
            if mentioned_files.is_empty() {
                all.iter().rfind(|file| !file.internal).cloned().into_iter().collect()
            } else {
                mentioned_files
            }
        }
        FileSelector::All => all.iter().filter(|file| !file.internal).cloned().collect(),
        other => {
            let new = find_matching(other, new_files);
            if new.is_empty() { find_matching(other, all) } else { new }
        }
    })
}

fn select(selectors: &[FileSelector], matches: impl Fn(&FileSelector) -> Vec<ListedFile>) -> FileSelection {
    let mut found = FileSelection::default();
    for selector in selectors {
        let files = matches(selector);
        if files.is_empty() {
            found.missing.push(selector.clone());
        }
        for file in files {
            if !found.files.iter().any(|other| other.id == file.id) {
                found.files.push(file);
            }
        }
    }
    found
}

/// The files that match a number, kind or name; of several with one name the newest. `files` are oldest first.
fn find_matching(selector: &FileSelector, files: &[ListedFile]) -> Vec<ListedFile> {
    let newest = |is_match: &dyn Fn(&ListedFile) -> bool| files.iter().rev().find(|file| is_match(file)).cloned();
    let file = match selector {
        FileSelector::Number(number) => newest(&|file| file.number == Some(*number)),
        FileSelector::Kind(kind, true) => {
            return files.iter().filter(|file| file.mime.starts_with(kind)).cloned().collect();
        }
        FileSelector::Kind(kind, false) => newest(&|file| file.mime.starts_with(kind)),
        FileSelector::Name(name) => {
            let lower = name.to_lowercase();
            let stem = |file: &ListedFile| {
                let lower = file.filename.to_lowercase();
                lower.rsplit_once('.').map_or(lower.clone(), |(stem, _)| stem.to_owned())
            };
            newest(&|file| file.filename == *name)
                .or_else(|| newest(&|file| file.filename.to_lowercase() == lower))
                .or_else(|| newest(&|file| stem(file) == lower))
        }
        FileSelector::Recent | FileSelector::All | FileSelector::Path(_) => None,
    };
    file.into_iter().collect()
}

/// Parses the result of `attachment.list`, oldest first; `None` when it is not a list. Tolerant in the names of fields,
/// because the tool can be replaced.
pub(super) fn read_list(answer: &str) -> Option<Vec<ListedFile>> {
    let value: Value = serde_json::from_str(answer).ok()?;
    let items = list_items(&value, &["attachments", "files"])?;
    let mut files: Vec<ListedFile> = items.iter().filter_map(read_file).collect();
    files.sort_by_key(|file| file.number);
    Some(files)
}

fn read_file(item: &Value) -> Option<ListedFile> {
    Some(ListedFile {
        id: item["id"].as_str()?.to_owned(),
        number: item["number"].as_u64(),
        filename: first_text(item, &["filename", "name"]).unwrap_or("file").to_owned(),
        mime: first_text(item, &["mimeType", "mime_type", "mime"]).unwrap_or("application/octet-stream").to_owned(),
        bytes: item["bytes"].as_u64().unwrap_or(0),
        from_person: item["source"].as_str().is_none_or(|source| source == "user"),
        internal: item["visibility"].as_str() == Some("internal"),
    })
}

/// The list in a result: the result itself, or the first of these fields that holds one.
pub(super) fn list_items<'v>(value: &'v Value, fields: &[&str]) -> Option<&'v Vec<Value>> {
    value.as_array().or_else(|| fields.iter().find_map(|field| value[*field].as_array()))
}

/// The first of these fields that holds a text.
pub(super) fn first_text<'v>(value: &'v Value, fields: &[&str]) -> Option<&'v str> {
    fields.iter().find_map(|field| value[*field].as_str())
}

/// A tool result without the references to its files, which follow the text.
pub(super) fn strip_references(text: &str) -> &str {
    match text.strip_prefix(REFERENCE_PREFIX) {
        Some(_) => "",
        None => text.find(&format!("\n{REFERENCE_PREFIX}")).map_or(text, |end| &text[..end]),
    }
}

/// The ids of the files in the newest message with references.
pub(super) fn last_mentioned_ids(messages: &[ModelMessage]) -> Vec<String> {
    let mentioned = |message: &ModelMessage| {
        let (text, attachments) = match message {
            ModelMessage::User { text, attachments } | ModelMessage::Tool { text, attachments, .. } => {
                (text, attachments.as_slice())
            }
            ModelMessage::Assistant { text, .. } => (text, [].as_slice()),
            ModelMessage::Note { .. } | ModelMessage::Context { .. } => return vec![],
        };
        // An escaped one is text, not a reference.
        let markers = text.match_indices(REFERENCE_PREFIX).filter(|(at, _)| !text[..*at].ends_with('\\'));
        let ids = markers.filter_map(|(at, _)| text[at + REFERENCE_PREFIX.len()..].split([' ', ']']).next());
        ids.map(str::to_owned).chain(attachments.iter().map(|file| file.id.to_string())).collect()
    };
    messages.iter().rev().map(mentioned).find(|ids: &Vec<String>| !ids.is_empty()).unwrap_or_default()
}
