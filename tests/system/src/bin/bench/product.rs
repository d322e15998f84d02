//! Satchel in a process of its own, with the real adapter of a fake platform and a model that says what it is told.

use std::{
    collections::BTreeMap,
    io::BufRead,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use satchel::{
    build::{SatchelOptions, build},
    ports::Ports,
};
use satchel_domain::ChannelCapabilities;
use satchel_files::{DirectoryBlobs, DirectoryWorkspace};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{LocalBus, OfflineModel, ScriptedModel, SystemClock, UuidV7, scripted_model::ModelScript};
use satchel_ports::{Channel, LanguageModel};
use satchel_sandbox::SandboxRunner;
use satchel_system::{
    crash::{
        ChannelAdapter,
        channel::{AdapterTimeouts, OpenChannel},
    },
    fetching::fetcher,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{BenchRunner, process::ChildProcess};

/// First argument of a process in this role.
pub(crate) const ROLE: &str = "as-product";

/// The room of a workspace; no measurement needs as much.
pub(crate) const WORKSPACE_QUOTA_BYTES: u64 = 4 << 30;

/// The product's own timeouts.
const TIMEOUTS: AdapterTimeouts =
    AdapterTimeouts { connect: Duration::from_secs(10), response: Duration::from_secs(30) };

/// The settings of such a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProductSettings {
    pub(crate) data_dir: PathBuf,
    pub(crate) platform: String,
    pub(crate) capabilities: ChannelCapabilities,
    pub(crate) model: ModelChoice,
    /// Through which adapter the platform is reached.
    pub(crate) adapter: ChannelAdapter,
}

impl ProductSettings {
    pub(crate) fn start(&self, bench: &BenchRunner) -> Result<ChildProcess> {
        ChildProcess::start(Command::new(&bench.bench_binary).args([ROLE, &serde_json::to_string(self)?]))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ModelChoice {
    Offline,
    Scripted(ModelScript),
}

/// Works until its input ends, and answers each line with the number of commits so far.
pub(crate) fn run_product(settings: &str) -> Result<()> {
    let product: ProductSettings = serde_json::from_str(settings).context("the settings can't be read")?;
    satchel::runtime::build_runtime()?.block_on(serve_until_input_ends(product))
}

async fn serve_until_input_ends(product: ProductSettings) -> Result<()> {
    let stores = BenchStores::open(&product.data_dir).await?;
    let model: Arc<dyn LanguageModel> = match product.model {
        ModelChoice::Offline => Arc::new(OfflineModel::default()),
        ModelChoice::Scripted(script) => Arc::new(ScriptedModel::new(script)),
    };
    let blobs = Arc::new(stores.blobs.clone());
    let ProductSettings { platform, capabilities, adapter, .. } = product;
    let channel = OpenChannel::new(adapter, &platform, capabilities, blobs, fetcher(), TIMEOUTS)?;
    let satchel = build(stores.ports(model, channel.channel()), SatchelOptions::default())?;
    let stop = CancellationToken::new();
    let runner_task = tokio::spawn(satchel.runner.run(stop.clone()));
    let stopped = stop.clone();
    let listener_task = tokio::spawn(async move { channel.listen(satchel.inbound, stopped).await });
    let ledger = stores.ledger;
    tokio::task::spawn_blocking(move || {
        let requests = std::io::stdin().lock().lines().map_while(Result::ok);
        requests.for_each(|_| println!("{}", ledger.commits()));
    })
    .await?;
    stop.cancel();
    runner_task.await?;
    listener_task.await?
}

/// The stores of a data directory.
pub(crate) struct BenchStores {
    pub(crate) ledger: Arc<SqliteLedger>,
    clock: Arc<SystemClock>,
    pub(crate) blobs: DirectoryBlobs,
    workspace: DirectoryWorkspace,
}

impl BenchStores {
    pub(crate) async fn open(data_dir: &Path) -> Result<Self> {
        let clock = Arc::new(SystemClock::new());
        let ledger = SqliteLedger::open(data_dir, Settings::default(), Arc::clone(&clock) as _, Arc::new(UuidV7));
        let ledger = Arc::new(ledger.await?);
        let blobs = DirectoryBlobs::open(&data_dir.join("blobs"))?;
        let workspace = DirectoryWorkspace::open(
            &data_dir.join("workspaces"),
            None,
            WORKSPACE_QUOTA_BYTES,
            Arc::new(SandboxRunner::default()),
        )?;
        Ok(Self { ledger, clock, blobs, workspace })
    }

    pub(crate) fn ports(&self, model: Arc<dyn LanguageModel>, channel: Arc<dyn Channel>) -> Ports {
        Ports {
            ledger: Arc::clone(&self.ledger).into(),
            clock: Arc::clone(&self.clock) as _,
            ids: Arc::new(UuidV7),
            blobs: Arc::new(self.blobs.clone()),
            workspace: Arc::new(self.workspace.clone()),
            bus: Arc::new(LocalBus::new()),
            fetcher: fetcher(),
            model,
            models: BTreeMap::new(),
            speech: None,
            scripts: None,
            documents: None,
            images: None,
            declared_files: None,
            links: None,
            channels: vec![channel],
            tools: Vec::new(),
        }
    }
}
