//! The built product in the test's own process: real stores in a temporary directory, a fake platform, any model.

#![expect(clippy::panic, reason = "what is not as it must be ends the test with all that is known")]

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use satchel::build::{Behaviour, Ports, Satchel, build};
use satchel_domain::{
    ChannelCapabilities, ConversationId, InboundMessage, TurnId, UnreadableUpdate, capabilities::StreamRule,
};
use satchel_fakes::{FakeChannel, FakeFile, FakeMode, FakePlatform, PlatformRules, Timeouts};
use satchel_files::{DirectoryBlobs, DirectoryWorkspace};
use satchel_ledger::{Settings, SqliteLedger};
use satchel_local::LocalBus;
use satchel_ports::{Inbound, InboundError, LanguageModel, Ledger, ledger::TurnRecord};
use satchel_system::crash::quick_delivery;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// After how long a turn that is not over is taken for stuck.
const PATIENCE: Duration = Duration::from_secs(40);

/// How often the ledger is asked whether a turn is over.
const LOOK: Duration = Duration::from_millis(3);

/// What a product is started with.
pub(crate) struct Setup {
    pub(crate) rules: PlatformRules,
    pub(crate) capabilities: ChannelCapabilities,
    pub(crate) behaviour: Behaviour,
    pub(crate) settings: Settings,
}

/// A running product with one conversation.
pub(crate) struct Product {
    pub(crate) platform: FakePlatform,
    pub(crate) conversation: ConversationId,
    pub(crate) ledger: Arc<SqliteLedger>,
    turns: Arc<Taken>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    _directory: TempDir,
}

/// Takes messages in and remembers their turns.
struct Taken {
    inner: Arc<dyn Inbound>,
    turns: Mutex<Vec<TurnId>>,
}

#[async_trait]
impl Inbound for Taken {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        let turn = self.inner.accept(message).await?;
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).extend(turn);
        Ok(turn)
    }

    async fn conversation_moved(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        self.inner.conversation_moved(from, to).await
    }

    async fn keep_unreadable(&self, update: UnreadableUpdate) -> Result<(), InboundError> {
        self.inner.keep_unreadable(update).await
    }
}

impl Setup {
    /// A platform with its own numbers, without streaming, and deliveries that don't wait long.
    pub(crate) fn of(mode: FakeMode) -> Self {
        let rules = mode.rules();
        let capabilities = ChannelCapabilities { stream: StreamRule::None, ..rules.capabilities() };
        let behaviour = Behaviour { delivery: quick_delivery(), ..Behaviour::default() };
        Self { rules, capabilities, behaviour, settings: Settings::default() }
    }
}

impl Product {
    pub(crate) async fn start(setup: Setup, model: Arc<dyn LanguageModel>) -> Self {
        let Setup { rules, capabilities, behaviour, settings } = setup;
        let directory = tempfile::tempdir().expect("a directory");
        let data = directory.path().to_owned();
        let mode = rules.mode;
        let platform = FakePlatform::start(rules).await.expect("a loopback port");
        let ledger = Arc::new(SqliteLedger::open(&data, settings).await.expect("a new ledger"));
        let blobs = Arc::new(DirectoryBlobs::open(&data.join("blobs")).expect("a new store"));
        let workspace = DirectoryWorkspace::open(&data.join("workspaces"), None, 1 << 30).expect("new workspaces");
        let conversation: ConversationId = "fake:5".parse().expect("a conversation");
        let name = conversation.channel().clone();
        let url = platform.base_url();
        let channel =
            Arc::new(FakeChannel::new(name, url, mode, capabilities, Arc::clone(&blobs) as _, Timeouts::default()));
        let ports = Ports {
            ledger: Arc::clone(&ledger) as _,
            blobs,
            workspace: Arc::new(workspace),
            bus: Arc::new(LocalBus::new()),
            model,
            speech: None,
            channels: vec![Arc::clone(&channel) as _],
            tools: Vec::new(),
        };
        let Satchel { inbound, lanes } = build(ports, behaviour);
        let turns = Arc::new(Taken { inner: inbound, turns: Mutex::default() });
        let stop = CancellationToken::new();
        let (shutdown, inbound) = (stop.clone(), Arc::clone(&turns));
        let listening = tokio::spawn(async move { channel.listen(inbound, shutdown).await });
        let tasks = vec![tokio::spawn(lanes.run(stop.clone())), listening];
        Self { platform, conversation, ledger, turns, stop, tasks, _directory: directory }
    }

    /// Lets the person say something and waits until the turn is over and every part of its reply is settled.
    pub(crate) async fn say(&self, text: &str, files: Vec<FakeFile>) -> TurnRecord {
        let before = self.taken().len();
        self.platform.person_says(&self.conversation, text, files);
        let over = async {
            loop {
                if let Some(turn) = self.taken().get(before)
                    && let Some(record) = self.ledger.turn(*turn).await.expect("the ledger can be read")
                    && record.ending.is_some()
                    && record.parts.iter().all(|part| part.state.is_settled())
                {
                    return record;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let over = tokio::time::timeout(PATIENCE, over).await;
        over.unwrap_or_else(|_| panic!("{text:?} is not answered in {PATIENCE:?}:\n{}", self.platform.transcript()))
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

    fn taken(&self) -> Vec<TurnId> {
        self.turns.turns.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
