//! The promises of the workspace, with every file operation in the sandbox.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use satchel_contracts::workspace::{QUOTA, WorkspaceFixture, count_temp_files};
use satchel_domain::{ConversationId, WorkspacePath};
use satchel_files::DirectoryWorkspace;
use satchel_ports::Workspace;
use satchel_sandbox::SandboxRunner;
use tempfile::TempDir;

struct Fixture {
    directory: TempDir,
    workspace: Arc<DirectoryWorkspace>,
}

#[async_trait]
impl WorkspaceFixture for Fixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runner = Arc::new(SandboxRunner::default());
        let workspace = Arc::new(DirectoryWorkspace::open(directory.path(), None, QUOTA, runner).unwrap());
        Self { directory, workspace }
    }

    fn workspace(&self) -> Arc<dyn Workspace> {
        Arc::clone(&self.workspace) as Arc<dyn Workspace>
    }

    fn host_path(&self, conversation: &ConversationId, path: &WorkspacePath) -> PathBuf {
        self.workspace.host_directory(conversation, path.mount()).join(path.relative())
    }

    async fn count_leftovers(&self) -> usize {
        count_temp_files(self.directory.path())
    }
}

satchel_contracts::workspace_contract!(Fixture);
