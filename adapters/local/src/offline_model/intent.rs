//! Parses what a person wants from a few phrases.

use serde_json::Value;

use super::{
    files::FileSelector,
    phrase::{
        after_verb, split_at_last, split_clauses, strip_polite_prefix, strip_politeness, strip_prefix, strip_suffix,
        unquote,
    },
};

/// The most intents of one message.
pub(super) const MAX_INTENTS: usize = 10;

/// One thing that a person wants.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Intent {
    /// To see the help.
    Help,
    /// Something that is not understood.
    Unknown,
    /// Files without text, or with text that is not understood.
    Arrived {
        understood: bool,
    },
    /// More than [`MAX_INTENTS`].
    TooMany,
    /// To see the tools.
    Tools,
    /// A direct tool call; the arguments, or the reason why they are not JSON.
    Tool {
        name: String,
        arguments: Result<Value, String>,
    },
    /// To save files in the workspace.
    Save {
        what: Vec<FileSelector>,
        to: Option<Destination>,
        overwrite: bool,
    },
    /// To get files with the reply.
    Send {
        what: Vec<FileSelector>,
    },
    List {
        path: Option<String>,
    },
    /// To see the names of the files that the person sent.
    Received,
    /// To see the content of files.
    Read {
        what: Vec<FileSelector>,
    },
    Write {
        path: String,
        content: String,
        overwrite: bool,
    },
    /// To write a new file, but the text is missing.
    WriteWithoutContent,
    /// To replace text in a file of the workspace.
    Edit {
        path: String,
        old: String,
        new: String,
    },
    /// To replace text, but it is missing.
    EditWithoutText,
    /// To find text in the files of a directory, or in one file.
    Search {
        query: String,
        path: Option<String>,
    },
    /// To delete a file of the workspace, the files that match a pattern, or a folder.
    Delete {
        path: String,
        is_folder: bool,
    },
    /// To delete a file of the conversation, for which there is a command.
    DeleteByNumber {
        number: String,
    },
}

/// Where a file is saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Destination {
    /// Under its own name in this directory, which has no slash at its end.
    Directory(String),
    File(String),
}

pub(super) fn parse_intents(text: &str, has_files: bool) -> Vec<Intent> {
    let text = text.trim();
    if text.is_empty() {
        return vec![if has_files { Intent::Arrived { understood: true } } else { Intent::Help }];
    }
    if let Some(rest) = after_verb(text, &["/tool", "/tools"]) {
        return vec![parse_tool_call(rest)];
    }
    let mut intents: Vec<Intent> = Vec::new();
    let takes_the_rest = |rest: &str| {
        let rest = strip_polite_prefix(rest);
        parse_write(rest).is_some() || parse_edit(rest).is_some()
    };
    for clause in split_clauses(text, MAX_INTENTS + 1, takes_the_rest) {
        if intents.len() == MAX_INTENTS {
            intents.push(Intent::TooMany);
            break;
        }
        parse_clause(&mut intents, clause);
    }
    if has_files && intents.iter().all(|intent| *intent == Intent::Unknown) {
        return vec![Intent::Arrived { understood: false }];
    }
    intents.dedup_by(|later, earlier| *later == Intent::Unknown && *earlier == Intent::Unknown);
    intents
}

/// Parses a clause, which may also modify the intent before it.
fn parse_clause(intents: &mut Vec<Intent>, clause: &str) {
    let text = strip_politeness(clause);
    let replaces = after_verb(text, &["overwrite", "replace"])
        .is_some_and(|target| parse_selectors(target) == [FileSelector::Recent]);
    match (parse_clause_intent(clause, text), intents.last_mut()) {
        (_, Some(Intent::Save { overwrite, .. } | Intent::Write { overwrite, .. })) if replaces => *overwrite = true,
        // Only the last selection of a turn counts, so all files to send must be in one.
        (Intent::Send { what: selectors }, _) => {
            let earlier = intents.iter_mut().find_map(|intent| match intent {
                Intent::Send { what } => Some(what),
                _ => None,
            });
            match earlier {
                Some(what) => what.extend(selectors),
                None => intents.push(Intent::Send { what: selectors }),
            }
        }
        (intent, _) => intents.push(intent),
    }
}

fn parse_tool_call(rest: &str) -> Intent {
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if name.is_empty() {
        return Intent::Tools;
    }
    let arguments = match arguments.trim() {
        "" => Ok(Value::Object(serde_json::Map::new())),
        text => serde_json::from_str(text).map_err(|error| error.to_string()),
    };
    Intent::Tool { name: name.to_owned(), arguments }
}

fn parse_clause_intent(clause: &str, text: &str) -> Intent {
    let polite_clause = strip_polite_prefix(clause);
    if let Some(intent) = parse_write(polite_clause).or_else(|| parse_edit(polite_clause)) {
        return intent;
    }
    let lower = text.to_lowercase();
    let is_question = ["what", "which", "show", "list"].iter().any(|word| lower.starts_with(word));
    let about_sent = ["did i send", "have i sent", "i sent", "did you get", "did you receive", "i've sent"];
    if is_question && about_sent.iter().any(|phrase| lower.contains(phrase)) {
        return Intent::Received;
    }
    if matches!(lower.as_str(), "help" | "" | "hi" | "hello" | "hey" | "/help" | "/start" | "what can you do") {
        return Intent::Help;
    }
    if let Some(rest) = after_verb(text, &["save", "store", "keep"]) {
        return parse_save(rest);
    }
    if let Some(rest) = after_verb(text, &["send", "resend", "give", "return", "get"]) {
        return Intent::Send { what: parse_selectors(rest) };
    }
    if let Some(intent) = after_verb(text, &["search"]).and_then(parse_search) {
        return intent;
    }
    if let Some(intent) = after_verb(text, &["delete", "remove"]).and_then(parse_delete) {
        return intent;
    }
    if let Some(rest) = after_verb(text, &["list", "ls"]) {
        return Intent::List { path: find_path(rest) };
    }
    let show_target = after_verb(text, &["show"]);
    if show_target.is_some_and(|rest| matches!(parse_selectors(rest).as_slice(), [FileSelector::All])) {
        return Intent::List { path: None };
    }
    if let Some(rest) = show_target.or_else(|| after_verb(text, &["read", "open", "cat"])) {
        return Intent::Read { what: parse_selectors(rest) };
    }
    question(text, &lower)
}

/// Understands `what …` and `which …`.
fn question(words: &str, lower: &str) -> Intent {
    if let Some(name) = strip_prefix(words, "what does ").and_then(|rest| strip_suffix(rest, " say")) {
        return Intent::Read { what: parse_selectors(name) };
    }
    let inside = ["what's in ", "what is in ", "what's inside ", "what is inside "];
    if let Some(name) = inside.iter().find_map(|phrase| strip_prefix(words, phrase)) {
        let directory = |path: &str| !path.rsplit('/').next().unwrap_or_default().contains('.');
        return match parse_selectors(name).as_slice() {
            [FileSelector::Path(path)] if directory(path) => Intent::List { path: Some(path.clone()) },
            _ if name.to_lowercase().contains("workspace") => Intent::List { path: None },
            what => Intent::Read { what: what.to_vec() },
        };
    }
    let is_question = lower.starts_with("what") || lower.starts_with("which");
    if is_question && (lower.contains("files") || lower.contains("do you have")) {
        return Intent::List { path: find_path(words) };
    }
    Intent::Unknown
}

/// The first word that is a path.
fn find_path(text: &str) -> Option<String> {
    text.split_whitespace().map(unquote).find(|word| word.starts_with(['/', '~'])).map(str::to_owned)
}

fn parse_save(rest: &str) -> Intent {
    let suffixes = [", overwriting", " overwriting", ", overwrite", " overwrite", ", replace", " replace"];
    let overwrite_target = suffixes.iter().find_map(|mark| strip_suffix(rest, mark));
    let target = overwrite_target.unwrap_or(rest);
    // "as" takes precedence, because the others also occur in names: `save it as letter to Bob.txt`.
    let split = split_at_last(target, &["as"]).or_else(|| split_at_last(target, &["to", "into", "in", "under"]));
    let (what, to) = match split {
        Some((what, word, place)) if !place.is_empty() => (what, Some(parse_destination(place, word == "as"))),
        _ => (target, None),
    };
    Intent::Save { what: parse_selectors(what), to, overwrite: overwrite_target.is_some() }
}

/// Parses where to save: a directory if it says so, ends in a slash, or follows "to" without an extension.
fn parse_destination(target: &str, is_name: bool) -> Destination {
    let target = strip_prefix(target, "the ").or_else(|| strip_prefix(target, "my ")).unwrap_or(target);
    let directory_name = ["folder ", "directory "].iter().find_map(|word| strip_prefix(target, word));
    let target = unquote(directory_name.unwrap_or(target));
    if ["workspace", "files", "disk", "shared", "shared folder"].iter().any(|word| target.eq_ignore_ascii_case(word)) {
        return Destination::Directory("/shared".to_owned());
    }
    let path = workspace_path(target);
    let last = target.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_root = matches!(path.as_str(), "/shared" | "/tmp" | "~");
    if directory_name.is_some() || target.ends_with('/') || is_root || (!is_name && !last.contains('.')) {
        return Destination::Directory(path.trim_end_matches('/').to_owned());
    }
    Destination::File(path)
}

/// A path as tools accept it; a name without a mount is in `/shared`.
pub(super) fn workspace_path(name: &str) -> String {
    if name.starts_with(['/', '~']) { name.to_owned() } else { format!("/shared/{name}") }
}

/// Parses "write NAME: text", "make a file NAME with text" and "write text to NAME".
fn parse_write(clause: &str) -> Option<Intent> {
    let overwrite = after_verb(clause, &["overwrite", "replace"]);
    let mut rest = overwrite.or_else(|| after_verb(clause, &["write", "create", "make"]))?;
    let mut is_file = false;
    while let Some(shorter) =
        ["me ", "a ", "an ", "the ", "new ", "text ", "file ", "called ", "named "].iter().find_map(|word| {
            let shorter = strip_prefix(rest, word)?.trim_start();
            is_file |= *word == "file ";
            Some(shorter)
        })
    {
        rest = shorter;
    }
    let write_intent = |name: &str, content: &str| Intent::Write {
        path: workspace_path(name),
        content: unquote(content).to_owned(),
        overwrite: overwrite.is_some(),
    };
    let (name, after) = split_name(rest);
    let is_file = is_file || name.len() + 2 <= rest.len() - after.len() || is_likely_file_name(name);
    if is_file && !name.is_empty() {
        let after = after.trim_start();
        let separators = [":", "with the text ", "with text ", "with ", "containing ", "that says ", "saying "];
        let content = separators.iter().find_map(|mark| strip_prefix(after, mark)).map(str::trim);
        if let Some(content) = content.filter(|content| !content.is_empty()) {
            return Some(write_intent(name, content.strip_prefix(": ").unwrap_or(content)));
        }
        if strip_politeness(after).is_empty() && overwrite.is_none() {
            return Some(Intent::WriteWithoutContent);
        }
    }
    let (content, _, name) = split_at_last(rest, &["to", "into"])?;
    let name = unquote(strip_politeness(name));
    (is_likely_file_name(name) && !content.is_empty()).then(|| write_intent(name, content))
}

/// Parses "edit NAME: OLD => NEW"; the new text may be empty.
fn parse_edit(clause: &str) -> Option<Intent> {
    let (name, rest) = split_name(after_verb(clause, &["edit"])?);
    let texts = rest.trim_start().strip_prefix(':').and_then(|texts| texts.split_once("=>"));
    Some(match texts.map(|(old, new)| (unquote(old), unquote(new))) {
        Some((old, new)) if !name.is_empty() && !old.is_empty() => {
            Intent::Edit { path: workspace_path(name), old: old.to_owned(), new: new.to_owned() }
        }
        _ => Intent::EditWithoutText,
    })
}

/// Parses what follows "search": words, and "in" a path at the end.
fn parse_search(rest: &str) -> Option<Intent> {
    let words = strip_prefix(rest, "for ").unwrap_or(rest);
    let is_path = |name: &str| name.ends_with('/') || is_likely_file_name(name);
    let (words, path) = match split_at_last(words, &["in"]) {
        Some((words, _, name)) if is_path(unquote(name)) => (words, Some(workspace_path(unquote(name)))),
        _ => (words, None),
    };
    let query = unquote(words);
    (!query.is_empty()).then(|| Intent::Search { query: query.to_owned(), path })
}

/// Parses what follows "delete": a path, a pattern, a folder with a slash at its end, or a number.
fn parse_delete(rest: &str) -> Option<Intent> {
    let name = unquote(rest);
    if let Some(number) = name.strip_prefix('#').filter(|number| number.parse::<u64>().is_ok()) {
        return Some(Intent::DeleteByNumber { number: number.to_owned() });
    }
    let folder = name.strip_suffix('/');
    let is_quoted = name.len() < rest.trim().len();
    let is_path = is_quoted || folder.is_some() || name.contains(['*', '?']) || is_likely_file_name(name);
    is_path.then(|| Intent::Delete { path: workspace_path(folder.unwrap_or(name)), is_folder: folder.is_some() })
}

/// Splits off the name at the beginning: quoted, or up to a space or a colon.
fn split_name(text: &str) -> (&str, &str) {
    for (open, close) in [('"', '"'), ('`', '`'), ('“', '”')] {
        let inside = text.strip_prefix(open).and_then(|rest| rest.split_once(close));
        if let Some((name, rest)) = inside {
            return (name.trim(), rest);
        }
    }
    let end = text.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(text.len());
    (&text[..end], &text[end..])
}

fn is_likely_file_name(word: &str) -> bool {
    let middle = word.trim_matches('.');
    (middle.contains('.') || word.starts_with(['/', '~'])) && !word.contains(char::is_whitespace)
}

/// Parses the names of files: "photo.jpg and #3", "everything", "the pdf".
pub(super) fn parse_selectors(text: &str) -> Vec<FileSelector> {
    let mut text = text.trim();
    while let Some(shorter) = [" back", " to me", " again", " over", " here", " instead", ":"]
        .iter()
        .find_map(|word| strip_suffix(text, word))
    {
        text = shorter.trim();
    }
    let lower = text.to_ascii_lowercase();
    let (mut selectors, mut start, mut at, mut quote) = (Vec::new(), 0, 0, None);
    while let Some(c) = text[at..].chars().next() {
        let separator = [", and ", " and ", " & ", ", ", ","].iter().find(|joint| lower[at..].starts_with(**joint));
        match (quote, c) {
            (None, '"' | '`' | '“') => quote = Some(if c == '“' { '”' } else { c }),
            (Some(closing), c) if c == closing => quote = None,
            (None, _) if separator.is_some() => {
                selectors.push(parse_selector(&text[start..at]));
                at += separator.map_or(1, |joint| joint.len());
                start = at;
                continue;
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    selectors.push(parse_selector(&text[start..]));
    selectors
}

fn parse_selector(item: &str) -> FileSelector {
    const FLUFF: [&str; 15] = [
        "me ",
        "back ",
        "the ",
        "my ",
        "your ",
        "a ",
        "file ",
        "files ",
        "attachment ",
        "called ",
        "named ",
        "number ",
        "contents of ",
        "over ",
        "again ",
    ];
    let mut item = item.trim();
    loop {
        match item.to_lowercase().as_str() {
            "all" | "everything" | "all files" | "all the files" | "all my files" | "my files" | "every file"
            | "your files" | "all attachments" | "my attachments" => return FileSelector::All,
            "" | "it" | "this" | "that" | "them" | "these" | "those" | "both" | "file" | "files" | "this file"
            | "that file" | "these files" | "those files" | "attachment" | "attachments" | "all of them"
            | "all of it" | "all of these" | "them all" | "it all" | "me" | "back" => return FileSelector::Recent,
            "photo" | "picture" | "image" | "pic" => return FileSelector::Kind("image/", false),
            "photos" | "pictures" | "images" | "pics" => return FileSelector::Kind("image/", true),
            "pdf" => return FileSelector::Kind("application/pdf", false),
            "pdfs" => return FileSelector::Kind("application/pdf", true),
            "video" => return FileSelector::Kind("video/", false),
            "videos" => return FileSelector::Kind("video/", true),
            "audio" | "song" | "recording" => return FileSelector::Kind("audio/", false),
            _ => {}
        }
        let Some(shorter) = FLUFF.iter().find_map(|word| strip_prefix(item, word)) else { break };
        item = shorter.trim();
    }
    let name = unquote(item);
    if name.starts_with(['/', '~']) {
        return FileSelector::Path(name.to_owned());
    }
    match name.strip_prefix('#').unwrap_or(name).parse() {
        Ok(number) => FileSelector::Number(number),
        Err(_) => FileSelector::Name(name.to_owned()),
    }
}
