//! The promises of a workspace whose process dies or whose disk fails, with every file operation in the sandbox.

use std::{path::Path, sync::Arc};

use satchel_contracts::workspace::{QUOTA, faults::WorkspaceStart};
use satchel_domain::DiskReserve;
use satchel_files::DirectoryWorkspace;
use satchel_ports::{FileRunner, Workspace};
use satchel_sandbox::SandboxRunner;

struct SandboxStart;

impl WorkspaceStart for SandboxStart {
    fn runner() -> Arc<dyn FileRunner> {
        Arc::new(SandboxRunner::default())
    }

    fn open(root: &Path, runner: Arc<dyn FileRunner>) -> Arc<dyn Workspace> {
        let workspace = DirectoryWorkspace::open(root, None, QUOTA, runner).unwrap();
        Arc::new(workspace.with_reserve(DiskReserve::NONE))
    }
}

satchel_contracts::workspace_fault_contract!(SandboxStart);
