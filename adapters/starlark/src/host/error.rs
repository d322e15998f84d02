//! Errors of a script, as text for its author. Pure; the texts contain no paths of the host.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

use rustix::process::Signal;
use satchel_domain::size::format_bytes;
use satchel_ports::ScriptError;

use crate::protocol::{ErrorKind, ErrorReport, MEMORY_ADVICE, WORKER_MEMORY_BYTES};

/// The longest error message, in characters.
const MAX_MESSAGE_CHARS: usize = 8_000;

/// Maps a worker's error report.
pub(crate) fn script_error(failure: ErrorReport) -> ScriptError {
    let ErrorReport { kind, message, line, column } = failure;
    let message = truncate(&message, MAX_MESSAGE_CHARS);
    match (kind, line, column) {
        (ErrorKind::Syntax, line, None) => ScriptError::Syntax { line: line.unwrap_or(1), message },
        (ErrorKind::Syntax, line, Some(column)) => {
            ScriptError::Syntax { line: line.unwrap_or(1), message: format!("{message} (column {column})") }
        }
        (ErrorKind::Execution, None, _) => ScriptError::Failed { message },
        (ErrorKind::Execution, Some(line), None) => ScriptError::Failed { message: format!("{message} (line {line})") },
        (ErrorKind::Execution, Some(line), Some(column)) => {
            ScriptError::Failed { message: format!("{message} (line {line}, column {column})") }
        }
    }
}

/// Explains the exit of a worker to the script's author. `stderr` is what the worker wrote on standard error.
pub(crate) fn worker_exit_error(status: ExitStatus, stderr: &str) -> ScriptError {
    let message = if stderr.contains("memory allocation of") {
        let limit = format_bytes(WORKER_MEMORY_BYTES);
        format!("it needs more memory than the {limit} that a script may have; {MEMORY_ADVICE}")
    } else if stderr.contains("has overflowed its stack") {
        "it is nested too deeply".to_owned()
    } else {
        match (status.signal(), status.code()) {
            (Some(signal), _) if signal == Signal::XCPU.as_raw() => "it used up its processor time".to_owned(),
            (Some(signal), _) => format!("its worker ended unexpectedly (signal {signal})"),
            (None, Some(code)) => format!("its worker ended unexpectedly (code {code})"),
            (None, None) => "its worker ended unexpectedly".to_owned(),
        }
    };
    ScriptError::Failed { message }
}

/// Truncates a text to `max_chars`, and appends `…` if something is cut off.
pub(crate) fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: ErrorKind, line: Option<u32>, column: Option<u32>) -> String {
        script_error(ErrorReport { kind, message: "no such thing".to_owned(), line, column }).to_string()
    }

    #[test]
    fn script_error_names_line_and_column() {
        use ErrorKind::{Execution, Syntax};
        for (kind, line, column, words) in [
            (Syntax, Some(3), Some(7), "Syntax error in script at line 3: no such thing (column 7)"),
            (Syntax, Some(3), None, "Syntax error in script at line 3: no such thing"),
            (Syntax, None, None, "Syntax error in script at line 1: no such thing"),
            (Execution, Some(3), Some(7), "Script execution failed: no such thing (line 3, column 7)"),
            (Execution, Some(3), None, "Script execution failed: no such thing (line 3)"),
            (Execution, None, Some(7), "Script execution failed: no such thing"),
            (Execution, None, None, "Script execution failed: no such thing"),
        ] {
            assert_eq!(failure(kind, line, column), words);
        }
    }

    #[test]
    fn a_death_is_told_by_what_it_means() {
        let (aborted, killed, overran, left) = (6, 9, 24, 2 << 8);
        for (status, complaint, words) in [
            (aborted, "memory allocation of 1099511627776 bytes failed\n", "needs more memory than the 536 MB"),
            (aborted, "thread 'script' (7) has overflowed its stack\nfatal", "nested too deeply"),
            (overran, "", "it used up its processor time"),
            (killed, "", "its worker ended unexpectedly (signal 9)"),
            (left, "/opt/satchel/satchel-script: broken", "its worker ended unexpectedly (code 2)"),
        ] {
            let told = worker_exit_error(ExitStatus::from_raw(status), complaint).to_string();
            assert!(told.contains(words) && !told.contains('/'), "{told}");
        }
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        assert_eq!(truncate("ёжик", 4), "ёжик");
        assert_eq!(truncate("ёжик", 3), "ёжи…");
        let failure =
            ErrorReport { kind: ErrorKind::Execution, message: "й".repeat(99_999), line: None, column: None };
        assert!(script_error(failure).to_string().chars().count() < 8_100);
    }
}
