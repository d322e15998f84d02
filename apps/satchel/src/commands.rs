//! The commands, each a function that prints to a given writer, and what they share: errors, exit codes, output forms.

pub mod attachments;
pub mod audit;
pub mod backup;
pub mod chat;
pub mod config;
pub mod data_owner;
pub mod doctor;
pub mod existing_data;
pub mod healthcheck;
pub mod init;
pub mod manual;
pub mod migrate;
pub mod outbox;
pub mod pair;
pub mod plan;
pub mod resolve;
pub mod restored_copy;
pub mod run;
pub mod script;
pub mod send;
pub mod stdin;
pub mod task;
pub mod terminal;
pub mod turn_json;
pub mod web;

use std::{io::Write, process::ExitCode};

use satchel_domain::{InboundMessage, SystemTask};

use self::existing_data::MissingData;
use crate::config::origin::ConfigProblems;

/// How many characters of a message or a reply a list shows.
const MAX_TEXT_CHARS: usize = 60;

/// Wrong usage or configuration; the process exits with 2 instead of 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Returns the exit code of a command: 0 done, 1 failed, 2 wrong usage or configuration.
/// Prints the error and its causes, each once, and where the data and the configuration of the command are: most of what
/// isn't there is in other data.
pub fn exit_code(result: anyhow::Result<()>, describe_data: impl FnOnce() -> Option<String>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    // The reader of the output has closed it, as in `satchel config show | head`.
    if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    print_error(&format!("error: {}", error_chain(&error)));
    // This error names both, with the remedy.
    if !error.is::<MissingData>()
        && let Some(description) = describe_data()
    {
        print_error(&description);
    }
    ExitCode::from(exit_status(&error))
}

/// Prints a line to standard error. Does not panic if that is closed, as `eprintln!` would.
pub fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn exit_status(error: &anyhow::Error) -> u8 {
    match error.is::<UsageError>() || error.is::<ConfigProblems>() {
        true => 2,
        false => 1,
    }
}

fn error_chain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Writes a table with aligned columns.
fn write_table(out: &mut dyn Write, rows: &[Vec<String>]) -> std::io::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width_of = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width_of(column).unwrap_or(0)).collect();
    for row in rows {
        let cell = |(column, cell): (usize, &String)| format!("{cell:<width$}", width = widths[column]);
        let line: Vec<String> = row.iter().enumerate().map(cell).collect();
        writeln!(out, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

fn write_json(out: &mut dyn Write, value: &impl serde::Serialize) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    writeln!(out)
}

/// Untrusted text for one cell: one line, no control characters, at most `max_chars` characters.
fn one_line(text: &str, max_chars: usize) -> String {
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.retain(|c| !satchel_domain::filename::is_unsafe_char(c));
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn format_timestamp(timestamp: satchel_domain::Timestamp) -> String {
    let timestamp = jiff::Timestamp::from_millisecond(timestamp.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    timestamp.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Returns the text of a message; that of a notification or a reminder is in its task.
fn message_text(message: &InboundMessage) -> &str {
    match &message.system_task {
        Some(SystemTask::DeliverNotification { text } | SystemTask::DeliverReminder { text, .. }) => text,
        _ => &message.text,
    }
}

/// Describes a message that waits in one line.
fn summarize_message(message: &InboundMessage) -> String {
    let text = one_line(message_text(message), MAX_TEXT_CHARS);
    let names: Vec<&str> = message.files.iter().map(|file| file.filename.as_str()).collect();
    let names = one_line(&names.join(", "), MAX_TEXT_CHARS);
    match (text.is_empty(), names.is_empty()) {
        (_, true) => text,
        (true, false) => names,
        (false, false) => format!("{text} + {names}"),
    }
}

/// Describes the content of a part in one line.
fn summarize_content(content: &satchel_domain::PartContent) -> String {
    use satchel_domain::PartContent;

    let files: Vec<String> = content
        .files()
        .iter()
        .map(|item| {
            let form = serde_json::to_value(item.form).ok().and_then(|form| form.as_str().map(str::to_owned));
            let size = satchel_domain::size::format_bytes(item.attachment.bytes);
            format!("{} ({}, {size})", item.attachment.filename, form.unwrap_or_default())
        })
        .collect();
    let files = files.join(", ");
    match content {
        PartContent::Text { text, .. } if files.is_empty() => one_line(text, MAX_TEXT_CHARS),
        PartContent::Text { text, .. } => format!("{} + {files}", one_line(text, MAX_TEXT_CHARS)),
        PartContent::Voice { text, .. } => one_line(text, MAX_TEXT_CHARS),
        PartContent::File(_) | PartContent::Album { .. } => files,
        PartContent::Notice { text } | PartContent::Question { text, .. } => one_line(text, 200),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use satchel_domain::{FileReference, Filename, ReminderId, Sender};

    use super::*;

    #[test]
    fn usage_errors_exit_with_2_others_with_1() {
        assert_eq!(exit_status(&UsageError("x".to_owned()).into()), 2);
        assert_eq!(exit_status(&ConfigProblems(Vec::new()).into()), 2);
        assert_eq!(exit_status(&anyhow::anyhow!("x")), 1);
    }

    #[test]
    fn error_lists_each_cause_once() {
        let error = Err::<(), _>(std::io::Error::other("no disk")).context("failed to open `a`").unwrap_err();
        assert_eq!(error_chain(&error), "failed to open `a`: no disk");
    }

    #[test]
    fn text_of_others_can_not_leave_its_cell() {
        assert_eq!(one_line("a\n\tb\u{1b}[2J\u{202e}c", 80), "a b[2Jc");
        assert_eq!(one_line(&"ё".repeat(100), 3), "ёёё…");
    }
    /// Catches: an alarm that is listed as an empty line.
    #[test]
    fn message_of_satchel_itself_is_listed_with_its_text() {
        let summary = |system_task: Option<SystemTask>, files: &[&str]| {
            let file = |name: &&str| FileReference::new("x".to_owned(), Filename::from_untrusted(name));
            let message = InboundMessage {
                system_task,
                files: files.iter().map(file).collect(),
                ..InboundMessage::new("console:main".parse().unwrap(), "1".to_owned(), Sender::new("s", "Satchel"))
            };
            (message_text(&message).to_owned(), summarize_message(&message))
        };
        let text = || "The oven\nis hot.".to_owned();
        let reminder = SystemTask::DeliverReminder {
            reminder: ReminderId(1),
            text: text(),
            files: vec![],
            missed: None,
            origin: None,
        };
        for task in [SystemTask::DeliverNotification { text: text() }, reminder] {
            assert_eq!(summary(Some(task), &["a.txt"]), (text(), "The oven is hot. + a.txt".to_owned()));
        }
        let files_alone = SystemTask::DeliverNotification { text: String::new() };
        assert_eq!(summary(Some(files_alone), &["a.txt", "b.txt"]).1, "a.txt, b.txt");
    }
}
