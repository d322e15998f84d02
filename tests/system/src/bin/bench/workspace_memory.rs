//! A process that saves files to a workspace and reports its own memory: only a new process shows what the first file
//! costs.

use std::{path::PathBuf, process::Command, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_domain::WorkspacePath;
use satchel_files::{DirectoryWorkspace, NativeRunner};
use satchel_ports::{FileRunner, Workspace, WriteMode};
use satchel_sandbox::SandboxRunner;
use serde::{Deserialize, Serialize};

use crate::{BenchRunner, load::conversation, process::OwnMemory, product::WORKSPACE_QUOTA_BYTES};

/// First argument of a process in this role.
pub(crate) const ROLE: &str = "as-workspace";

/// The size of the large file.
pub(crate) const LARGE_FILE_BYTES: u64 = 50 << 20;

/// As much as a channel hands over at a time.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkspaceSettings {
    pub(crate) directory: PathBuf,
    /// Whether the files are saved through the sandbox.
    pub(crate) sandbox: bool,
}

/// What the first file and a large one cost.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkspaceResult {
    /// How long the guests' compilation took; zero without the sandbox.
    pub(crate) compile_time: Duration,
    /// Private memory that the compilation and the first file left allocated, in bytes.
    pub(crate) first_file_anonymous: u64,
    /// Pages of mapped files that they left in memory, mostly the program's code, in bytes.
    pub(crate) first_file_backed: u64,
    /// The peak of memory over that before the first file, in bytes: compilation, first file and a large one.
    pub(crate) peak_extra: u64,
    /// The same for a large file after the first one.
    pub(crate) large_file_extra: u64,
}

impl WorkspaceSettings {
    /// Runs such a process to its end.
    pub(crate) fn run(&self, bench: &BenchRunner) -> Result<WorkspaceResult> {
        let settings = serde_json::to_string(self)?;
        let output = Command::new(&bench.bench_binary).args([ROLE, &settings]).output();
        let output = output.context("the process that saves files could not be started")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the process that saves files failed ({}): {errors}", output.status);
        serde_json::from_slice(&output.stdout).context("the result can't be read")
    }
}

/// Saves files and prints the result as JSON.
pub(crate) fn run_workspace(settings: &str) -> Result<()> {
    let settings: WorkspaceSettings = serde_json::from_str(settings).context("the settings can't be read")?;
    let result = satchel::runtime::build_runtime()?.block_on(measure_workspace(&settings))?;
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}

async fn measure_workspace(settings: &WorkspaceSettings) -> Result<WorkspaceResult> {
    let open = |name: &str, runner: Arc<dyn FileRunner>| {
        DirectoryWorkspace::open(&settings.directory.join(name), None, WORKSPACE_QUOTA_BYTES, runner)
    };
    // Threads and buffers that any write needs are there before the first measurement.
    save(&open("before", Arc::new(NativeRunner))?, "first", 1).await?;
    let before = OwnMemory::read()?;
    OwnMemory::reset_peak()?;
    let mut compile_time = Duration::ZERO;
    let runner: Arc<dyn FileRunner> = match settings.sandbox {
        true => {
            let sandbox = SandboxRunner::default();
            compile_time = sandbox.warm_up()?;
            Arc::new(sandbox)
        }
        false => Arc::new(NativeRunner),
    };
    let workspace = open("after", runner)?;
    save(&workspace, "first", 1).await?;
    let after = OwnMemory::read()?;
    OwnMemory::reset_peak()?;
    save(&workspace, "large", LARGE_FILE_BYTES / CHUNK_BYTES as u64).await?;
    let large_file_peak = OwnMemory::read()?.peak;
    Ok(WorkspaceResult {
        compile_time,
        first_file_anonymous: after.anonymous.saturating_sub(before.anonymous),
        first_file_backed: after.file_backed.saturating_sub(before.file_backed),
        peak_extra: large_file_peak.max(after.peak).saturating_sub(before.anonymous + before.file_backed),
        large_file_extra: large_file_peak.saturating_sub(after.anonymous + after.file_backed),
    })
}

async fn save(workspace: &DirectoryWorkspace, name: &str, chunks: u64) -> Result<()> {
    let path: WorkspacePath = format!("/shared/{name}").parse().context("a path of the workspace")?;
    let chunk = Bytes::from(vec![7; CHUNK_BYTES]);
    let bytes = chunks * CHUNK_BYTES as u64;
    let content = stream::iter((0..chunks).map(move |_| Ok(chunk.clone()))).boxed();
    let saved = workspace.write(&conversation(0), &path, content, WriteMode::CreateNew, bytes).await?;
    ensure!(saved == bytes, "{saved} of {bytes} bytes were saved");
    Ok(())
}
