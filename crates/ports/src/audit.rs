//! The audit log: who changed which file of a workspace, with what, and how it ended.

use std::sync::{Arc, Mutex, PoisonError};

use satchel_domain::{ConversationId, Sender, Timestamp, TurnId, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::WorkspaceError;

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// It is created or replaced.
    Write,
    /// It is moved to the trash or removed for good.
    Delete,
    /// It is brought back from the trash.
    Restore,
    /// Any of these: the process stopped or died while a call ran that may have changed it.
    Change,
}

impl FileAction {
    /// The action as it is stored and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Delete => "delete",
            Self::Restore => "restore",
            Self::Change => "change",
        }
    }
}

/// How a change ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// The change was made.
    Done,
    /// The change was made, but the disk did not confirm that it will stay.
    Unconfirmed {
        /// What went wrong.
        reason: String,
    },
    /// The file is as it was.
    Failed {
        /// What went wrong.
        reason: String,
    },
    /// The call was cut off: the file is as it was, or changed as a whole.
    Unknown,
}

impl ChangeOutcome {
    /// The outcome of an operation that failed.
    #[must_use]
    pub fn from_error(error: &WorkspaceError) -> Self {
        let reason = error.to_string();
        match error {
            WorkspaceError::Unconfirmed { .. } | WorkspaceError::RemovalUnconfirmed { .. } => {
                Self::Unconfirmed { reason }
            }
            _ => Self::Failed { reason },
        }
    }

    /// The outcome's name, as it is stored and shown.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::Failed { .. } => "failed",
            Self::Unknown => "unknown",
        }
    }

    /// What went wrong, where that is known.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Unconfirmed { reason } | Self::Failed { reason } => Some(reason),
            Self::Done | Self::Unknown => None,
        }
    }
}

/// One change of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The person for whom it was made.
    pub person: Sender,
    /// The name of the tool that made it, or the command with its slash.
    pub tool: String,
    /// What was done.
    pub action: FileAction,
    /// The file or directory; `None` where it isn't known, as after an interrupted script.
    pub path: Option<WorkspacePath>,
    /// The size in bytes of the file that was written or deleted, where that is known.
    pub bytes: Option<u64>,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: ChangeOutcome,
}

impl FileChange {
    /// A change whose outcome is unknown so far.
    #[must_use]
    pub fn started(person: Sender, tool: impl Into<String>, action: FileAction, path: Option<WorkspacePath>) -> Self {
        Self { person, tool: tool.into(), action, path, bytes: None, outcome: ChangeOutcome::Unknown }
    }
}

/// The changes of one call and of the calls that it makes. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ChangeLog(Arc<Mutex<Vec<FileChange>>>);

impl ChangeLog {
    /// Adds a change that is about to be made. Unless it is [finished](PendingChange::finish), its outcome stays as it is here.
    #[must_use]
    pub fn start(&self, change: FileChange) -> PendingChange {
        let mut changes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        changes.push(change);
        PendingChange { log: self.clone(), index: changes.len() - 1 }
    }

    /// The changes so far, in the order in which they started.
    #[must_use]
    pub fn to_vec(&self) -> Vec<FileChange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A change that is being made.
#[derive(Debug)]
pub struct PendingChange {
    log: ChangeLog,
    index: usize,
}

impl PendingChange {
    /// Records how the change ended; `bytes` is the size of the file.
    pub fn finish(self, bytes: Option<u64>, outcome: ChangeOutcome) {
        let mut changes = self.log.0.lock().unwrap_or_else(PoisonError::into_inner);
        let change = &mut changes[self.index];
        (change.bytes, change.outcome) = (bytes, outcome);
    }
}

/// A line of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When it was committed.
    pub at: Timestamp,
    /// The conversation whose file it is.
    pub conversation: ConversationId,
    /// The turn in which it happened.
    pub turn: TurnId,
    /// The change.
    #[serde(flatten)]
    pub change: FileChange,
}

/// Selects lines of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditQuery {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those committed at this time or later.
    pub since: Option<Timestamp>,
    /// The most that are returned.
    pub limit: Option<u32>,
}
