//! Everything that touches the world, as it is handed to [`build`](crate::build::build()).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use satchel_files::{DirectoryBlobs, DirectoryWorkspace};
use satchel_http::{FetchSettings, HttpFetcher};
use satchel_ledger::SqliteLedger;
use satchel_local::LocalBus;
use satchel_ports::{
    Blobs, Channel, EventBus, Fetcher, FileLinks, LanguageModel, Ledger, ScriptHost, Speech, Tool, Workspace,
};
use satchel_tools::path_fields::{PathField, PathFields};

use crate::metered_workspace::MeteredWorkspace;

/// Where files lie in the data directory.
pub(crate) const BLOBS: &str = "blobs";

/// Where the tools of all conversations work in it.
pub(crate) const WORKSPACES: &str = "workspaces";

/// The room of each conversation's workspace unless the configuration sets it.
const WORKSPACE_QUOTA_BYTES: u64 = 2 << 30;

/// Everything that touches the world.
#[derive(Clone)]
pub struct Ports {
    /// Where everything is recorded.
    pub ledger: Arc<dyn Ledger>,
    /// Where bytes lie.
    pub blobs: Arc<dyn Blobs>,
    /// Where tools work on files.
    pub workspace: Arc<dyn Workspace>,
    /// Who hears of what happens.
    pub bus: Arc<dyn EventBus>,
    /// Who fetches what others have named.
    pub fetcher: Arc<dyn Fetcher>,
    /// Who answers.
    pub model: Arc<dyn LanguageModel>,
    /// Who speaks; `None` where no voice is configured.
    pub speech: Option<Arc<dyn Speech>>,
    /// Who evaluates scripts; `None` where nobody does.
    pub scripts: Option<Arc<dyn ScriptHost>>,
    /// Who gives files away that can't be sent; `None` where nobody does.
    pub links: Option<Arc<dyn FileLinks>>,
    /// Where people are. Only lanes of these channels are worked on.
    pub channels: Vec<Arc<dyn Channel>>,
    /// What the model may ask for besides the tools that Satchel brings along.
    pub tools: Vec<ExtraTool>,
}

impl Ports {
    /// Opens what a program on one machine needs beside its channels: the ledger, the files and the workspaces beneath
    /// `data`, which is made for its owner alone when it is missing, a bus in memory, and a fetcher that reaches the
    /// public internet. No speech, no scripts, no links.
    ///
    /// # Errors
    /// When a directory or the database can't be used.
    pub async fn local(data: &Path, model: Arc<dyn LanguageModel>) -> anyhow::Result<Self> {
        create_private_dir(data).await.with_context(|| format!("failed to create {}", data.display()))?;
        let ledger = SqliteLedger::open(data, satchel_ledger::Settings::default());
        let ledger: Arc<dyn Ledger> = Arc::new(ledger.await.context("failed to open the ledger")?);
        let (blobs, workspaces) = (data.join(BLOBS), data.join(WORKSPACES));
        let (blobs, workspace) = open_directories(blobs, workspaces, None, WORKSPACE_QUOTA_BYTES).await?;
        Ok(Self {
            workspace: Arc::new(MeteredWorkspace::new(workspace, Arc::clone(&ledger))),
            ledger,
            blobs: Arc::new(blobs),
            bus: Arc::new(LocalBus::new()),
            fetcher: Arc::new(HttpFetcher::new(FetchSettings::default())),
            model,
            speech: None,
            scripts: None,
            links: None,
            channels: Vec::new(),
            tools: Vec::new(),
        })
    }

    /// Adds a channel.
    #[must_use]
    pub fn channel(mut self, channel: Arc<dyn Channel>) -> Self {
        self.channels.push(channel);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: ExtraTool) -> Self {
        self.tools.push(tool);
        self
    }
}

/// A tool of a program that embeds Satchel.
#[derive(Clone)]
pub struct ExtraTool {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Which of its arguments hold paths, so that the path policy can hold them.
    pub paths: PathFields,
}

impl ExtraTool {
    /// A tool none of whose arguments holds a path.
    #[must_use]
    pub fn without_paths(tool: Arc<dyn Tool>) -> Self {
        Self { tool, paths: PathFields::None }
    }

    /// A tool with arguments that hold paths: each is checked before the tool is called.
    #[must_use]
    pub fn with_paths(tool: Arc<dyn Tool>, fields: &'static [PathField]) -> Self {
        Self { tool, paths: PathFields::Some(fields) }
    }
}

/// Makes a directory that is missing, for nobody but its owner: what people write lies in it.
pub(crate) async fn create_private_dir(directory: &Path) -> std::io::Result<()> {
    let mut builder = tokio::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).await
}

/// Opens the stores of files, once, with calls that block.
pub(crate) async fn open_directories(
    blobs: PathBuf,
    workspaces: PathBuf,
    shared: Option<PathBuf>,
    quota: u64,
) -> anyhow::Result<(DirectoryBlobs, DirectoryWorkspace)> {
    let opened = tokio::task::spawn_blocking(move || {
        let blobs = DirectoryBlobs::open(&blobs).context("the file store can't be used")?;
        let workspace = DirectoryWorkspace::open(&workspaces, shared.as_deref(), quota);
        Ok((blobs, workspace.context("the workspaces can't be used")?))
    });
    opened.await.context("opening the stores was interrupted")?
}
