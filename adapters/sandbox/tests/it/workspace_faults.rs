//! The promises of a workspace whose process dies or whose disk fails, with every file operation in the sandbox.

use std::{path::Path, sync::Arc};

use satchel_contracts::workspace::{QUOTA, faults::WorkspaceStart};
use satchel_files::DirectoryWorkspace;
use satchel_ports::{FileRunner, Workspace};
use satchel_sandbox::SandboxRunner;

struct SandboxStart;

impl WorkspaceStart for SandboxStart {
    fn runner() -> Arc<dyn FileRunner> {
        Arc::new(SandboxRunner::default())
    }

    fn open(root: &Path, runner: Arc<dyn FileRunner>) -> Arc<dyn Workspace> {
        Arc::new(DirectoryWorkspace::open(root, None, QUOTA, runner).unwrap())
    }
}

satchel_contracts::workspace_fault_contract!(SandboxStart);
