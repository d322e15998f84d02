//! The workspace as tools reach it: every change is recorded for the audit log.

use std::sync::Arc;

use satchel_domain::{ConversationId, WorkspacePath};
use satchel_ports::{
    ByteStream, ChangeOutcome, FileAction, FileChange, ToolContext, Workspace, WorkspaceError, WriteMode,
    workspace::{TrashBatch, TrashedEntry, WorkspaceEntry, WorkspaceEntryKind, WorkspaceFile},
};
use secrecy::SecretString;

/// Reads for any conversation, and changes files only for a call, in whose change log each change is recorded before it
/// starts. Cheap to clone.
#[derive(Clone)]
pub struct AuditedWorkspace(Arc<dyn Workspace>);

impl AuditedWorkspace {
    #[must_use]
    pub fn new(workspace: Arc<dyn Workspace>) -> Self {
        Self(workspace)
    }

    pub(crate) async fn read(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<WorkspaceFile, WorkspaceError> {
        self.0.read(conversation, path).await
    }

    pub(crate) async fn read_secret(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<SecretString, WorkspaceError> {
        self.0.read_secret(conversation, path).await
    }

    pub(crate) async fn list(
        &self,
        conversation: &ConversationId,
        path: &WorkspacePath,
    ) -> Result<Vec<WorkspaceEntry>, WorkspaceError> {
        self.0.list(conversation, path).await
    }

    pub(crate) async fn write(
        &self,
        context: &ToolContext,
        path: &WorkspacePath,
        content: ByteStream,
        mode: WriteMode,
        limit: u64,
    ) -> Result<u64, WorkspaceError> {
        let change = context.changes.start(file_change(context, FileAction::Write, path));
        let result = self.0.write(&context.conversation, path, content, mode, limit).await;
        match &result {
            Ok(bytes) => change.finish(Some(*bytes), ChangeOutcome::Done),
            Err(error) => change.finish(None, ChangeOutcome::from_error(error)),
        }
        result
    }

    /// `directory_bytes` are those of the files in a directory, where they are known.
    pub(crate) async fn trash(
        &self,
        context: &ToolContext,
        path: &WorkspacePath,
        batch: TrashBatch,
        recursive: bool,
        directory_bytes: Option<u64>,
    ) -> Result<TrashedEntry, WorkspaceError> {
        let change = context.changes.start(file_change(context, FileAction::Delete, path));
        let result = self.0.trash(&context.conversation, path, batch, recursive).await;
        match &result {
            Ok(entry) => {
                let bytes = match entry.kind {
                    WorkspaceEntryKind::File => Some(entry.bytes),
                    WorkspaceEntryKind::Directory => directory_bytes,
                };
                change.finish(bytes, ChangeOutcome::Done);
            }
            Err(error) => change.finish(None, ChangeOutcome::from_error(error)),
        }
        result
    }
}

fn file_change(context: &ToolContext, action: FileAction, path: &WorkspacePath) -> FileChange {
    FileChange::started(context.requester.clone(), context.tool.clone(), action, Some(path.clone()))
}

#[cfg(test)]
mod tests {
    use satchel_ports::MockWorkspace;
    use serde_json::json;

    use super::*;
    use crate::{ToolServices, built_in, fakes::ToolHarness};

    /// The lines of a context's change log: tool, action, path, bytes, outcome.
    fn lines(context: &ToolContext) -> Vec<String> {
        let line = |change: &FileChange| {
            let path = change.path.as_ref().map(ToString::to_string).unwrap_or_default();
            let (action, outcome) = (change.action.as_str(), change.outcome.as_str());
            format!("{} {} {action} {path} {:?} {outcome}", change.person.name, change.tool, change.bytes)
        };
        context.changes.to_vec().iter().map(line).collect()
    }

    #[tokio::test]
    async fn every_changing_tool_leaves_a_line() {
        for (tool, arguments, line) in [
            ("file_write", json!({"path": "a", "content": "new"}), "write /shared/a Some(3) done"),
            ("file_edit", json!({"path": "old", "old": "b", "new": "cd"}), "write /shared/old Some(4) done"),
            ("file_delete", json!({"path": "old"}), "delete /shared/old Some(3) done"),
            ("file_delete", json!({"path": "d", "recursive": true}), "delete /shared/d Some(7) done"),
            ("attachment_save", json!({"index": 0, "path": "/tmp/s"}), "write /tmp/s Some(4) done"),
            ("attachment.save_all", json!({"dir": "/tmp"}), "write /tmp/in.txt Some(4) done"),
            ("file_write", json!({"path": "old", "content": "new"}), "write /shared/old None failed"),
        ] {
            let world = ToolHarness::new();
            world.receive_bytes(1, "in.txt", "text/plain", b"sent");
            world.put_file("/shared/old", b"abc");
            world.put_file("/shared/d/a", b"12345");
            world.put_file("/shared/d/e/b", b"67");
            let context = ToolContext { tool: tool.to_owned(), ..world.context() };
            let _result = world.registry().get(tool).unwrap().call(arguments, &context).await;
            assert_eq!(lines(&context), [format!("Ada {tool} {line}")], "{tool}");
        }
    }

    #[tokio::test]
    async fn change_cut_off_has_unknown_outcome() {
        let world = ToolHarness::new();
        let mut workspace = MockWorkspace::new();
        workspace.expect_write().returning(|_, _, _, _, _| panic!("the turn is stopped"));
        let workspace = AuditedWorkspace::new(Arc::new(workspace));
        let tool = built_in(ToolServices { workspace, ..world.services() }).get("file_write").unwrap();
        let context = ToolContext { tool: "file_write".to_owned(), ..world.context() };
        let call = tool.call(json!({"path": "a", "content": "b"}), &context);
        assert!(futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(call)).await.is_err());
        assert_eq!(lines(&context), ["Ada file_write write /shared/a None unknown"]);
    }
}
