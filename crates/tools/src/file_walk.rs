//! The files beneath a directory, one after the other, always in the same order.

use std::vec;

use satchel_domain::{ConversationId, WorkspacePath};
use satchel_ports::{
    WorkspaceError,
    workspace::{WorkspaceEntry, WorkspaceEntryKind},
};

use crate::AuditedWorkspace;

/// How many directories deep a walk goes. Paths of a workspace have no more names; a directory of the operator's may.
const MAX_DEPTH: usize = 32;

/// A file on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub(crate) path: WorkspacePath,
    pub(crate) bytes: u64,
}

/// There are more files and directories than may be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyEntries;

/// A walk through a directory and what is beneath it: depth first, each directory in the order of its paths. Links are
/// not listed, so it goes round in no circle.
pub(crate) struct FileWalk<'w> {
    workspace: &'w AuditedWorkspace,
    conversation: &'w ConversationId,
    max_entries: usize,
    /// What remains of each directory from the first one down.
    remaining: Vec<vec::IntoIter<WorkspaceEntry>>,
    /// The number of files and directories so far.
    entries: usize,
    /// The number of directories that could not be listed, or lie too deep.
    pub(crate) unreadable: u64,
}

impl<'w> FileWalk<'w> {
    /// Starts at a directory, or at a file alone.
    ///
    /// # Errors
    /// When there is neither at this path.
    pub(crate) async fn start(
        workspace: &'w AuditedWorkspace,
        conversation: &'w ConversationId,
        path: &WorkspacePath,
        max_entries: usize,
    ) -> Result<Self, WorkspaceError> {
        let entries = match workspace.list(conversation, path).await {
            // A mount that nothing was written to yet is empty, whether or not its directory has been made.
            Err(WorkspaceError::NotFound(_)) if path.file_name().is_none() => vec![],
            listed => listed?,
        };
        Ok(Self {
            workspace,
            conversation,
            max_entries,
            remaining: vec![entries.into_iter()],
            entries: 0,
            unreadable: 0,
        })
    }

    /// The next file; `None` at the end.
    ///
    /// # Errors
    /// When there are more files and directories than may be looked at.
    pub(crate) async fn next(&mut self) -> Result<Option<FoundFile>, TooManyEntries> {
        loop {
            let Some(directory) = self.remaining.last_mut() else { return Ok(None) };
            let Some(entry) = directory.next() else {
                self.remaining.pop();
                continue;
            };
            if self.entries == self.max_entries {
                return Err(TooManyEntries);
            }
            self.entries += 1;
            match entry.kind {
                WorkspaceEntryKind::File => {
                    return Ok(Some(FoundFile { path: entry.path, bytes: entry.bytes }));
                }
                WorkspaceEntryKind::Directory => self.enter(&entry.path).await,
            }
        }
    }

    async fn enter(&mut self, path: &WorkspacePath) {
        let is_too_deep = self.remaining.len() > MAX_DEPTH;
        let listed = if is_too_deep { None } else { self.workspace.list(self.conversation, path).await.ok() };
        match listed {
            Some(entries) => self.remaining.push(entries.into_iter()),
            None => self.unreadable += 1,
        }
    }
}
