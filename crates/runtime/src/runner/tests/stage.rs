//! Processes on one data directory: real ledger, real lanes, a chat, a model that repeats what it was told.

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use satchel_agent::{AgentProfile, AgentProfiles, AgentServices, AgentSettings, Toolbox};
use satchel_domain::{
    ConversationId, FileReference, Filename, InboundMessage, PartState, Sender, ToolOutcome, capabilities::StreamRule,
    delivery::DeliveryRules,
};
use satchel_files::{DirectoryBlobs, DirectoryWorkspace, NativeRunner};
use satchel_intake::{
    InboundService, InternalInbound, access::AccessPolicy, commands::CommandFeatures, prepare::InboundLimits,
    steering::plan_steering,
};
use satchel_ledger_sqlite::{Settings, SqliteLedger};
use satchel_local::{LocalBus, UuidV7};
use satchel_ports::{
    Archive, Channel, EventBus, Inbound, LanguageModel, ModelError, ModelEvent, ModelMessage, ModelRequest, SafetyTier,
    Tool, ToolContext, ToolError, ToolSpec, Workspace,
    language_model::{ModelStream, ModelToolCall},
    ledger::{OutboxQuery, Quotas},
};
use satchel_wait::wait_until_async;
use tempfile::TempDir;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    chat::Chat,
    ledger::{FailingLedger, FailureHook, LeapingClock},
};
use crate::runner::{LaneRole, LaneRunner, RunnerIntervals, TurnSlots, WorkerContext};

pub(super) fn place(name: &str) -> ConversationId {
    format!("console:{name}").parse().unwrap()
}

pub(super) fn message(place: &ConversationId, key: &str, text: &str) -> InboundMessage {
    InboundMessage {
        text: text.into(),
        ..InboundMessage::new(place.clone(), format!("{place}/{key}"), Sender::new("7", "Ada"))
    }
}

pub(super) fn with_file(message: InboundMessage) -> InboundMessage {
    let file = FileReference::new("x".into(), Filename::from_untrusted("a.txt"));
    InboundMessage { files: vec![file], ..message }
}

/// Says `re: ` and what it was told since it last spoke; `hang` calls a tool that answers when the test lets it, `hang twice`
/// calls it twice in one message, `think` writes half an answer and no more while the model is paused.
pub(super) struct Echo {
    pub(super) asked: watch::Sender<u32>,
    pub(super) paused: watch::Sender<bool>,
}

#[async_trait]
impl LanguageModel for Echo {
    fn name(&self) -> String {
        "echo".into()
    }

    async fn stream(&self, request: &ModelRequest) -> Result<ModelStream, ModelError> {
        self.asked.send_modify(|asked| *asked += 1);
        let since = request.messages.iter().rev().take_while(|said| !matches!(said, ModelMessage::Assistant { .. }));
        let mut told: Vec<&str> = since
            .filter_map(|said| match said {
                ModelMessage::User { text, .. } | ModelMessage::Tool { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        told.reverse();
        let told = told.join(", ");
        let hangs = match told.as_str() {
            "hang" => 1,
            "hang twice" => 2,
            _ => 0,
        };
        if hangs > 0 {
            let call = ModelToolCall { id: "1".into(), name: "hang".into(), arguments: serde_json::json!({}) };
            let calls = std::iter::repeat_n(call, hangs).map(|call| Ok::<_, ModelError>(ModelEvent::Call(call)));
            return Ok(Box::pin(futures::stream::iter(calls.chain([Ok(ModelEvent::Done)]))));
        }
        let mut paused = self.paused.subscribe();
        let rest = async move {
            paused.wait_for(|paused| !paused).await.expect("the model outlives its answers");
            Ok(ModelEvent::Text(told))
        };
        let begin = futures::stream::iter([Ok(ModelEvent::Text("re: ".into()))]);
        let end = futures::stream::iter([Ok(ModelEvent::Done)]);
        Ok(Box::pin(begin.chain(futures::stream::once(rest)).chain(end)))
    }
}

/// A tool that answers when the test lets it.
struct Hang {
    started: watch::Sender<u32>,
    released: watch::Sender<bool>,
}

#[async_trait]
impl Tool for Hang {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "hang".into(),
            description: String::new(),
            parameters: serde_json::json!({}),
            tier: SafetyTier::SideEffecting,
            time_limit: None,
        }
    }

    async fn call(&self, _: serde_json::Value, _: &ToolContext) -> Result<ToolOutcome, ToolError> {
        self.started.send_modify(|hanging| *hanging += 1);
        self.released.subscribe().wait_for(|released| *released).await.expect("the tool outlives its calls");
        Ok(ToolOutcome::from_text("let go"))
    }
}

/// What outlives the processes: the disk, the platform, and the model's provider.
pub(super) struct Stage {
    pub(super) directory: TempDir,
    pub(super) settings: Settings,
    /// The clock of the ledger, in every process.
    pub(super) clock: Arc<LeapingClock>,
    pub(super) chat: Arc<Chat>,
    pub(super) model: Arc<Echo>,
    /// How many calls of the tool have started.
    pub(super) hanging: watch::Sender<u32>,
    /// Whether the tool answers.
    pub(super) released: watch::Sender<bool>,
    pub(super) bus: Arc<dyn EventBus>,
    pub(super) look: Duration,
    pub(super) access: Arc<AccessPolicy>,
    pub(super) turns_per_person: usize,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::streaming(StreamRule::None)
    }

    pub(super) fn streaming(stream: StreamRule) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            settings: Settings::default(),
            clock: Arc::default(),
            chat: Arc::new(Chat::new(stream)),
            model: Arc::new(Echo { asked: watch::Sender::new(0), paused: watch::Sender::new(false) }),
            hanging: watch::Sender::new(0),
            released: watch::Sender::new(false),
            bus: Arc::new(LocalBus::new()),
            look: Duration::from_millis(100),
            access: Arc::default(),
            turns_per_person: 100,
        }
    }

    /// A stage with a platform where what a person sends in quick succession is one message.
    pub(super) fn joining(stream: StreamRule) -> Self {
        Self { chat: Arc::new(Chat::that_joins_messages(stream)), ..Self::streaming(stream) }
    }

    pub(super) async fn open(&self) -> Arc<SqliteLedger> {
        let (clock, ids) = (Arc::clone(&self.clock), Arc::new(UuidV7));
        Arc::new(SqliteLedger::open(self.directory.path(), self.settings.clone(), clock, ids).await.unwrap())
    }

    pub(super) async fn start(&self) -> Process {
        self.start_with(|_| {}).await
    }

    pub(super) async fn start_with(&self, adjust: impl FnOnce(&mut RunnerIntervals)) -> Process {
        self.start_in(LaneRole::All, adjust).await
    }

    /// Starts a process that does this work of lanes.
    pub(super) async fn start_as(&self, role: LaneRole) -> Process {
        self.start_in(role, |_| {}).await
    }

    /// The same with other intervals.
    pub(super) async fn start_in(&self, role: LaneRole, adjust: impl FnOnce(&mut RunnerIntervals)) -> Process {
        self.start_on(Arc::clone(&self.chat) as _, role, adjust).await
    }

    /// The same with another account of the platform.
    pub(super) async fn start_on(
        &self,
        chat: Arc<dyn Channel>,
        role: LaneRole,
        adjust: impl FnOnce(&mut RunnerIntervals),
    ) -> Process {
        let ledger = Arc::new(FailingLedger { inner: self.open().await, hook: FailureHook::default() });
        let services = AgentServices {
            turns: Arc::clone(&ledger) as _,
            outbox: Arc::clone(&ledger) as _,
            archive: Arc::clone(&ledger) as _,
            reminders: Arc::clone(&ledger) as _,
            clock: ledger.hook.clock(),
            ids: Arc::new(UuidV7),
            bus: Arc::clone(&self.bus),
            agents: AgentProfiles::single(AgentProfile::default_agent(
                Arc::clone(&self.model) as Arc<dyn LanguageModel>,
                Toolbox::new([
                    Arc::new(Hang { started: self.hanging.clone(), released: self.released.clone() }) as Arc<dyn Tool>
                ]),
            )),
            playbooks: None,
            documents: None,
            plan_steering: Arc::new(|turn, waiting| {
                plan_steering(turn, waiting, &AccessPolicy::default(), CommandFeatures::default(), 20)
            }),
            links: None,
            is_owner: Arc::new(|_, _| false),
            is_owners_chat: Arc::new(|_| false),
            settings: AgentSettings::default(),
        };
        let workspace =
            DirectoryWorkspace::open(&self.directory.path().join("workspaces"), None, 1 << 20, Arc::new(NativeRunner))
                .unwrap();
        let workspace: Arc<dyn Workspace> = Arc::new(workspace);
        let slots = Arc::new(TurnSlots::new(self.turns_per_person));
        let context = WorkerContext {
            ledger: Arc::clone(&ledger).into(),
            services,
            blobs: Arc::new(DirectoryBlobs::open(&self.directory.path().join("blobs")).unwrap()),
            workspace: Arc::clone(&workspace),
            quotas: Quotas::NONE,
            speech: None,
            channels: HashMap::from([(chat.name(), chat)]),
            rules: DeliveryRules { backoff: Duration::from_millis(20), ..DeliveryRules::default() },
            inbound: InboundLimits::default(),
            access: Arc::clone(&self.access),
            reminders: true,
            schedules: None,
            role,
            handover: Arc::default(),
            lost_leases: Arc::default(),
            turn_slots: Arc::clone(&slots),
        };
        let (claim, claimed) = mpsc::channel(64);
        let access = Arc::clone(&self.access);
        let inbound = InboundService::new(
            &Arc::clone(&ledger).into(),
            ledger.hook.clock(),
            Arc::clone(&self.bus),
            claim,
            access,
            workspace,
            None,
        );
        let mut runner = LaneRunner::new(context, claimed);
        runner.intervals.poll = self.look;
        adjust(&mut runner.intervals);
        let stop = CancellationToken::new();
        let running = tokio::spawn(runner.run(stop.clone()));
        Process { ledger, slots, inbound, stop, running }
    }
}

pub(super) struct Process {
    pub(super) ledger: Arc<FailingLedger>,
    pub(super) slots: Arc<TurnSlots>,
    inbound: InboundService,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Process {
    pub(super) async fn hears(&self, message: &InboundMessage) {
        self.inbound.accept(message.clone()).await.unwrap();
    }

    pub(super) fn own_door(&self) -> InternalInbound {
        self.inbound.internal_inbound()
    }

    /// Begins to stop.
    pub(super) fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Whether it still works on lanes.
    pub(super) fn is_running(&self) -> bool {
        !self.running.is_finished()
    }

    /// Stops in good order and returns the ledger, still open: what its owner holds stays held.
    pub(super) async fn stops(self) -> Arc<FailingLedger> {
        self.stop.cancel();
        assert!(tokio::time::timeout(Duration::from_secs(5), self.running).await.is_ok(), "it does not stop");
        self.ledger
    }

    /// How many parts are not settled.
    pub(super) async fn unsettled(&self) -> usize {
        let parts = self.ledger.parts(&OutboxQuery::default()).await.unwrap();
        parts.iter().filter(|part| !part.state.is_settled()).count()
    }

    /// Whether a part waits for its next attempt.
    pub(super) async fn has_waiting_part(&self) -> bool {
        let parts = self.ledger.parts(&OutboxQuery::default()).await.unwrap();
        parts.iter().any(|part| matches!(part.state, PartState::Waiting { .. }))
    }

    pub(super) async fn settles(&self) {
        wait_until_async("everything is settled", async || self.unsettled().await == 0).await;
    }
}
