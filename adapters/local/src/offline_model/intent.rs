//! What a person wants, as far as a few phrases can tell.

use serde_json::Value;

use super::{
    files::FileSelector,
    phrase::{
        after_verb, clauses, polite_before, split_at_last, strip_politeness, strip_prefix, strip_suffix, unquoted,
    },
};

/// How many wishes one message may hold.
pub(super) const MAX_INTENTS: usize = 10;

/// One thing that a person wants.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Intent {
    /// To know what can be done.
    Help,
    /// Something that isn't understood.
    Unknown,
    /// To know what came; files without words, or with words that aren't understood.
    Arrived {
        understood: bool,
    },
    /// More than one message may hold.
    TooMuch,
    /// To see the tools.
    Tools,
    /// A tool, called as it is; without arguments the reason why what was given is no JSON.
    Tool {
        name: String,
        arguments: Result<Value, String>,
    },
    /// Files in the workspace.
    Save {
        what: Vec<FileSelector>,
        to: Option<Destination>,
        overwrite: bool,
    },
    /// Files with the reply.
    Send {
        what: Vec<FileSelector>,
    },
    List {
        path: Option<String>,
    },
    /// The names of the files that the person sent.
    Received,
    /// What stands in files.
    Read {
        what: Vec<FileSelector>,
    },
    Write {
        path: String,
        content: String,
        overwrite: bool,
    },
    /// A new file of which the text is missing.
    WriteWhat,
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
        return vec![tool(rest)];
    }
    let mut wishes: Vec<Intent> = Vec::new();
    for clause in clauses(text, MAX_INTENTS + 1, |rest| write(polite_before(rest)).is_some()) {
        if wishes.len() == MAX_INTENTS {
            wishes.push(Intent::TooMuch);
            break;
        }
        parse_clause(&mut wishes, clause);
    }
    if has_files && wishes.iter().all(|wish| *wish == Intent::Unknown) {
        return vec![Intent::Arrived { understood: false }];
    }
    wishes.dedup_by(|later, earlier| *later == Intent::Unknown && *earlier == Intent::Unknown);
    wishes
}

/// Understands a clause, which may also belong to what was said before it.
fn parse_clause(wishes: &mut Vec<Intent>, clause: &str) {
    let words = strip_politeness(clause);
    let replaces =
        after_verb(words, &["overwrite", "replace"]).is_some_and(|it| selectors(it) == [FileSelector::Recent]);
    match (clause_intent(clause, words), wishes.last_mut()) {
        (_, Some(Intent::Save { overwrite, .. } | Intent::Write { overwrite, .. })) if replaces => *overwrite = true,
        // The last selection of a turn is the one that counts, so all that is to be sent must be one.
        (Intent::Send { what: more }, _) => {
            let earlier = wishes.iter_mut().find_map(|wish| match wish {
                Intent::Send { what } => Some(what),
                _ => None,
            });
            match earlier {
                Some(what) => what.extend(more),
                None => wishes.push(Intent::Send { what: more }),
            }
        }
        (wish, _) => wishes.push(wish),
    }
}

fn tool(rest: &str) -> Intent {
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if name.is_empty() {
        return Intent::Tools;
    }
    let arguments = match arguments.trim() {
        "" => Ok(Value::Object(serde_json::Map::new())),
        given => serde_json::from_str(given).map_err(|error| error.to_string()),
    };
    Intent::Tool { name: name.to_owned(), arguments }
}

fn clause_intent(clause: &str, words: &str) -> Intent {
    if let Some(written) = write(polite_before(clause)) {
        return written;
    }
    let lower = words.to_lowercase();
    let asks = ["what", "which", "show", "list"].iter().any(|word| lower.starts_with(word));
    let about_sent = ["did i send", "have i sent", "i sent", "did you get", "did you receive", "i've sent"];
    if asks && about_sent.iter().any(|phrase| lower.contains(phrase)) {
        return Intent::Received;
    }
    if matches!(lower.as_str(), "help" | "" | "hi" | "hello" | "hey" | "/help" | "/start" | "what can you do") {
        return Intent::Help;
    }
    if let Some(rest) = after_verb(words, &["save", "store", "keep"]) {
        return save(rest);
    }
    if let Some(rest) = after_verb(words, &["send", "resend", "give", "return", "get"]) {
        return Intent::Send { what: selectors(rest) };
    }
    if let Some(rest) = after_verb(words, &["list", "ls"]) {
        return Intent::List { path: path_in(rest) };
    }
    let shown = after_verb(words, &["show"]);
    if shown.is_some_and(|rest| matches!(selectors(rest).as_slice(), [FileSelector::All])) {
        return Intent::List { path: None };
    }
    if let Some(rest) = shown.or_else(|| after_verb(words, &["read", "open", "cat"])) {
        return Intent::Read { what: selectors(rest) };
    }
    question(words, &lower)
}

/// Understands `what …` and `which …`.
fn question(words: &str, lower: &str) -> Intent {
    if let Some(name) = strip_prefix(words, "what does ").and_then(|rest| strip_suffix(rest, " say")) {
        return Intent::Read { what: selectors(name) };
    }
    let inside = ["what's in ", "what is in ", "what's inside ", "what is inside "];
    if let Some(name) = inside.iter().find_map(|phrase| strip_prefix(words, phrase)) {
        let directory = |path: &str| !path.rsplit('/').next().unwrap_or_default().contains('.');
        return match selectors(name).as_slice() {
            [FileSelector::Path(path)] if directory(path) => Intent::List { path: Some(path.clone()) },
            _ if name.to_lowercase().contains("workspace") => Intent::List { path: None },
            what => Intent::Read { what: what.to_vec() },
        };
    }
    let asks = lower.starts_with("what") || lower.starts_with("which");
    if asks && (lower.contains("files") || lower.contains("do you have")) {
        return Intent::List { path: path_in(words) };
    }
    Intent::Unknown
}

/// The first word that is a path.
fn path_in(words: &str) -> Option<String> {
    words.split_whitespace().map(unquoted).find(|word| word.starts_with(['/', '~'])).map(str::to_owned)
}

fn save(rest: &str) -> Intent {
    let marks = [", overwriting", " overwriting", ", overwrite", " overwrite", ", replace", " replace"];
    let marked = marks.iter().find_map(|mark| strip_suffix(rest, mark));
    let unmarked = marked.unwrap_or(rest);
    // "as" says more than the others, which also stand in names: `save it as letter to Bob.txt`.
    let split = split_at_last(unmarked, &["as"]).or_else(|| split_at_last(unmarked, &["to", "into", "in", "under"]));
    let (what, to) = match split {
        Some((what, word, place)) if !place.is_empty() => (what, Some(destination(place, word == "as"))),
        _ => (unmarked, None),
    };
    Intent::Save { what: selectors(what), to, overwrite: marked.is_some() }
}

/// Reads where to save. A place is a directory if it says so, ends in a slash, or follows "to" without an extension.
fn destination(place: &str, is_name: bool) -> Destination {
    let place = strip_prefix(place, "the ").or_else(|| strip_prefix(place, "my ")).unwrap_or(place);
    let said = ["folder ", "directory "].iter().find_map(|word| strip_prefix(place, word));
    let place = unquoted(said.unwrap_or(place));
    if ["workspace", "files", "disk", "shared", "shared folder"].iter().any(|word| place.eq_ignore_ascii_case(word)) {
        return Destination::Directory("/shared".to_owned());
    }
    let path = workspace_path(place);
    let last = place.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let root = matches!(path.as_str(), "/shared" | "/tmp" | "~");
    if said.is_some() || place.ends_with('/') || root || (!is_name && !last.contains('.')) {
        return Destination::Directory(path.trim_end_matches('/').to_owned());
    }
    Destination::File(path)
}

/// A path as tools take it; what names no mount lies in `/shared`.
pub(super) fn workspace_path(name: &str) -> String {
    if name.starts_with(['/', '~']) { name.to_owned() } else { format!("/shared/{name}") }
}

/// Understands "write NAME: text", "make a file NAME with text" and "write text to NAME".
fn write(clause: &str) -> Option<Intent> {
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
    let written = |name: &str, content: &str| Intent::Write {
        path: workspace_path(name),
        content: unquoted(content).to_owned(),
        overwrite: overwrite.is_some(),
    };
    let (name, after) = name_first(rest);
    let is_file = is_file || name.len() + 2 <= rest.len() - after.len() || looks_like_a_name(name);
    if is_file && !name.is_empty() {
        let after = after.trim_start();
        let marks = [":", "with the text ", "with text ", "with ", "containing ", "that says ", "saying "];
        let content = marks.iter().find_map(|mark| strip_prefix(after, mark)).map(str::trim);
        if let Some(content) = content.filter(|content| !content.is_empty()) {
            return Some(written(name, content.strip_prefix(": ").unwrap_or(content)));
        }
        if strip_politeness(after).is_empty() && overwrite.is_none() {
            return Some(Intent::WriteWhat);
        }
    }
    let (content, _, name) = split_at_last(rest, &["to", "into"])?;
    let name = unquoted(strip_politeness(name));
    (looks_like_a_name(name) && !content.is_empty()).then(|| written(name, content))
}

/// Splits off the name at the beginning: what stands in quotes, or what ends at a space or a colon.
fn name_first(text: &str) -> (&str, &str) {
    for (open, close) in [('"', '"'), ('`', '`'), ('“', '”')] {
        let inside = text.strip_prefix(open).and_then(|rest| rest.split_once(close));
        if let Some((name, rest)) = inside {
            return (name.trim(), rest);
        }
    }
    let end = text.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(text.len());
    (&text[..end], &text[end..])
}

fn looks_like_a_name(word: &str) -> bool {
    let middle = word.trim_matches('.');
    (middle.contains('.') || word.starts_with(['/', '~'])) && !word.contains(char::is_whitespace)
}

/// Reads the names of files: "photo.jpg and #3", "everything", "the pdf".
pub(super) fn selectors(what: &str) -> Vec<FileSelector> {
    let mut what = what.trim();
    while let Some(shorter) = [" back", " to me", " again", " over", " here", " instead", ":"]
        .iter()
        .find_map(|word| strip_suffix(what, word))
    {
        what = shorter.trim();
    }
    let lower = what.to_ascii_lowercase();
    let (mut found, mut start, mut at, mut quote) = (Vec::new(), 0, 0, None);
    while let Some(c) = what[at..].chars().next() {
        let joint = [", and ", " and ", " & ", ", ", ","].iter().find(|joint| lower[at..].starts_with(**joint));
        match (quote, c) {
            (None, '"' | '`' | '“') => quote = Some(if c == '“' { '”' } else { c }),
            (Some(closing), c) if c == closing => quote = None,
            (None, _) if joint.is_some() => {
                found.push(selector(&what[start..at]));
                at += joint.map_or(1, |joint| joint.len());
                start = at;
                continue;
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    found.push(selector(&what[start..]));
    found
}

fn selector(item: &str) -> FileSelector {
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
    let name = unquoted(item);
    if name.starts_with(['/', '~']) {
        return FileSelector::Path(name.to_owned());
    }
    match name.strip_prefix('#').unwrap_or(name).parse() {
        Ok(number) => FileSelector::Number(number),
        Err(_) => FileSelector::Name(name.to_owned()),
    }
}
