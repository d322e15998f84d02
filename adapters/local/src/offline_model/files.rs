//! The files that the offline model knows of, and how people name them.

use satchel_domain::size;
use satchel_ports::ModelMessage;
use serde_json::Value;

use super::replies::inline_code;

/// What a reference to a file begins with.
const MARKER: &str = "[attachment ";

/// A file of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedFile {
    pub(super) id: String,
    pub(super) number: u64,
    pub(super) filename: String,
    pub(super) mime: String,
    pub(super) bytes: u64,
    pub(super) from_person: bool,
    /// Made for the model; the person gets it only by name or number.
    pub(super) internal: bool,
}

impl ListedFile {
    /// The line that tells a person of it.
    pub(super) fn line(&self) -> String {
        let number = if self.number == 0 { String::new() } else { format!("#{} ", self.number) };
        format!("- {number}{}, {}, {}", inline_code(&self.filename), self.mime, size::format_bytes(self.bytes))
    }
}

/// How a person names files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileSelector {
    /// it, this, that, them: those that came along, else those that were spoken of last.
    Recent,
    /// everything: those that came along, else all.
    All,
    /// `#17`.
    Number(u64),
    /// "the photo", "the pictures": the beginning of the MIME type, and whether there are several.
    Kind(&'static str, bool),
    /// `/shared/a.txt`: a file of the workspace.
    Path(String),
    Name(String),
}

/// Which files are meant.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FileSelection {
    pub(super) files: Vec<ListedFile>,
    /// What names no file that is known.
    pub(super) missing: Vec<FileSelector>,
}

/// Finds the files that came along with the message. What isn't among them may be older.
pub(super) fn among_new(selectors: &[FileSelector], here: &[ListedFile]) -> FileSelection {
    find(selectors, |selector| match selector {
        FileSelector::Recent | FileSelector::All => here.to_vec(),
        other => matching(other, here),
    })
}

/// Finds files among those that came along and all others.
pub(super) fn among_all(
    selectors: &[FileSelector],
    here: &[ListedFile],
    all: &[ListedFile],
    mentioned: &[String],
) -> FileSelection {
    find(selectors, |selector| match selector {
        FileSelector::Recent | FileSelector::All if !here.is_empty() => here.to_vec(),
        FileSelector::Recent => {
            let spoken_of: Vec<ListedFile> = all.iter().filter(|file| mentioned.contains(&file.id)).cloned().collect();
            if spoken_of.is_empty() {
                all.iter().rfind(|file| !file.internal).cloned().into_iter().collect()
            } else {
                spoken_of
            }
        }
        FileSelector::All => all.iter().filter(|file| !file.internal).cloned().collect(),
        other => {
            let new = matching(other, here);
            if new.is_empty() { matching(other, all) } else { new }
        }
    })
}

fn find(selectors: &[FileSelector], meant: impl Fn(&FileSelector) -> Vec<ListedFile>) -> FileSelection {
    let mut found = FileSelection::default();
    for selector in selectors {
        let files = meant(selector);
        if files.is_empty() {
            found.missing.push(selector.clone());
        }
        for file in files {
            if !found.files.iter().any(|known| known.id == file.id) {
                found.files.push(file);
            }
        }
    }
    found
}

/// The files that a number, kind or name means; of several with one name the newest. `files` are oldest first.
fn matching(selector: &FileSelector, files: &[ListedFile]) -> Vec<ListedFile> {
    let newest = |fits: &dyn Fn(&ListedFile) -> bool| files.iter().rev().find(|file| fits(file)).cloned();
    let one = match selector {
        FileSelector::Number(number) => newest(&|file| file.number == *number),
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
    one.into_iter().collect()
}

/// Reads what `attachment.list` answered, oldest first; `None` when it is no list. Tolerant in the names of fields, because a
/// person can replace the tool by one of their own.
pub(super) fn read_list(answer: &str) -> Option<Vec<ListedFile>> {
    let value: Value = serde_json::from_str(answer).ok()?;
    let items = items(&value, &["attachments", "files"])?;
    let mut files: Vec<ListedFile> = items.iter().filter_map(read_file).collect();
    files.sort_by_key(|file| file.number);
    Some(files)
}

fn read_file(item: &Value) -> Option<ListedFile> {
    Some(ListedFile {
        id: item["id"].as_str()?.to_owned(),
        number: item["number"].as_u64().unwrap_or(0),
        filename: first_text(item, &["filename", "name"]).unwrap_or("file").to_owned(),
        mime: first_text(item, &["mimeType", "mime_type", "mime"]).unwrap_or("application/octet-stream").to_owned(),
        bytes: item["bytes"].as_u64().unwrap_or(0),
        from_person: item["source"].as_str().is_none_or(|source| source == "user"),
        internal: item["visibility"].as_str() == Some("internal"),
    })
}

/// The list in an answer: the answer itself, or the first of these fields that holds one.
pub(super) fn items<'v>(value: &'v Value, fields: &[&str]) -> Option<&'v Vec<Value>> {
    value.as_array().or_else(|| fields.iter().find_map(|field| value[*field].as_array()))
}

/// The first of these fields that holds a text.
pub(super) fn first_text<'v>(value: &'v Value, fields: &[&str]) -> Option<&'v str> {
    fields.iter().find_map(|field| value[*field].as_str())
}

/// A tool's answer without the references to its files, which stand behind it.
pub(super) fn without_references(text: &str) -> &str {
    match text.strip_prefix(MARKER) {
        Some(_) => "",
        None => text.find(&format!("\n{MARKER}")).map_or(text, |end| &text[..end]),
    }
}

/// The ids of the files that the youngest message with references speaks of.
pub(super) fn mentioned_last(messages: &[ModelMessage]) -> Vec<String> {
    let mentioned = |message: &ModelMessage| {
        let (text, attachments) = match message {
            ModelMessage::User { text, attachments } | ModelMessage::Tool { text, attachments, .. } => {
                (text, attachments.as_slice())
            }
            ModelMessage::Assistant { text, .. } => (text, [].as_slice()),
            ModelMessage::Note { .. } => return vec![],
        };
        // One that was escaped is somebody's words.
        let markers = text.match_indices(MARKER).filter(|(at, _)| !text[..*at].ends_with('\\'));
        let referred = markers.filter_map(|(at, _)| text[at + MARKER.len()..].split([' ', ']']).next());
        referred.map(str::to_owned).chain(attachments.iter().map(|file| file.id.to_string())).collect()
    };
    messages.iter().rev().map(mentioned).find(|ids: &Vec<String>| !ids.is_empty()).unwrap_or_default()
}
