//! A mistake in a declaration: where it is, which item it is in, what was given and what is allowed.

use std::{fmt, path::Path, sync::Arc};

/// A place in a file of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePosition {
    pub file: Arc<Path>,
    /// From 1.
    pub line: u64,
    /// In characters, from 1.
    pub column: u64,
}

impl fmt::Display for SourcePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// One mistake, for the operator: its message may hold what a template yields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {item}: {message}")]
pub struct DeclarationProblem {
    pub position: SourcePosition,
    /// The path of the item, such as `tasks.classify.attachments[0]`.
    pub item: String,
    pub message: String,
}
