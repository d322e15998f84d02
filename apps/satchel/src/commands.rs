//! The commands: each a function of what it needs, printing to the writer that it is given.

pub mod attachments;
pub mod chat;
pub mod config;
pub mod doctor;
pub mod existing_data;
pub mod init;
pub mod not_built;
pub mod outbox;
pub mod pair;
pub mod piped;
pub mod plan;
pub mod run;
pub mod script;
pub mod terminal;
pub mod turn_json;
pub mod web;

use std::{io::Write, process::ExitCode};

use crate::config::origin::ConfigProblems;

/// Something was asked in a way that can't be done; the process ends with 2 instead of 1.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// The process's answer to how a command ended: 0 done, 1 failed, 2 wrong usage or configuration.
/// Prints the error and what caused it, each once.
pub fn exit_code(ended: anyhow::Result<()>) -> ExitCode {
    let Err(error) = ended else { return ExitCode::SUCCESS };
    // Whoever reads our output has seen enough, as `satchel config show | head` has.
    if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    print_error(&format!("error: {}", error_chain(&error)));
    ExitCode::from(exit_status(&error))
}

/// Says something on standard error. Nobody reading it is no reason to panic, as `eprintln!` would.
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

/// Lines up the columns of a table; the last column is as wide as it likes.
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

/// Text of others made fit for one cell: one line, no controls that a terminal would obey, at most `longest` characters.
fn one_line(text: &str, longest: usize) -> String {
    let mut shown: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    shown.retain(|c| !satchel_domain::filename::is_unsafe_char(c));
    match shown.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

fn format_timestamp(moment: satchel_domain::Timestamp) -> String {
    let moment = jiff::Timestamp::from_millisecond(moment.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// What a part sends, in one line.
fn summary(content: &satchel_domain::PartContent) -> String {
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
        PartContent::Text { text, .. } if files.is_empty() => one_line(text, 60),
        PartContent::Text { text, .. } => format!("{} + {files}", one_line(text, 60)),
        PartContent::Voice { words, .. } => one_line(words, 60),
        PartContent::File(_) | PartContent::Album { .. } => files,
        PartContent::Notice { text } | PartContent::Question { text, .. } => one_line(text, 200),
        PartContent::Withdraw => "the streamed message, taken back".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn usage_errors_exit_with_2_others_with_1() {
        assert_eq!(exit_status(&UsageError("x".to_owned()).into()), 2);
        assert_eq!(exit_status(&ConfigProblems(Vec::new()).into()), 2);
        assert_eq!(exit_status(&anyhow::anyhow!("x")), 1);
        let later = not_built::not_built("task").unwrap_err();
        assert_eq!((exit_status(&later), error_chain(&later)), (2, "`satchel task` is not built yet".to_owned()));
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
}
