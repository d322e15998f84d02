//! The texts of the offline model. They are the first that a new user reads, so each states a fact and the next step.

mod deletion;
mod file_text;

use satchel_domain::size;
use satchel_ports::ToolSpec;
use serde_json::Value;

use super::{
    files::{FileSelector, ListedFile, first_text, list_items, read_list},
    intent::MAX_INTENTS,
    step::ToolAnswer,
};

pub(super) use self::deletion::{deleted_text, forget_hint_text};
pub(super) use self::file_text::{edited_text, missing_edit_text, search_text};

/// The model's introduction of itself, used in several texts.
const INTRODUCTION: &str = "I'm Satchel's offline model: not an AI, I understand a few phrases about files.";

/// The longest tool text in a sentence, in bytes; the tools' own errors are no longer.
const MAX_SENTENCE_BYTES: usize = 1100;

pub(super) fn help_text() -> String {
    format!(
        "{INTRODUCTION} They are enough to try everything Satchel does with files, without an account or a key.\n\n\
         Send me files, with or without a message, and try for example:\n\
         - `save this as invoice.pdf`, `save all to /shared/trip`\n\
         - `send me invoice.pdf`, `send #3 back`, `send everything`\n\
         - `list my files`, `what did I send`\n\
         - `read notes.txt`\n\
         - `write notes.txt: buy milk`\n\
         - `edit notes.txt: milk => bread`\n\
         - `search bread`, `search bread in notes/`\n\
         - `delete notes.txt`, `delete *.tmp`, and `/undo` to bring them back\n\
         - `/tool file_list {{\"path\": \"/shared\"}}` calls a tool directly; `/tool` lists all tools\n\n\
         Several requests in one message work too: `save it to /shared and read it`. Saved files are in `/shared`; \
         `/tmp` is for temporary files.\n\n\
         A real model understands any wording, reads pictures and documents, and plans longer work. To use one, \
         set an environment variable such as `OPENAI_API_KEY`, or add one under `models:` in `satchel.yaml`."
    )
}

pub(super) fn unknown_text() -> String {
    format!(
        "{INTRODUCTION} I didn't understand this one. Try `list my files`, `save this as NAME`, `send me NAME`, \
         `read NAME`, or `help` for all phrases."
    )
}

pub(super) fn arrived_text(files: &[ListedFile], is_understood: bool) -> String {
    let count = if files.len() == 1 { "1 file".to_owned() } else { format!("{} files", files.len()) };
    let intro = if is_understood {
        format!("Got {count}:")
    } else {
        format!("I got {count} but didn't understand your message:")
    };
    let pronoun = if files.len() == 1 { "it" } else { "them" };
    let readable = files.iter().find(|file| file.mime.starts_with("text/") || file.mime == "application/json");
    let read_hint =
        readable.map(|file| format!(", show the text of one ({}),", inline_code(&format!("read {}", file.filename))));
    format!(
        "{intro}\n{}\n\nI can save {pronoun} (`save {pronoun} to /shared`){} or send {pronoun} back (`send {pronoun} back`); `help` shows the \
         rest. {INTRODUCTION}",
        join_lines(files.iter().map(ListedFile::summary_line)),
        read_hint.unwrap_or_default(),
    )
}

pub(super) fn too_many_text() -> String {
    format!("I handle up to {MAX_INTENTS} requests per message. Please send the rest again.")
}

pub(super) fn missing_content_text() -> String {
    "What should I write into the file? For example: `write notes.txt: buy milk`.".to_owned()
}

pub(super) fn internal_error_text() -> String {
    "Something went wrong between me and my tools. Please send that again.".to_owned()
}

pub(super) fn tools_text(tools: &[ToolSpec]) -> String {
    if tools.is_empty() {
        return "This conversation has no tools.".to_owned();
    }
    let line = |tool: &ToolSpec| format!("- {}: {}", inline_code(&tool.name), first_sentence(&tool.description));
    format!("You can call these tools with `/tool NAME {{json}}`:\n{}", join_lines(tools.iter().map(line)))
}

pub(super) fn missing_tool_text(name: &str) -> String {
    format!("There is no tool {} here. `/tool` lists all tools.", inline_code(name))
}

pub(super) fn invalid_json_text(tool: &str, why: &str) -> String {
    format!(
        "The text after {} isn't JSON ({why}). Arguments look like this: `/tool file_read {{\"path\": \"/shared/a.txt\"}}`",
        inline_code(tool)
    )
}

pub(super) fn tool_result_text(answer: &ToolAnswer<'_>) -> String {
    match answer.failure() {
        Some(why) => format!("{} failed: {}", inline_code(answer.tool), to_sentence(why)),
        None => format!("{} answered:\n{}", inline_code(answer.tool), code_block(answer.text)),
    }
}

/// Says that something could not be done; `answer` is the tool's result.
pub(super) fn failure_text(doing: &str, answer: &str) -> String {
    format!("I couldn't {doing}: {}", to_sentence(answer.strip_prefix("error: ").unwrap_or(answer)))
}

pub(super) fn not_found_text(missing: &[FileSelector]) -> String {
    let line = |selector: &FileSelector| match selector {
        FileSelector::Recent | FileSelector::All => {
            "There are no files in this conversation yet. Send me one.".to_owned()
        }
        FileSelector::Number(number) => format!("There is no file #{number} here."),
        FileSelector::Kind(kind, _) => {
            let word = kind.split('/').next_back().filter(|word| !word.is_empty());
            format!("There is no {} here.", word.unwrap_or(kind.trim_end_matches('/')))
        }
        FileSelector::Path(name) | FileSelector::Name(name) => {
            format!("I don't know a file called {}.", inline_code(name))
        }
    };
    let mut sentences: Vec<String> = missing.iter().map(line).collect();
    sentences.dedup();
    if missing.iter().any(|selector| !matches!(selector, FileSelector::Recent | FileSelector::All)) {
        sentences.push("`list my files` shows what there is.".to_owned());
    }
    sentences.join(" ")
}

pub(super) fn one_name_for_many_text(path: &str, files: &[ListedFile]) -> String {
    format!(
        "{} files can't all be saved as {}. Say which one, such as {}, or name a folder: `save all to /shared/trip`.",
        files.len(),
        inline_code(path),
        inline_code(&format!("save {} as {path}", files[0].filename)),
    )
}

pub(super) fn saved_text(files: &[ListedFile], answers: &[ToolAnswer<'_>], missing: &[FileSelector]) -> String {
    let lines = files.iter().zip(answers).map(|(file, answer)| saved_file_text(&file.filename, answer));
    join_with_missing(lines.collect(), missing)
}

fn saved_file_text(name: &str, answer: &ToolAnswer<'_>) -> String {
    if let Some(why) = answer.failure() {
        return match path_taken_text(why) {
            Some(taken) => format!(
                "{} To replace it, send the same with `, overwrite` at the end.",
                failure_text(&format!("save {}", inline_code(name)), &taken)
            ),
            None => failure_text(&format!("save {}", inline_code(name)), why),
        };
    }
    match serde_json::from_str::<Value>(answer.text).ok().as_ref().and_then(saved_path) {
        Some(path) => format!("Saved {} as {path}.", inline_code(name)),
        None => format!("About saving {}: {}", inline_code(name), to_sentence(answer.text)),
    }
}

/// The error about an existing path, without the tool's advice for models.
fn path_taken_text(why: &str) -> Option<String> {
    const TAKEN: &str = " exists already";
    why.find(TAKEN).map(|at| why[..at + TAKEN.len()].to_owned())
}

fn saved_path(answer: &Value) -> Option<String> {
    let path = inline_code(first_text(answer, &["path"])?);
    Some(match answer["bytes_written"].as_u64() {
        Some(bytes) => format!("{path} ({})", size::format_bytes(bytes)),
        None => path,
    })
}

pub(super) fn saved_all_text(answer: &ToolAnswer<'_>) -> String {
    // When some files failed, the list is on the last line, after the tool's text.
    let list = answer.text.lines().next_back().unwrap_or_default();
    let value: Value = serde_json::from_str(list).unwrap_or_default();
    let Some(list) = list_items(&value, &["files", "saved", "attachments"]) else {
        return match answer.failure() {
            Some(why) => failure_text("save the files", why),
            None => format!("About saving the files: {}", to_sentence(answer.text)),
        };
    };
    let (saved, failures): (Vec<&Value>, Vec<&Value>) = list.iter().partition(|item| item["error"].is_null());
    let saved =
        saved.into_iter().map(|item| saved_path(item).map_or("- one file".to_owned(), |place| format!("- {place}")));
    let mut paragraphs: Vec<String> = Vec::new();
    if saved.len() > 0 {
        paragraphs.push(format!("Saved:\n{}", join_lines(saved)));
    }
    paragraphs.extend(failures.into_iter().map(|item| {
        let name = first_text(item, &["filename"]).unwrap_or("a file");
        failure_text(
            &format!("save {}", inline_code(name)),
            first_text(item, &["error"]).unwrap_or("no reason was given"),
        )
    }));
    paragraphs.join("\n\n")
}

pub(super) fn sent_text(
    files: &[ListedFile],
    paths: &[String],
    answers: &[ToolAnswer<'_>],
    missing: &[FileSelector],
) -> String {
    let mut answers = answers.iter();
    let (mut sent_names, mut lines) = (Vec::new(), Vec::new());
    if !files.is_empty() {
        match answers.next().and_then(ToolAnswer::failure) {
            None => sent_names.extend(files.iter().map(|file| inline_code(&file.filename))),
            Some(why) => lines.push(failure_text("send what you asked for", why)),
        }
    }
    for (path, answer) in paths.iter().zip(answers) {
        match answer.failure() {
            None => sent_names.push(inline_code(path)),
            Some(why) => lines.push(failure_text(&format!("send {}", inline_code(path)), why)),
        }
    }
    match sent_names.as_slice() {
        [] => {}
        [one] => lines.insert(0, format!("On its way: {one}.")),
        many => lines.insert(0, format!("On their way: {}.", many.join(", "))),
    }
    join_with_missing(lines, missing)
}

fn join_with_missing(mut lines: Vec<String>, missing: &[FileSelector]) -> String {
    if !missing.is_empty() {
        lines.push(not_found_text(missing));
    }
    lines.join("\n")
}

pub(super) fn received_text(answers: &[ToolAnswer<'_>]) -> String {
    let Some(answer) = answers.first() else { return internal_error_text() };
    let Some(files) = read_list(answer.text) else { return failure_text("look through the files", answer.text) };
    let sent: Vec<String> = files.iter().filter(|file| file.from_person).map(ListedFile::summary_line).collect();
    if sent.is_empty() {
        return "You haven't sent me any files in this conversation yet.".to_owned();
    }
    format!("You sent:\n{}{}", join_lines(sent.into_iter()), more_files_text(answer.text))
}

pub(super) fn listed_text(directory: &str, answers: &[ToolAnswer<'_>]) -> String {
    let sections = answers.iter().map(|answer| match answer.tool {
        "attachment.list" => match read_list(answer.text) {
            Some(files) if files.is_empty() => "No files have been sent or made in this conversation yet.".to_owned(),
            Some(files) => {
                let shown = join_lines(files.iter().map(ListedFile::summary_line));
                format!("In this conversation:\n{shown}{}", more_files_text(answer.text))
            }
            None => failure_text("look through the conversation's files", answer.text),
        },
        _ => listed_directory_text(directory, answer),
    });
    sections.collect::<Vec<_>>().join("\n\n")
}

fn listed_directory_text(directory: &str, answer: &ToolAnswer<'_>) -> String {
    if answer.failure().is_some() {
        return failure_text(&format!("list {}", inline_code(directory)), answer.text);
    }
    let value: Value = serde_json::from_str(answer.text).unwrap_or_default();
    let Some(entries) = list_items(&value, &["entries", "files"]) else {
        return format!("In {}:\n{}", inline_code(directory), code_block(answer.text));
    };
    if entries.is_empty() {
        return format!("{} is empty.", inline_code(directory));
    }
    let line = |entry: &Value| {
        let path = entry.as_str().or_else(|| first_text(entry, &["path", "name"])).unwrap_or("?");
        match (entry["kind"].as_str(), entry["bytes"].as_u64()) {
            (Some("directory"), _) => format!("- {}", inline_code(&format!("{path}/"))),
            (_, Some(bytes)) => format!("- {}, {}", inline_code(path), size::format_bytes(bytes)),
            (_, None) => format!("- {}", inline_code(path)),
        }
    };
    format!("In {}:\n{}{}", inline_code(directory), join_lines(entries.iter().map(line)), more_files_text(answer.text))
}

/// Says that a list is incomplete.
fn more_files_text(answer: &str) -> &'static str {
    let value: Value = serde_json::from_str(answer).unwrap_or_default();
    let more = value["more"].as_bool().unwrap_or(false) || value["more"].as_u64().is_some_and(|more| more > 0);
    if more { "\n\nThere are more files; the list is too long to show all." } else { "" }
}

pub(super) fn read_text<'n>(
    names: impl Iterator<Item = &'n str>,
    answers: &[ToolAnswer<'_>],
    missing: &[FileSelector],
) -> String {
    let sections = names.zip(answers).map(|(name, answer)| {
        match answer.failure() {
            Some(why) if why.contains("is not text") => {
                return format!(
                    "{} is not text. I can only send it: {}.",
                    inline_code(name),
                    inline_code(&format!("send {name}"))
                );
            }
            Some(why) => return failure_text(&format!("read {}", inline_code(name)), why),
            None => {}
        }
        if matches!(answer.text.trim(), "" | "[the file is empty]") {
            return format!("{} is empty.", inline_code(name));
        }
        // A page ends in a line with the call for the next page, which a person can make with `/tool`.
        let page = answer.text.rsplit_once('\n').and_then(|(text, last)| {
            let place = last.strip_prefix("[bytes ")?.strip_suffix(']')?;
            Some((text, place))
        });
        let Some((text, place)) = page else {
            return format!("{} says:\n{}", inline_code(name), fenced_block("", answer.text));
        };
        let more = match place.split_once("; read on with ") {
            Some((place, call)) => {
                format!("These are bytes {place}. Read on with {}.", inline_code(&format!("/tool {call}")))
            }
            None => format!("These are bytes {place}."),
        };
        format!("{} says:\n{}\n{more}", inline_code(name), fenced_block("", text))
    });
    join_with_missing(sections.collect(), missing)
}

pub(super) fn written_text(
    path: &str,
    bytes: usize,
    written: &ToolAnswer<'_>,
    added: Option<&ToolAnswer<'_>>,
) -> String {
    if let Some(why) = written.failure() {
        let doing = format!("write {}", inline_code(path));
        return match path_taken_text(why) {
            Some(taken) => {
                format!(
                    "{} To replace it, say {}.",
                    failure_text(&doing, &taken),
                    inline_code(&format!("overwrite {path} with …"))
                )
            }
            None => failure_text(&doing, why),
        };
    }
    let wrote = format!("Wrote {} ({}).", inline_code(path), size::format_bytes(bytes as u64));
    match added {
        None => wrote,
        Some(added) => match added.failure() {
            None => format!("{wrote} It comes with this message."),
            Some(why) => format!("{wrote} {}", failure_text("send it along", why)),
        },
    }
}

/// A text as code within a line, whatever backticks it holds.
pub(super) fn inline_code(text: &str) -> String {
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// A tool result as a code block; JSON is pretty-printed.
fn code_block(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => fenced_block("json", &format!("{value:#}")),
        Err(_) => fenced_block("", text),
    }
}

/// A code block whose fence is longer than any in the text.
fn fenced_block(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.saturating_add(1).max(3));
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

fn join_lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

/// A tool's text as a sentence, truncated to [`MAX_SENTENCE_BYTES`].
fn to_sentence(text: &str) -> String {
    let text = text.trim();
    if text.len() > MAX_SENTENCE_BYTES {
        return format!("{}…", &text[..text.floor_char_boundary(MAX_SENTENCE_BYTES)]);
    }
    if text.ends_with(['.', '!', '?', '…']) { text.to_owned() } else { format!("{text}.") }
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}
