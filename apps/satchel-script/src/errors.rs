//! Errors for the script's author: one line, with a position in the script as it was written.

use std::fmt::Display;

use satchel_starlark::protocol::{self, ErrorReport};
use starlark::{Error, ErrorKind};

use crate::prepare::PreparedScript;

/// The longest message, in characters.
const MAX_MESSAGE_CHARS: usize = 1000;

/// An error of a built-in function; the interpreter adds the position of the call.
pub(crate) fn script_error(message: impl Display) -> Error {
    Error::new_other(anyhow::Error::msg(message.to_string()))
}

/// A failed script.
pub(crate) struct ErrorContext<'a> {
    /// As it was written.
    pub(crate) script: &'a str,
    /// As the interpreter ran it.
    pub(crate) prepared: &'a PreparedScript<'a>,
}

impl ErrorContext<'_> {
    /// Reports an error from parsing.
    pub(crate) fn syntax_error(&self, error: &Error) -> ErrorReport {
        self.error_report(error, protocol::ErrorKind::Syntax)
    }

    /// Reports an error from running. The interpreter detects undefined names only then, but before anything has run.
    /// A call of a tool that doesn't exist fails as it does through `tools_execute`; `functions` are those of the host.
    pub(crate) fn runtime_error(&self, error: &Error, functions: &[String]) -> ErrorReport {
        if !matches!(error.kind(), ErrorKind::Scope(_)) {
            return self.error_report(error, protocol::ErrorKind::Execution);
        }
        let report = self.error_report(error, protocol::ErrorKind::Syntax);
        match self.called_name(error).and_then(|name| describe_missing_tool(name, &report.message, functions)) {
            Some(message) => ErrorReport { kind: protocol::ErrorKind::Execution, message, ..report },
            None => report,
        }
    }

    /// The name that the script calls where the error is, dots included; `None` if it calls none there.
    fn called_name(&self, error: &Error) -> Option<&str> {
        let start = usize::try_from(error.span()?.span.begin().get()).ok()?;
        let text = self.prepared.text.get(start..)?;
        let is_name_char = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let (name, rest) = text.split_at(text.find(|c| !is_name_char(c)).unwrap_or(text.len()));
        rest.trim_start_matches(' ').starts_with('(').then_some(name)
    }

    fn error_report(&self, error: &Error, kind: protocol::ErrorKind) -> ErrorReport {
        let position = error.span().map(|span| {
            let offset =
                usize::try_from(span.span.begin().get()).expect("an offset into a text fits the machine's word");
            let offset = self.prepared.original_offset(offset);
            // At the end of the line before, it would blame the wrong line.
            let is_indentation = error.without_diagnostic().to_string().contains("incorrect indentation");
            line_and_column(
                self.script,
                if is_indentation && self.script[offset..].starts_with('\n') { offset + 1 } else { offset },
            )
        });
        ErrorReport {
            kind,
            message: format_message(&error.without_diagnostic().to_string(), kind),
            line: position.map(|(line, _)| line),
            column: position.map(|(_, column)| column),
        }
    }
}

/// Line and column, both from 1, of an offset in a text.
fn line_and_column(text: &str, offset: usize) -> (u32, u32) {
    // Something missing at the end is reported where the text ends, not on the empty line after it.
    let before = &text[..text.floor_char_boundary(offset.min(text.trim_end().len()))];
    let line = before.rsplit('\n').next().unwrap_or_default();
    let count = |number: usize| u32::try_from(number + 1).unwrap_or(u32::MAX);
    (count(before.matches('\n').count()), count(line.chars().count()))
}

/// The interpreter's message, truncated, with advice for Python habits that Starlark doesn't support.
fn format_message(text: &str, kind: protocol::ErrorKind) -> String {
    let text = text.strip_prefix("Parse error: ").unwrap_or(text).trim();
    if text.starts_with("Heap memory limit") {
        return format!("the script used more memory than it may; {}", protocol::MEMORY_ADVICE);
    }
    let mut message = match kind {
        protocol::ErrorKind::Syntax => text.lines().next().unwrap_or_default().to_owned(),
        protocol::ErrorKind::Execution => text.to_owned(),
    };
    truncate_message(&mut message);
    if let Some(advice) = find_advice(&message) {
        message.push_str("; ");
        message.push_str(advice);
    }
    message
}

fn truncate_message(message: &mut String) {
    if let Some((at, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
        message.truncate(at);
        message.push('…');
    }
}

/// Says that a tool doesn't exist; `None` for names that have advice of their own, and for methods of unknown variables.
fn describe_missing_tool(name: &str, message: &str, functions: &[String]) -> Option<String> {
    if function_advice(name).is_some() {
        return None;
    }
    if name.contains('.') {
        let function = name.replace('.', "_");
        return functions.contains(&function).then(|| format!("scripts call the tool `{name}` as `{function}`"));
    }
    let mut description = match functions {
        [] => format!("there is no tool `{name}`; this script may call none"),
        functions => format!("there is no tool `{name}`; there are: {}", functions.join(", ")),
    };
    truncate_message(&mut description);
    // The interpreter finds the script's own functions similar, too, and `None` to many short names.
    if let Some((_, suggestion)) = message.split_once(", did you mean ").filter(|(_, similar)| *similar != "`None`?") {
        description.push_str("; did you mean ");
        description.push_str(suggestion);
    }
    Some(description)
}

/// Suggests what to write instead.
fn find_advice(message: &str) -> Option<&'static str> {
    let quoted_after = |prefix: &str| message.split_once(prefix)?.1.split_once('`').map(|(word, _)| word);
    if let Some(word) = quoted_after("reserved keyword `") {
        return keyword_advice(word);
    }
    if let Some(name) = quoted_after("Variable `") {
        return function_advice(name);
    }
    if message.starts_with("unexpected symbol '**'") {
        return Some("Starlark has no `**`: multiply in a loop");
    }
    let is_old_format = message.starts_with("Unsupported format character")
        || message.starts_with("Invalid character") && message.ends_with("inside replacement field");
    is_old_format.then_some("formats are for f-strings, such as f\"{x:.2f}\"")
}

fn keyword_advice(word: &str) -> Option<&'static str> {
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

fn function_advice(name: &str) -> Option<&'static str> {
    Some(match name {
        "isinstance" => "compare `type(x)` with `type(1)` or its like",
        "open" => "there are no files to open",
        "round" => "use f\"{x:.2f}\"",
        "sum" => "add in a `for` loop",
        _ => return None,
    })
}
