//! How failures are worded for the model: with every cause, and never longer than a model needs.

use std::error::Error;

use satchel_domain::size::format_bytes;
use satchel_ports::{OutcomeReader, ToolError, WorkspaceError};

/// The longest error in bytes: what was given may be a whole file, and an error is no place to repeat it.
const LONGEST: usize = 1000;

/// Words an error, cut where it is too long.
pub(crate) fn tool_error(words: impl Into<String>) -> ToolError {
    let mut words = words.into();
    if words.len() > LONGEST {
        words.truncate(words.floor_char_boundary(LONGEST));
        words.push('…');
    }
    ToolError(words)
}

/// Words an error that has causes, all of them in one line.
pub(crate) fn tool_error_with_cause(doing: &str, cause: &(dyn Error + 'static)) -> ToolError {
    let causes: Vec<String> =
        std::iter::successors(Some(cause), |&cause| cause.source()).map(ToString::to_string).collect();
    tool_error(format!("{doing}: {}", causes.join(": ")))
}

/// Words that an answer is larger than what a program is given.
pub(crate) fn too_large_for_program(what: &str, bytes: u64) -> ToolError {
    let most = format_bytes(OutcomeReader::MAX_PROGRAM_BYTES);
    tool_error(format!("{what} has {bytes} bytes ({}); a script is given at most {most} at once", format_bytes(bytes)))
}

/// Words a write that failed, `doing` being true of every such failure but one: that of a file which is there.
pub(crate) fn because_of_write(doing: &str, cause: &WorkspaceError) -> ToolError {
    match cause {
        WorkspaceError::Unconfirmed { .. } => tool_error(cause.to_string()),
        cause => tool_error_with_cause(doing, cause),
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
        assert!(tool_error("й".repeat(5000)).0.len() <= LONGEST + '…'.len_utf8());
    }
}
