//! The port implementations that [`build`](crate::build::build()) takes.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use satchel_files::{DirectoryBlobs, DirectoryWorkspace};
use satchel_http::{FetchSettings, HttpFetcher};
use satchel_ledger_sqlite::SqliteLedger;
use satchel_local::{LocalBus, SystemClock, UuidV7};
use satchel_ports::{
    Blobs, Channel, Clock, DeclaredFiles, DocumentReader, EventBus, Fetcher, FileLinks, FileRunner, Ids, ImageScaler,
    LanguageModel, Ledger, ScriptHost, Speech, Tool, Workspace,
};
use satchel_tools::path_fields::{PathField, PathFields};

use crate::metered_workspace::MeteredWorkspace;

/// The directory of the blobs in the data directory.
pub(crate) const BLOBS_DIR: &str = "blobs";

/// The directory of the workspaces in the data directory.
pub(crate) const WORKSPACES_DIR: &str = "workspaces";

/// The quota of each conversation's workspace, unless the configuration sets it.
const WORKSPACE_QUOTA_BYTES: u64 = 2 << 30;

/// The port implementations: everything that does I/O.
#[derive(Clone)]
pub struct Ports {
    /// The durable store of turns, parts, leases, inbox and history.
    pub ledger: Ledger,
    /// The clock of the process, the same that the ledger has.
    pub clock: Arc<dyn Clock>,
    /// The source of new ids.
    pub ids: Arc<dyn Ids>,
    /// The bytes of files.
    pub blobs: Arc<dyn Blobs>,
    /// The directories that tools work in.
    pub workspace: Arc<dyn Workspace>,
    pub bus: Arc<dyn EventBus>,
    /// Downloads files from URLs that people or models name.
    pub fetcher: Arc<dyn Fetcher>,
    /// The model that answers, unless the turn's agent has another one.
    pub model: Arc<dyn LanguageModel>,
    /// Further models, by the names that agents give, and among which owners choose for a conversation.
    pub models: BTreeMap<String, Arc<dyn LanguageModel>>,
    /// Synthesis and transcription, if there is any.
    pub speech: Option<Arc<dyn Speech>>,
    /// Evaluates scripts; `None` turns scripts off.
    pub scripts: Option<Arc<dyn ScriptHost>>,
    /// Reads the text of documents; `None` leaves text files only.
    pub documents: Option<Arc<dyn DocumentReader>>,
    /// Makes declared images smaller; `None` refuses those that have to be.
    pub images: Option<Arc<dyn ImageScaler>>,
    /// Reads the files that playbooks declare; `None` leaves out tasks and the attachments of agents.
    pub declared_files: Option<Arc<dyn DeclaredFiles>>,
    /// Creates links to files that can't be sent; `None` turns links off.
    pub links: Option<Arc<dyn FileLinks>>,
    /// The channels. Only their lanes are worked.
    pub channels: Vec<Arc<dyn Channel>>,
    /// Tools in addition to the built-in ones.
    pub tools: Vec<ExtraTool>,
}

impl Ports {
    /// Opens the adapters for one machine: the ledger, the blobs and the workspaces in `data_dir`, a bus in memory, and
    /// a fetcher for the public internet. The workspaces are sandboxed with the feature `sandbox`. No channels, speech, scripts, documents or links. A missing `data_dir` is created, and
    /// only its owner can access it.
    ///
    /// # Errors
    /// When a directory or the database can't be used.
    pub async fn local(data_dir: &Path, model: Arc<dyn LanguageModel>) -> anyhow::Result<Self> {
        create_private_dir(data_dir).await.with_context(|| format!("failed to create {}", data_dir.display()))?;
        let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
        let settings = satchel_ledger_sqlite::Settings::default();
        let ledger = SqliteLedger::open(data_dir, settings, Arc::clone(&clock), Arc::clone(&ids));
        let ledger = Ledger::from(Arc::new(ledger.await.context("failed to open the ledger")?));
        let (blobs, workspaces) = (data_dir.join(BLOBS_DIR), data_dir.join(WORKSPACES_DIR));
        let runner = default_file_runner();
        let blobs = open_blobs_directory(blobs).await?;
        let workspace = open_workspaces(workspaces, None, WORKSPACE_QUOTA_BYTES, runner).await?;
        Ok(Self {
            workspace: Arc::new(MeteredWorkspace::new(workspace, Arc::clone(&ledger.storage))),
            ledger,
            clock,
            ids,
            blobs: Arc::new(blobs),
            bus: Arc::new(LocalBus::new()),
            fetcher: Arc::new(HttpFetcher::new(FetchSettings::default())),
            model,
            models: BTreeMap::new(),
            speech: None,
            scripts: None,
            documents: None,
            images: None,
            declared_files: None,
            links: None,
            channels: Vec::new(),
            tools: Vec::new(),
        })
    }

    #[must_use]
    pub fn channel(mut self, channel: Arc<dyn Channel>) -> Self {
        self.channels.push(channel);
        self
    }

    #[must_use]
    pub fn tool(mut self, tool: ExtraTool) -> Self {
        self.tools.push(tool);
        self
    }
}

/// A tool of a program that embeds Satchel.
#[derive(Clone)]
pub struct ExtraTool {
    pub tool: Arc<dyn Tool>,
    /// Which of its arguments hold paths, which are checked against the path policy.
    pub paths: PathFields,
}

impl ExtraTool {
    /// A tool without path arguments.
    #[must_use]
    pub fn without_paths(tool: Arc<dyn Tool>) -> Self {
        Self { tool, paths: PathFields::None }
    }

    /// A tool with path arguments: each path is checked before the call.
    #[must_use]
    pub fn with_paths(tool: Arc<dyn Tool>, fields: &'static [PathField]) -> Self {
        Self { tool, paths: PathFields::Some(fields) }
    }
}

/// Creates a missing directory that only its owner can access.
pub(crate) async fn create_private_dir(directory: &Path) -> std::io::Result<()> {
    let mut builder = tokio::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).await
}

/// What works on the files of the workspaces: the sandbox, where it is built.
pub(crate) fn default_file_runner() -> Arc<dyn FileRunner> {
    #[cfg(feature = "sandbox")]
    return Arc::new(satchel_sandbox::SandboxRunner::default());
    #[cfg(not(feature = "sandbox"))]
    return Arc::new(satchel_files::NativeRunner);
}

/// Opens the blob store of a directory on a blocking thread.
pub(crate) async fn open_blobs_directory(directory: PathBuf) -> anyhow::Result<DirectoryBlobs> {
    let task = tokio::task::spawn_blocking(move || DirectoryBlobs::open(&directory));
    task.await.context("opening the file store was interrupted")?.context("the file store can't be used")
}

/// Opens the workspaces on a blocking thread.
pub(crate) async fn open_workspaces(
    directory: PathBuf,
    shared: Option<PathBuf>,
    quota: u64,
    runner: Arc<dyn FileRunner>,
) -> anyhow::Result<DirectoryWorkspace> {
    let open = move || DirectoryWorkspace::open(&directory, shared.as_deref(), quota, runner);
    let task = tokio::task::spawn_blocking(open);
    task.await.context("opening the workspaces was interrupted")?.context("the workspaces can't be used")
}
