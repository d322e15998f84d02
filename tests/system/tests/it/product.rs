//! The built product in the test's own process: real stores in a temporary directory, a real adapter, any model.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

mod start_writes;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel::{
    build::{Satchel, SatchelOptions, build},
    ports::{ExtraTool, Ports},
};
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate,
    capabilities::StreamRule,
};
use satchel_fake_kit::FakeFile;
use satchel_files::{DirectoryBlobs, DirectoryDeclaredFiles, DirectoryWorkspace, ExcludedPaths};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{LocalBus, SystemClock, UuidV7};
use satchel_ports::{
    Archive, Blobs, Clock, DeclaredFiles, Ids, Inbound, InboundError, LanguageModel, ScriptHost,
    intercept::Intercepted, ledger::TurnRecord,
};
use satchel_sandbox::SandboxRunner;
use satchel_system::{
    crash::{
        ChannelAdapter,
        channel::{AdapterTimeouts, OpenChannel},
        quick_delivery,
    },
    fetching::fetcher,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::start_writes::{StartWrites, wait_for_start_writes};
use crate::test_platform::{PlatformRules, TestPlatform};

/// After how long a turn that is not over is taken for stuck.
const TURN_TIMEOUT: Duration = Duration::from_secs(40);

/// How often the ledger is asked whether a turn is over.
const POLL_INTERVAL: Duration = Duration::from_millis(3);

/// As long as what a test does to the platform never makes it slow.
const ADAPTER_TIMEOUTS: AdapterTimeouts =
    AdapterTimeouts { connect: Duration::from_secs(2), response: Duration::from_secs(5) };

/// Makes tools for a product's blobs.
pub(crate) type MakeTools = fn(&Arc<dyn Blobs>) -> Vec<ExtraTool>;

/// What a product is started with.
pub(crate) struct ProductSetup {
    pub(crate) rules: PlatformRules,
    pub(crate) capabilities: ChannelCapabilities,
    pub(crate) behaviour: SatchelOptions,
    pub(crate) settings: Settings,
    pub(crate) scripts: Option<Arc<dyn ScriptHost>>,
    /// The tools that it has besides its own, made for its blobs.
    pub(crate) tools: MakeTools,
    /// The models that agents name.
    pub(crate) models: BTreeMap<String, Arc<dyn LanguageModel>>,
}

/// A running product with one conversation.
pub(crate) struct Product {
    pub(crate) platform: TestPlatform,
    pub(crate) conversation: ConversationId,
    pub(crate) ledger: Arc<SqliteLedger>,
    messages: Arc<RecordingInbound>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    /// Where everything of it lies.
    pub(crate) directory: TempDir,
}

/// Takes messages in and remembers their turns.
struct RecordingInbound {
    inner: Arc<dyn Inbound>,
    turns: Mutex<Vec<TurnId>>,
    failures: AtomicU64,
}

#[async_trait]
impl Inbound for RecordingInbound {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        let accepted = self.inner.accept(message).await;
        match &accepted {
            Ok(turn) => self.turns.lock().unwrap_or_else(PoisonError::into_inner).extend(*turn),
            Err(_) => {
                self.failures.fetch_add(1, Ordering::SeqCst);
            }
        }
        accepted
    }

    async fn rename_conversation(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        self.inner.rename_conversation(from, to).await
    }

    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError> {
        self.inner.record_undecodable(update).await
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        self.inner.load_checkpoint(channel).await
    }

    async fn save_checkpoint(&self, channel: &ChannelName, checkpoint: Value) -> Result<(), InboundError> {
        self.inner.save_checkpoint(channel, checkpoint).await
    }
}

impl ProductSetup {
    /// A platform with its own limits, without streaming, and deliveries that don't wait long.
    pub(crate) fn for_platform(adapter: ChannelAdapter) -> Self {
        let rules = PlatformRules::for_platform(adapter);
        let capabilities = ChannelCapabilities { stream: StreamRule::None, ..rules.capabilities() };
        let behaviour = SatchelOptions { delivery: quick_delivery(), ..SatchelOptions::default() };
        let (settings, scripts) = (Settings::default(), None);
        let models = BTreeMap::new();
        Self { rules, capabilities, behaviour, settings, scripts, tools: |_| Vec::new(), models }
    }
}

impl Product {
    pub(crate) async fn start(setup: ProductSetup, model: Arc<dyn LanguageModel>) -> Self {
        Self::start_with(setup, |_| model).await
    }

    /// Starts it with a model that is made for its blobs.
    pub(crate) async fn start_with(
        setup: ProductSetup,
        make_model: impl FnOnce(&Arc<dyn Blobs>) -> Arc<dyn LanguageModel>,
    ) -> Self {
        let platform = TestPlatform::open(setup.rules.clone()).await;
        Self::start_in(tempfile::tempdir().expect("a directory"), platform, setup, make_model).await
    }

    /// Ends it in good order and starts it again, on the same platform and with the same data.
    pub(crate) async fn restart(self, setup: ProductSetup, model: Arc<dyn LanguageModel>) -> Self {
        let Self { platform, ledger, stop, tasks, directory, .. } = self;
        stop.cancel();
        for task in tasks {
            task.await.expect("nothing panics");
        }
        drop(ledger);
        Self::start_in(directory, platform, setup, |_| model).await
    }

    async fn start_in(
        directory: TempDir,
        platform: TestPlatform,
        setup: ProductSetup,
        make_model: impl FnOnce(&Arc<dyn Blobs>) -> Arc<dyn LanguageModel>,
    ) -> Self {
        let ProductSetup { rules, capabilities, behaviour, settings, scripts, tools, models } = setup;
        let data = directory.path().to_owned();
        let adapter = rules.adapter();
        let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (Arc::new(SystemClock::new()), Arc::new(UuidV7));
        let ledger = SqliteLedger::open(&data, settings, Arc::clone(&clock), Arc::clone(&ids));
        let ledger = Arc::new(ledger.await.expect("a new ledger"));
        let blobs: Arc<dyn Blobs> = Arc::new(DirectoryBlobs::open(&data.join("blobs")).expect("a new store"));
        let (tools, model) = (tools(&blobs), make_model(&blobs));
        let workspace =
            DirectoryWorkspace::open(&data.join("workspaces"), None, 1 << 30, Arc::new(SandboxRunner::default()))
                .expect("new workspaces");
        let excluded = ExcludedPaths { paths: vec![data.clone()], ..ExcludedPaths::default() };
        let declared_files = DirectoryDeclaredFiles::open(&data.join("downloads"), 1 << 20, excluded);
        let declared_files: Arc<dyn DeclaredFiles> = Arc::new(declared_files.expect("a new directory"));
        let address = platform.address();
        let channel =
            OpenChannel::new(adapter, &address, capabilities, Arc::clone(&blobs), fetcher(), ADAPTER_TIMEOUTS)
                .expect("HTTP is spoken");
        let (hook, start_writes) = StartWrites::new();
        let ports = Ports {
            ledger: Arc::new(Intercepted { inner: Arc::clone(&ledger), hook }).into(),
            clock,
            ids,
            blobs,
            workspace: Arc::new(workspace),
            bus: Arc::new(LocalBus::new()),
            fetcher: fetcher(),
            model,
            models,
            speech: None,
            scripts,
            documents: None,
            images: None,
            declared_files: Some(declared_files),
            links: None,
            channels: vec![channel.channel()],
            tools,
        };
        let Satchel { inbound, runner, .. } = build(ports, behaviour).expect("each channel has a name of its own");
        let messages = RecordingInbound { inner: inbound, turns: Mutex::default(), failures: AtomicU64::default() };
        let messages = Arc::new(messages);
        let stop = CancellationToken::new();
        let (shutdown, inbound) = (stop.clone(), Arc::clone(&messages));
        let listener_task =
            tokio::spawn(async move { channel.listen(inbound, shutdown).await.expect("the platform knows its bot") });
        let tasks = vec![tokio::spawn(runner.run(stop.clone())), listener_task];
        platform.wait_until_connected().await;
        wait_for_start_writes(start_writes).await;
        let conversation = TestPlatform::conversation(adapter);
        Self { platform, conversation, ledger, messages, stop, tasks, directory }
    }

    /// Lets the person send something and waits until the turn is over and every part of its reply is settled.
    pub(crate) async fn send(&self, text: &str, files: Vec<FakeFile>) -> TurnRecord {
        self.send_in(&self.conversation, text, files).await
    }

    /// Does the same in another conversation.
    pub(crate) async fn send_in(&self, conversation: &ConversationId, text: &str, files: Vec<FakeFile>) -> TurnRecord {
        let before = self.received().len();
        self.platform.person_sends(conversation, text, files);
        let wait_for_record = async {
            loop {
                if let Some(turn) = self.received().get(before)
                    && let Some(record) = self.ledger.turn(*turn).await.expect("the ledger can be read")
                    && record.ending.is_some()
                    && record.parts.iter().all(|part| part.state.is_settled())
                {
                    return record;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let record = tokio::time::timeout(TURN_TIMEOUT, wait_for_record).await;
        record
            .unwrap_or_else(|_| panic!("{text:?} is not answered in {TURN_TIMEOUT:?}:\n{}", self.platform.transcript()))
    }

    /// All words that a person sees, message by message.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.platform.transcript().visible_texts(&self.conversation).into_iter().map(str::to_owned).collect()
    }

    /// Ends it in good order. A task that panicked fails the test.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.expect("nothing panics");
        }
    }

    /// How often a message could not be stored.
    pub(crate) fn failed_messages(&self) -> u64 {
        self.messages.failures.load(Ordering::SeqCst)
    }

    /// The turns of the messages that were taken in, in order.
    fn received(&self) -> Vec<TurnId> {
        self.messages.turns.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
