//! The words of a conversation as Markdown, with links to its files.

use std::fmt::Write;

use jiff::{Timestamp as Moment, tz::TimeZone};
use satchel_domain::{Sha256, markdown::escape, size::format_bytes};

use crate::wire::{self, MessageFileState, ToolState};

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportedFile {
    /// Its place in the archive.
    pub(super) path: String,
    pub(super) sha256: Sha256,
    pub(super) bytes: u64,
}

/// Returns the files that a turn names, without those that were removed.
pub(super) fn exported_files(turn: &wire::Turn) -> impl Iterator<Item = ExportedFile> {
    let received = turn.messages.iter().flat_map(|message| &message.files).filter_map(|file| file.file.as_ref());
    let sent = turn.parts.iter().flat_map(|part| &part.files);
    received.chain(sent).filter(|file| !file.forgotten).filter_map(|file| {
        let sha256 = file.sha256.parse().ok()?;
        Some(ExportedFile { path: path_of(file), sha256, bytes: file.bytes })
    })
}

/// The place of a file in the archive. A voice reply has no number; its name is its own.
fn path_of(file: &wire::File) -> String {
    match file.number {
        0 => format!("files/{}", file.filename),
        number => format!("files/{number}-{}", file.filename),
    }
}

/// The beginning of the text.
pub(super) fn heading(title: &str, exported_at: Moment, zone: &TimeZone) -> String {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = if title.is_empty() { "Conversation" } else { &title };
    format!("# {title}\n\nExported on {}.\n", format_time(exported_at, zone))
}

/// Writes a turn: each message, what tools did, and the reply.
pub(super) fn write_turn(turn: &wire::Turn, zone: &TimeZone) -> String {
    let mut text = String::new();
    for message in &turn.messages {
        // The page's own person is its owner.
        let sender = if message.sender == "Owner" { "You" } else { &message.sender };
        write_byline(&mut text, sender, message.received_at, zone, turn.replaced_by.is_some());
        write_block(&mut text, &message.text);
        let files = message.files.iter().map(|file| match (&file.file, file.state) {
            (Some(stored), _) => file_line(stored),
            (None, MessageFileState::Refused) => {
                let reason = file.reason.as_deref().unwrap_or("not taken");
                format!("- {} (not taken: {reason})\n", escape(&file.filename))
            }
            (None, _) => format!("- {} (not stored yet)\n", escape(&file.filename)),
        });
        write_block(&mut text, &files.collect::<String>());
    }
    let Some(at) = turn.parts.first().map(|part| part.at) else { return text };
    write_byline(&mut text, "Satchel", at, zone, turn.replaced_by.is_some());
    write_block(&mut text, &tool_lines(turn, 0));
    let mut section_count = 0;
    for part in &turn.parts {
        let whole = part.text.as_deref().unwrap_or_default();
        let sections: Vec<&str> = match part.sections.as_slice() {
            [] => vec![whole],
            sections => sections.iter().map(|section| section.text.as_str()).collect(),
        };
        for section in sections {
            write_block(&mut text, section);
            if part.kind == "text" {
                section_count += 1;
                write_block(&mut text, &tool_lines(turn, section_count));
            }
        }
        write_block(&mut text, &part.files.iter().map(file_line).collect::<String>());
        if part.state == "failed" {
            let reason = part.reason.as_deref().unwrap_or("for a reason that is not known");
            write_block(&mut text, &format!("*Not delivered: {}*", escape(reason)));
        }
    }
    text
}

/// What is said at the end about files that could not be read.
pub(super) fn unreadable_files(unreadable: &[(String, String)]) -> String {
    let mut text = String::new();
    if !unreadable.is_empty() {
        text.push_str("\n---\n\nThese files could not be read, or not to their end:\n\n");
        text.extend(unreadable.iter().map(|(path, reason)| format!("- {}: {}\n", escape(path), escape(reason))));
    }
    text
}

fn write_byline(text: &mut String, name: &str, at: i64, zone: &TimeZone, is_replaced: bool) {
    let at = Moment::from_millisecond(at).map(|at| format_time(at, zone)).unwrap_or_default();
    let note = if is_replaced { ", tried again later" } else { "" };
    let _infallible = write!(text, "\n---\n\n**{}**, {at}{note}\n", escape(name));
}

fn write_block(text: &mut String, block: &str) {
    let block = block.trim_end();
    if !block.is_empty() {
        let _infallible = write!(text, "\n{block}\n");
    }
}

fn file_line(file: &wire::File) -> String {
    let name = escape(&file.filename);
    let number = if file.number == 0 { String::new() } else { format!("#{}, ", file.number) };
    match file.forgotten {
        true => format!("- #{} (removed)\n", file.number),
        false => format!("- [{name}]({}) ({number}{})\n", percent_encode(&path_of(file)), format_bytes(file.bytes)),
    }
}

/// The lines of the tools that were used behind so many sections of the text.
fn tool_lines(turn: &wire::Turn, section_count: usize) -> String {
    turn.tools.iter().filter(|tool| tool.after == section_count).map(tool_line).collect()
}

fn tool_line(tool: &wire::UsedTool) -> String {
    let outcome = match tool.state {
        ToolState::Finished => "",
        ToolState::Failed => ": failed",
        ToolState::Started => ": not finished",
    };
    let reason = tool.reason.as_ref().map(|reason| format!(": {}", escape(&one_line(reason)))).unwrap_or_default();
    let arguments = escape(&one_line(&tool.arguments));
    let arguments = if arguments.is_empty() { arguments } else { format!(" ({arguments})") };
    format!("- *{}*{arguments}{outcome}{reason}\n", escape(&tool.tool))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Says when something was, in the machine's time zone.
fn format_time(at: Moment, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
}

/// Writes a path as the target of a link.
fn percent_encode(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        match is_plain(byte) {
            true => encoded.push(char::from(byte)),
            false => {
                let _infallible = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Inline, Message, MessageFile, Part, Turn, TurnState, UsedTool};

    fn file(number: u64, filename: &str, forgotten: bool) -> wire::File {
        wire::File {
            id: "1".into(),
            number,
            filename: filename.into(),
            mime: "text/plain".into(),
            bytes: 1_500,
            sha256: Sha256([7; 32]).to_string(),
            description: String::new(),
            width: None,
            height: None,
            duration_ms: None,
            inline: Inline::None,
            url: String::new(),
            preview: None,
            signature: String::new(),
            forgotten,
        }
    }

    fn part(text: Option<&str>, files: Vec<wire::File>, reason: Option<&str>) -> Part {
        Part {
            id: "p".into(),
            kind: "text".into(),
            state: if reason.is_some() { "failed" } else { "sent" }.into(),
            reason: reason.map(str::to_owned),
            html: None,
            text: text.map(str::to_owned),
            sections: Vec::new(),
            files,
            resend: None,
            at: 60_000,
        }
    }

    fn turn() -> Turn {
        let refused = MessageFile {
            state: MessageFileState::Refused,
            filename: "film.mov".into(),
            bytes: Some(3_000_000_000),
            reason: Some("it is larger than 2.1 GB".into()),
            file: None,
        };
        let stored = MessageFile {
            state: MessageFileState::Stored,
            filename: "a [b].txt".into(),
            bytes: Some(1_500),
            reason: None,
            file: Some(file(1, "a [b].txt", false)),
        };
        Turn {
            id: "t".into(),
            state: TurnState::Done,
            ending: Some("done".into()),
            messages: vec![Message {
                id: "m".into(),
                text: "look\nat *this*".into(),
                sender: "Owner".into(),
                received_at: 0,
                files: vec![stored, refused],
            }],
            parts: vec![
                part(Some("It says **hello**."), vec![file(2, "b.txt", false), file(3, "c.txt", true)], None),
                part(Some("More."), Vec::new(), Some("the chat is gone")),
            ],
            tools: vec![UsedTool {
                tool: "file_read".into(),
                arguments: "path: /shared/a".into(),
                after: 0,
                state: ToolState::Failed,
                reason: Some("it does\nnot exist".into()),
                took_ms: Some(3),
            }],
            replaced_by: None,
        }
    }

    #[test]
    fn turn_is_written_as_the_page_shows_it() {
        let expected = "
---

**You**, 1970-01-01 00:00

look
at *this*

- [a \\[b\\].txt](files/1-a%20%5Bb%5D.txt) (#1, 1.5 KB)
- film.mov (not taken: it is larger than 2.1 GB)

---

**Satchel**, 1970-01-01 00:01

- *file\\_read* (path: /shared/a): failed: it does not exist

It says **hello**.

- [b.txt](files/2-b.txt) (#2, 1.5 KB)
- #3 (removed)

More.

*Not delivered: the chat is gone*
";
        assert_eq!(write_turn(&turn(), &TimeZone::UTC), expected);
        let replaced = write_turn(&Turn { replaced_by: Some("u".into()), ..turn() }, &TimeZone::UTC);
        assert_eq!(replaced.matches(", tried again later\n").count(), 2);
    }

    #[test]
    fn tools_are_written_between_the_texts() {
        let section = |text: &str| wire::TextSection { html: String::new(), text: text.to_owned() };
        let mut turn = turn();
        turn.tools[0].after = 1;
        turn.parts.truncate(1);
        turn.parts[0].sections = vec![section("Milk."), section("Saved.")];
        let written = write_turn(&turn, &TimeZone::UTC);
        let reply = "\n\nMilk.\n\n- *file\\_read* (path: /shared/a): failed: it does not exist\n\nSaved.\n\n- [b.txt]";
        assert!(written.contains(reply), "{written}");
    }

    #[test]
    fn removed_files_are_not_exported() {
        let paths: Vec<String> = exported_files(&turn()).map(|file| file.path).collect();
        assert_eq!(paths, ["files/1-a [b].txt", "files/2-b.txt"]);
    }
}
