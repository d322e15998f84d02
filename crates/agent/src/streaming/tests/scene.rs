//! A growing reply on a stage: a platform that answers as scripted and takes its time, a ledger that writes down what
//! it is asked.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ConversationId, FileReference, MessageRef, Part, PartContent, PartId, PartState,
    Timestamp, TurnId,
    capabilities::StreamRule,
    delivery::{Refusal, SendError},
};
use satchel_ports::{
    Activity, BusEvent, Channel, FetchedFile, FileFetchError, HolderId, Lease, LedgerError, LookupOutcome,
    LookupRequest, MockEventBus, MockLanguageModel, MockLedger, SendRequest, SequentialIds, TokioClock,
    ledger::QueuedTurn, ledger::SteeringRequests,
};
use satchel_routing::tables;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    AgentProfile, AgentProfiles, AgentServices, AgentSettings, LaneHandle, Toolbox,
    streaming::{Editing, Growth, Streaming},
};

/// The least time between two edits on the stage.
pub(super) const INTERVAL: u64 = 1_100;

pub(super) type Answer = Result<Vec<MessageRef>, SendError>;

pub(super) fn sent() -> Answer {
    Ok(vec![MessageRef("m1".into())])
}

pub(super) fn not_sent(retry_after_ms: u64) -> Answer {
    Err(SendError::NotSent { retry_after_ms: Some(retry_after_ms), reason: "busy".into() })
}

pub(super) fn in_doubt() -> Answer {
    Err(SendError::InDoubt { reason: "reset".into() })
}

pub(super) fn refused(refusal: Refusal) -> Answer {
    Err(SendError::Refused { refusal, reason: "no".into() })
}

pub(super) fn forbidden() -> Answer {
    Err(SendError::Forbidden { reason: "no".into() })
}

/// The message of a stream that was begun when the scene opened.
pub(super) fn part() -> Part {
    Part {
        id: PartId(Uuid::from_u128(5)),
        conversation: "console:main".parse().unwrap(),
        turn: TurnId(Uuid::from_u128(1)),
        position: 0,
        content: PartContent::from_text(""),
        state: PartState::Sending,
        attempts: 1,
        first_attempt_at: Some(Timestamp(0)),
        streamed: false,
        searched: false,
        labelled: false,
        labelled_sends: 0,
        question: None,
        target: None,
        reply_to: None,
        created_at: Timestamp(0),
    }
}

/// How a scene opens. Answers that aren't scripted are good ones.
pub(super) struct Stage {
    pub(super) capabilities: ChannelCapabilities,
    pub(super) earlier: Option<Part>,
    pub(super) sends: Vec<Answer>,
    pub(super) edits: Vec<Answer>,
    /// How long the platform takes for an answer.
    pub(super) takes_ms: u64,
    /// How often something earlier in the lane is still unsettled.
    pub(super) busy: usize,
    pub(super) begin_fails: bool,
    pub(super) save_fails: bool,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            capabilities: ChannelCapabilities {
                stream: StreamRule::Edits { interval_ms: INTERVAL },
                ..tables::telegram()
            },
            earlier: None,
            sends: Vec::new(),
            edits: Vec::new(),
            takes_ms: 0,
            busy: 0,
            begin_fails: false,
            save_fails: false,
        }
    }
}

/// What happened, each with the milliseconds since the scene opened.
#[derive(Clone)]
struct Log {
    opened: Instant,
    lines: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Log {
    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap()
    }

    fn push(&self, line: String) {
        self.lines().push((self.now(), line));
    }

    fn lines(&self) -> MutexGuard<'_, Vec<(u64, String)>> {
        self.lines.lock().unwrap()
    }
}

/// Mocks answer at once; this platform takes its time.
struct Platform {
    log: Log,
    takes: Duration,
    sends: Mutex<VecDeque<Answer>>,
    edits: Mutex<VecDeque<Answer>>,
    capabilities: ChannelCapabilities,
}

impl Platform {
    async fn answer(&self, script: &Mutex<VecDeque<Answer>>) -> Answer {
        tokio::time::sleep(self.takes).await;
        self.log.push("answer".into());
        script.lock().unwrap().pop_front().unwrap_or_else(sent)
    }
}

fn text_of(request: &SendRequest) -> &str {
    match &request.content {
        PartContent::Text { text, .. } => text,
        other => panic!("not a text: {other:?}"),
    }
}

#[async_trait]
impl Channel for Platform {
    fn name(&self) -> ChannelName {
        ChannelName::new("console").unwrap()
    }

    fn capabilities(&self, _: &ConversationId) -> ChannelCapabilities {
        self.capabilities.clone()
    }

    async fn send(&self, request: &SendRequest) -> Answer {
        self.log.push(format!("send part {}: {}", request.part_id.0.as_u128(), text_of(request)));
        self.answer(&self.sends).await
    }

    async fn edit(&self, message: &MessageRef, request: &SendRequest) -> Answer {
        self.log.push(format!("edit {message}: {}", text_of(request)));
        self.answer(&self.edits).await
    }

    async fn delete(&self, _: &ConversationId, _: &MessageRef) -> Result<(), SendError> {
        panic!("streaming deletes nothing")
    }

    async fn find_sent(&self, _: &LookupRequest) -> Result<LookupOutcome, SendError> {
        panic!("streaming looks nothing up")
    }

    async fn probe(&self) -> Result<(), SendError> {
        panic!("streaming probes nothing")
    }

    async fn show_activity(&self, _: &ConversationId, _: Activity) {}

    async fn fetch(&self, _: &FileReference) -> Result<FetchedFile, FileFetchError> {
        panic!("streaming fetches nothing")
    }
}

/// A reply that grows.
pub(super) struct Scene {
    growth: Growth,
    editing: Option<Editing>,
    written: String,
    message: u32,
    log: Log,
    events: Arc<Mutex<Vec<BusEvent>>>,
}

impl Stage {
    pub(super) fn open(self) -> Scene {
        let log = Log { opened: Instant::now(), lines: Arc::default() };
        let mut ledger = MockLedger::default();
        let (lines, begin_fails, busy) = (log.clone(), self.begin_fails, Mutex::new(self.busy));
        ledger.outbox.expect_begin_stream().returning(move |_, _, _| {
            lines.push("begin".into());
            let mut busy = busy.lock().unwrap();
            match (begin_fails, *busy) {
                (true, _) => Err(LedgerError::Full),
                (false, 0) => Ok(Some(part())),
                (false, _) => {
                    *busy -= 1;
                    Ok(None)
                }
            }
        });
        let (lines, save_fails) = (log.clone(), self.save_fails);
        ledger.outbox.expect_save_part().returning(move |_, part| {
            let target = part.target.iter().map(|target| format!(" {target}")).collect::<String>();
            lines.push(format!("save {}{target}", part.state.as_str()));
            if save_fails { Err(LedgerError::Full) } else { Ok(()) }
        });
        let events: Arc<Mutex<Vec<BusEvent>>> = Arc::default();
        let heard = Arc::clone(&events);
        let mut bus = MockEventBus::new();
        bus.expect_publish().returning(move |event| {
            heard.lock().unwrap().push(event);
            Ok(())
        });
        let services = AgentServices {
            turns: Arc::new(ledger.turns),
            outbox: Arc::new(ledger.outbox),
            archive: Arc::new(ledger.archive),
            clock: Arc::new(TokioClock::default()),
            ids: Arc::new(SequentialIds::default()),
            bus: Arc::new(bus),
            agents: AgentProfiles::single(AgentProfile::default_agent(
                Arc::new(MockLanguageModel::new()),
                Toolbox::default(),
            )),
            playbooks: None,
            documents: None,
            plan_steering: Arc::new(|_| SteeringRequests::default()),
            links: None,
            is_owner: Arc::new(|_, _| false),
            is_owners_chat: Arc::new(|_| false),
            settings: AgentSettings::default(),
        };
        let platform = Platform {
            log: log.clone(),
            takes: Duration::from_millis(self.takes_ms),
            sends: Mutex::new(self.sends.into()),
            edits: Mutex::new(self.edits.into()),
            capabilities: self.capabilities.clone(),
        };
        let lane = LaneHandle {
            lease: Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 },
            channel: Arc::new(platform),
            wake: Arc::new(Notify::new()),
            woken: Arc::default(),
            planned: Arc::default(),
            stop: CancellationToken::new(),
        };
        let turn = QueuedTurn {
            id: TurnId(Uuid::from_u128(1)),
            messages: Vec::new(),
            ready_at: Timestamp(0),
            has_followers: true,
            journal: Vec::new(),
            stream: self.earlier,
            crashes: 0,
            unreported_failures: Vec::new(),
            voice: false,
            agent: None,
        };
        let Streaming { growth, editing } = Streaming::start(&services, &lane, &turn, &self.capabilities);
        Scene { growth, editing: Some(editing), written: String::new(), message: 0, log, events }
    }
}

impl Scene {
    /// The model writes a piece.
    pub(super) async fn writes(&mut self, piece: &str) {
        self.written.push_str(piece);
        self.growth.wrote(piece, &self.written).await;
    }

    /// Tools begin to run.
    pub(super) fn works(&self, tools: &[&str]) {
        self.growth.works(&self.written, tools);
    }

    /// The model begins its next message.
    pub(super) fn begins_message(&mut self) {
        self.written.clear();
        self.message += 1;
        self.growth.begin(self.message);
    }

    pub(super) async fn passes(&mut self, milliseconds: u64) {
        let time = tokio::time::sleep(Duration::from_millis(milliseconds));
        match &mut self.editing {
            None => time.await,
            Some(editing) => tokio::select! {
                never = editing.go_on() => match never {},
                () = time => {}
            },
        }
    }

    pub(super) async fn finish(&mut self) -> bool {
        self.editing.take().expect("it ends once").finish().await
    }

    pub(super) fn log(&self) -> Vec<String> {
        self.log.lines().iter().map(|(_, line)| line.clone()).collect()
    }

    /// What reached the platform, and when.
    pub(super) fn calls(&self) -> Vec<(u64, String)> {
        let is_call = |line: &str| line.starts_with("send") || line.starts_with("edit");
        self.log.lines().iter().filter(|(_, line)| is_call(line)).cloned().collect()
    }

    pub(super) fn events(&self) -> Vec<BusEvent> {
        self.events.lock().unwrap().clone()
    }
}
