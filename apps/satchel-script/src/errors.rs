//! Errors in the words of the script's author: one line, and a place in the script as it was written.

use std::fmt::Display;

use satchel_starlark::protocol::{self, ErrorReport};
use starlark::{Error, ErrorKind};

use crate::prepare::PreparedScript;

/// The most characters of a message.
const LONGEST_MESSAGE: usize = 1000;

/// An error of a built-in function; the interpreter adds the place of the call.
pub(crate) fn script_error(why: impl Display) -> Error {
    Error::new_other(anyhow::Error::msg(why.to_string()))
}

/// What is known of a script that failed.
pub(crate) struct ErrorContext<'a> {
    /// As it was written.
    pub(crate) script: &'a str,
    /// As the interpreter had it.
    pub(crate) prepared: &'a PreparedScript<'a>,
}

impl ErrorContext<'_> {
    /// What the script's author is told of an error that came while it was read.
    pub(crate) fn syntax_error(&self, error: &Error) -> ErrorReport {
        self.describe(error, protocol::ErrorKind::Syntax)
    }

    /// What the script's author is told of an error that came when it was to run. The interpreter looks for names that
    /// don't exist only then, but before anything has run.
    pub(crate) fn runtime_error(&self, error: &Error) -> ErrorReport {
        match error.kind() {
            ErrorKind::Scope(_) => self.describe(error, protocol::ErrorKind::Syntax),
            _ => self.describe(error, protocol::ErrorKind::Execution),
        }
    }

    fn describe(&self, error: &Error, kind: protocol::ErrorKind) -> ErrorReport {
        let place = error.span().map(|span| {
            let at = usize::try_from(span.span.begin().get()).expect("an offset into a text fits the machine's word");
            let at = self.prepared.original(at);
            // Said of the end of the line before, it would blame the wrong line.
            let is_indentation = error.without_diagnostic().to_string().contains("incorrect indentation");
            line_and_column(
                self.script,
                if is_indentation && self.script[at..].starts_with('\n') { at + 1 } else { at },
            )
        });
        ErrorReport {
            kind,
            message: message(&error.without_diagnostic().to_string(), kind),
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
        }
    }
}

/// Line and column, both from 1, of a place in a text.
fn line_and_column(text: &str, at: usize) -> (u32, u32) {
    // What is missing at the end is missed where the text ends, not on the empty line after it.
    let before = &text[..text.floor_char_boundary(at.min(text.trim_end().len()))];
    let line = before.rsplit('\n').next().unwrap_or_default();
    let count = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
    (count(before.matches('\n').count()), count(line.chars().count()))
}

/// The interpreter's words, cut down and with what its authors don't say of habits that come from Python.
fn message(words: &str, kind: protocol::ErrorKind) -> String {
    let words = words.strip_prefix("Parse error: ").unwrap_or(words).trim();
    if words.starts_with("Heap memory limit") {
        return "the script used more memory than it may".to_owned();
    }
    let mut message = match kind {
        protocol::ErrorKind::Syntax => words.lines().next().unwrap_or_default().to_owned(),
        protocol::ErrorKind::Execution => words.to_owned(),
    };
    if let Some((at, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
        message.truncate(at);
        message.push('…');
    }
    if let Some(advice) = advice(&message) {
        message.push_str("; ");
        message.push_str(advice);
    }
    message
}

/// What to write instead.
fn advice(message: &str) -> Option<&'static str> {
    let quoted = |before: &str| message.split_once(before)?.1.split_once('`').map(|(word, _)| word);
    if let Some(word) = quoted("reserved keyword `") {
        return instead_of_keyword(word);
    }
    if let Some(name) = quoted("Variable `") {
        return instead_of_function(name);
    }
    if message.starts_with("unexpected symbol '**'") {
        return Some("Starlark has no `**`: multiply in a loop");
    }
    let is_old_format = message.starts_with("Unsupported format character")
        || message.starts_with("Invalid character") && message.ends_with("inside replacement field");
    is_old_format.then_some("formats are for f-strings, such as f\"{x:.2f}\"")
}

fn instead_of_keyword(word: &str) -> Option<&'static str> {
    Some(match word {
        "while" => "Starlark has no `while`: use `for … in range(…)` and `break`",
        "import" | "from" => "nothing can be imported: all that there is is in scope already",
        "try" | "except" | "finally" | "raise" => {
            "Starlark has no exceptions: an error ends the script, and `fail(…)` makes one"
        }
        "class" => "Starlark has no classes: use `struct(…)` or a dict",
        "with" => "Starlark has no `with`: there are no files to open",
        "is" => "compare with `==`",
        "global" | "nonlocal" => "a function can't set a variable outside of it: change a list or dict, or return it",
        "assert" => "use `if` and `fail(…)`",
        "del" => "use `.pop(…)`",
        "yield" => "build a list and return it",
        "async" | "await" => "every call waits for its result",
        _ => return None,
    })
}

fn instead_of_function(name: &str) -> Option<&'static str> {
    Some(match name {
        "isinstance" => "compare `type(x)` with `type(1)` or its like",
        "open" => "there are no files to open",
        "round" => "use f\"{x:.2f}\"",
        "sum" => "add in a `for` loop",
        _ => return None,
    })
}
