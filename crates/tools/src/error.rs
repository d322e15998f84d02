//! How failures are worded for the model: with every cause, and never longer than a model needs.

use std::error::Error;

use satchel_domain::{error_chain, size::format_bytes};
use satchel_ports::{OutcomeReader, ToolError, WorkspaceError};

/// The longest error in bytes: what was given may be a whole file, and an error is no place to repeat it.
const MAX_ERROR_BYTES: usize = 1000;

/// Makes an error, truncated if it is too long.
pub(crate) fn tool_error(text: impl Into<String>) -> ToolError {
    let mut text = text.into();
    if text.len() > MAX_ERROR_BYTES {
        text.truncate(text.floor_char_boundary(MAX_ERROR_BYTES));
        text.push('…');
    }
    ToolError(text)
}

/// Makes an error with all causes on one line.
pub(crate) fn tool_error_with_cause(message: &str, cause: &(dyn Error + 'static)) -> ToolError {
    tool_error(format!("{message}: {}", error_chain(cause)))
}

/// Makes the error of an answer that is too large for a program.
pub(crate) fn too_large_for_program(subject: &str, bytes: u64) -> ToolError {
    let limit = format_bytes(OutcomeReader::MAX_PROGRAM_BYTES);
    tool_error(format!(
        "{subject} has {bytes} bytes ({}); a script is given at most {limit} at once",
        format_bytes(bytes)
    ))
}

/// Makes the error of a failed write; `message` fits every failure but an unconfirmed write, whose file exists.
pub(crate) fn write_error(message: &str, cause: &WorkspaceError) -> ToolError {
    match cause {
        WorkspaceError::Unconfirmed { .. } => tool_error(cause.to_string()),
        cause => tool_error_with_cause(message, cause),
    }
}

#[cfg(test)]
mod tests {
    use satchel_ports::BlobError;

    use super::*;

    #[test]
    fn errors_include_every_cause_and_are_truncated() {
        let broke = BlobError::Source(std::io::Error::other("the cable was cut"));
        assert_eq!(
            tool_error_with_cause("not stored", &broke).0,
            "not stored: the bytes ended early: the cable was cut"
        );
        assert!(tool_error("й".repeat(5000)).0.len() <= MAX_ERROR_BYTES + '…'.len_utf8());
    }
}
