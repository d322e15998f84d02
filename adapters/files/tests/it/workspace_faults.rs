//! The promises of a workspace whose process dies or whose disk fails, without a sandbox.

use std::{path::Path, sync::Arc};

use satchel_contracts::workspace::{QUOTA, faults::WorkspaceStart};
use satchel_domain::DiskReserve;
use satchel_files::{DirectoryWorkspace, NativeRunner};
use satchel_ports::{FileRunner, Workspace};

struct NativeStart;

impl WorkspaceStart for NativeStart {
    fn runner() -> Arc<dyn FileRunner> {
        Arc::new(NativeRunner)
    }

    fn open(root: &Path, runner: Arc<dyn FileRunner>) -> Arc<dyn Workspace> {
        let workspace = DirectoryWorkspace::open(root, None, QUOTA, runner).unwrap();
        Arc::new(workspace.with_reserve(DiskReserve::NONE))
    }
}

satchel_contracts::workspace_fault_contract!(NativeStart);
