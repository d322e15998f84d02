//! A turn on a stage: scripted model and tools, a ledger that writes down what it is asked.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    num::NonZeroU64,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use satchel_domain::{
    Attachment, AttachmentId, AttachmentSource, ChannelCapabilities, ChannelName, ConversationId, Filename,
    InboundMessage, InboxId, MediaInfo, MessageRef, OutcomeFile, Part, PartContent, PartId, PartState, Sender, Sha256,
    TaskRequest, Timestamp, ToolCall, ToolOutcome, TurnId, Visibility, part::CallQuestion,
};
use satchel_ports::{
    DocumentReader, FileChange, HolderId, LanguageModel, Lease, LedgerError, ManualClock, MockChannel, MockEventBus,
    MockLanguageModel, MockLedger, ModelError, ModelEvent, ModelMessage, ModelRequest, SafetyTier, SequentialIds, Tool,
    ToolContext, ToolError, ToolSpec,
    language_model::{InputSupport, ModelToolCall},
    ledger::{
        AttachmentKey, CallDecision, CompletedTurn, ConversationSettings, JournalEntry, NewQuestion, QuestionKey,
        QueuedMessage, QueuedTurn, Reminder, ReminderScope, SteeringMessage, SteeringRequests, ToolDecision,
    },
};
use satchel_routing::{deliver::DeliveryHandle, tables};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    AgentProfile, AgentProfiles, AgentServices, AgentSettings, LaneHandle, PlaybookServices, Toolbox,
    confirm::confirmation_code,
};

pub(super) const TURN: TurnId = TurnId(Uuid::from_u128(1));

type Script = Vec<Result<ModelEvent, &'static str>>;

pub(super) fn says(text: &str) -> Script {
    let mut script: Script = text.split_inclusive(' ').map(|piece| Ok(ModelEvent::Text(piece.to_owned()))).collect();
    script.push(Ok(ModelEvent::Done));
    script
}

pub(super) fn calls(requested: &[(&str, Value)]) -> Script {
    let call = |(name, arguments): &(&str, Value)| {
        Ok(ModelEvent::Call(ModelToolCall { id: "theirs".into(), name: (*name).into(), arguments: arguments.clone() }))
    };
    requested.iter().map(call).chain([Ok(ModelEvent::Done)]).collect()
}

pub(super) fn tool<F, Fut>(name: &str, tier: SafetyTier, call: F) -> Arc<dyn Tool>
where
    F: Fn(Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutcome, ToolError>> + Send + 'static,
{
    scripted_tool(name, tier, None, move |arguments, _| call(arguments))
}

/// A tool that sees what is around its call, and has as much time as a person may take.
pub(super) fn tool_that_calls<F, Fut>(name: &str, tier: SafetyTier, call: F) -> Arc<dyn Tool>
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutcome, ToolError>> + Send + 'static,
{
    scripted_tool(name, tier, Some(Duration::from_secs(3_600)), call)
}

fn scripted_tool<F, Fut>(name: &str, tier: SafetyTier, time_limit: Option<Duration>, call: F) -> Arc<dyn Tool>
where
    F: Fn(Value, ToolContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutcome, ToolError>> + Send + 'static,
{
    struct Scripted<F>(ToolSpec, F);
    #[async_trait::async_trait]
    impl<F, Fut> Tool for Scripted<F>
    where
        F: Fn(Value, ToolContext) -> Fut + Send + Sync,
        Fut: Future<Output = Result<ToolOutcome, ToolError>> + Send,
    {
        fn spec(&self) -> ToolSpec {
            self.0.clone()
        }

        async fn call(&self, arguments: Value, context: &ToolContext) -> Result<ToolOutcome, ToolError> {
            (self.1)(arguments, context.clone()).await
        }
    }
    let spec = ToolSpec { name: name.into(), description: String::new(), parameters: json!({}), tier, time_limit };
    Arc::new(Scripted(spec, call))
}

/// As the ledger does: new files get a number, and those that it knows keep theirs.
pub(super) fn recorded_file(file: OutcomeFile) -> Result<Attachment, LedgerError> {
    match file {
        OutcomeFile::Stored(file) => Ok(file),
        OutcomeFile::New(file) => Ok(file.numbered("console:main".parse().unwrap(), NonZeroU64::new(101).unwrap())),
    }
}

pub(super) fn file(id: u128, name: &str) -> Attachment {
    Attachment {
        id: AttachmentId(Uuid::from_u128(id)),
        number: NonZeroU64::new(u64::try_from(id).unwrap()).unwrap(),
        conversation: "console:main".parse().unwrap(),
        source: AttachmentSource::Tool,
        filename: Filename::from_untrusted(name),
        mime: "text/plain".into(),
        bytes: 3,
        sha256: Sha256([u8::try_from(id).unwrap(); 32]),
        media: MediaInfo::default(),
        description: String::new(),
        created_at: Timestamp(0),
        visibility: Visibility::Deliver,
        link_revocation: None,
    }
}

pub(super) fn waiting(id: u128, text: &str) -> QueuedMessage {
    QueuedMessage {
        id: InboxId(Uuid::from_u128(id)),
        turn: TurnId(Uuid::from_u128(id)),
        message: InboundMessage {
            text: text.into(),
            ..InboundMessage::new("console:main".parse().unwrap(), id.to_string(), Sender::new("owner", "Owner"))
        },
        files: Vec::new(),
        transcriptions: std::collections::BTreeMap::new(),
        received_at: Timestamp(0),
    }
}

pub(super) fn text_of(message: &ModelMessage) -> String {
    match message {
        ModelMessage::User { text, .. }
        | ModelMessage::Note { text }
        | ModelMessage::Assistant { text, .. }
        | ModelMessage::Tool { text, .. } => text.clone(),
        ModelMessage::Context { parts } => format!("{parts:?}"),
    }
}

/// The part of the nth question.
fn question_part(lease: &Lease, question: &NewQuestion, number: usize) -> Part {
    let NewQuestion { call, text, buttons, unanswered } = question.clone();
    let id = PartId(Uuid::from_u128(u128::try_from(number).unwrap()));
    let content = PartContent::question(text, buttons);
    Part {
        state: PartState::Sending,
        attempts: 1,
        first_attempt_at: Some(Timestamp(0)),
        question: Some(CallQuestion { call, unanswered, closing: None }),
        ..Part::new(id, lease.conversation.clone(), call.turn, 0, content, Timestamp(0))
    }
}

/// The agent knows commands only through the function that it is given; this one is as simple as can be.
fn steer(_: &QueuedTurn, waiting: &[QueuedMessage]) -> SteeringRequests {
    let stop = waiting.iter().find(|queued| queued.message.text == "/stop").map(|queued| queued.id);
    let inject = waiting.iter().filter(|queued| !queued.message.text.starts_with('/')).map(|queued| SteeringMessage {
        id: queued.id,
        sender: queued.message.sender.clone(),
        text: queued.message.text.clone(),
        origin: Some(queued.origin()),
    });
    let decisions = waiting.iter().filter_map(|queued| {
        let (verb, code) = queued.message.text.split_once(' ')?;
        let allow = ["/refuse", "/allow"].iter().position(|known| *known == verb)? == 1;
        Some(ToolDecision { id: queued.id, sender: queued.message.sender.clone(), code: code.to_owned(), allow })
    });
    let joins = waiting.iter().filter(|queued| queued.message.text.starts_with("more")).map(|queued| queued.turn);
    SteeringRequests {
        stop,
        inject: inject.collect(),
        decisions: decisions.collect(),
        immediate_replies: Vec::new(),
        joins: joins.collect(),
    }
}

/// The secret of the installation on which turns are played.
fn question_key() -> QuestionKey {
    QuestionKey::new("a secret".to_owned())
}

/// The code of the question about a call.
pub(super) fn code_of(call: &ToolCall) -> String {
    confirmation_code(&question_key(), call)
}

#[derive(Clone, Default)]
pub(super) struct Counter(Arc<AtomicU32>);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) struct Stage {
    pub(super) turn: QueuedTurn,
    pub(super) tools: Vec<Arc<dyn Tool>>,
    /// The agents besides the default one, which has the stage's tools and model.
    pub(super) other_agents: Vec<AgentProfile>,
    /// The agents that chats have without anybody choosing them.
    pub(super) chats: HashMap<ConversationId, String>,
    /// The models that can be chosen, by their names.
    pub(super) models: Vec<(String, Arc<dyn LanguageModel>)>,
    pub(super) silent: bool,
    /// For how long the platform takes no question.
    pub(super) busy: Duration,
    /// What the ledger refuses, because its disk is full.
    pub(super) refused_verb: Option<&'static str>,
    pub(super) settings: AgentSettings,
    /// The files that the ledger has of the turn, the newest first.
    pub(super) made: Vec<Attachment>,
    /// The reminders that the ledger has of the turn's calls: those that they have made, and those that they have cancelled.
    pub(super) made_reminders: Vec<Reminder>,
    pub(super) cancelled_reminders: Vec<Reminder>,
    /// The files that the ledger finds by their ids.
    pub(super) known_files: Vec<Attachment>,
    /// The task that the turn runs, and what it is run with.
    pub(super) task: Option<TaskRequest>,
    pub(super) playbooks: Option<Arc<PlaybookServices>>,
    pub(super) documents: Option<Arc<dyn DocumentReader>>,
    /// What the default agent's model takes.
    pub(super) input_support: InputSupport,
    /// Whether what a person sends in quick succession is one message: for these tests what begins with `more`.
    pub(super) joins_messages: bool,
    /// Whether the ledger lets turns join this one.
    pub(super) can_be_joined: bool,
    /// The conversation so far.
    model: Vec<Script>,
    arrivals: Vec<(Duration, QueuedMessage)>,
}

/// An ordinal and the changes that were recorded with its outcome.
type RecordedChanges = (u32, Vec<FileChange>);

pub(super) struct Played {
    pub(super) log: Vec<String>,
    pub(super) journal: Vec<JournalEntry>,
    pub(super) requests: Vec<ModelRequest>,
    /// The questions that were opened.
    pub(super) questions: Vec<NewQuestion>,
    pub(super) completed: CompletedTurn,
    /// The changes that were recorded with each outcome.
    pub(super) changes: Vec<RecordedChanges>,
}

/// What was done for a turn, whether it came to its end or its process stopped before.
pub(super) struct StageRecord {
    pub(super) log: Vec<String>,
    /// What the next process reads of it.
    pub(super) journal: Vec<JournalEntry>,
    pub(super) requests: Vec<ModelRequest>,
    questions: Vec<NewQuestion>,
    pub(super) completed: Option<CompletedTurn>,
    changes: Vec<RecordedChanges>,
}

impl Played {
    /// What the tools answered, as the model read it in its nth request.
    pub(super) fn answers(&self, request: usize) -> Vec<String> {
        let messages = self.requests[request].messages.iter();
        messages.filter(|message| matches!(message, ModelMessage::Tool { .. })).map(text_of).collect()
    }
}

impl Stage {
    pub(super) fn with_model(model: Vec<Script>) -> Self {
        let turn = QueuedTurn {
            id: TURN,
            messages: vec![waiting(2, "please")],
            ready_at: Timestamp(0),
            has_followers: true,
            journal: Vec::new(),
            draft: None,
            crashes: 0,
            unreported_failures: Vec::new(),
            settings: ConversationSettings::default(),
            history: [].into(),
        };
        Self {
            turn,
            tools: Vec::new(),
            other_agents: Vec::new(),
            chats: HashMap::new(),
            models: Vec::new(),
            silent: false,
            busy: Duration::ZERO,
            refused_verb: None,
            settings: AgentSettings::default(),
            made: Vec::new(),
            made_reminders: Vec::new(),
            cancelled_reminders: Vec::new(),
            known_files: Vec::new(),
            task: None,
            playbooks: None,
            documents: None,
            input_support: InputSupport::default(),
            joins_messages: false,
            can_be_joined: true,
            model,
            arrivals: Vec::new(),
        }
    }

    pub(super) fn counter(&self) -> Counter {
        Counter::default()
    }

    pub(super) fn arrives_after(&mut self, after: Duration, message: QueuedMessage) {
        self.arrivals.push((after, message));
    }

    /// What the model says before everything else, in the place of what it was to say.
    pub(super) fn answer_first(&mut self, script: Script) {
        self.model[0] = script;
    }

    /// What the model says after everything else.
    pub(super) fn then(mut self, script: Script) -> Self {
        self.model.push(script);
        self
    }

    /// The model's only answer.
    pub(super) fn answers_next(&mut self, script: Script) {
        self.model = vec![script];
    }

    pub(super) async fn play(self) -> Played {
        let StageRecord { log, mut journal, requests, questions, completed, changes } = self.perform(None).await;
        journal.retain(|entry| !matches!(entry, JournalEntry::Outcome { .. }));
        let completed = completed.expect("the turn was completed");
        Played { log, journal, requests, questions, completed, changes }
    }

    /// Plays the turn until its run ends, completed or not.
    pub(super) async fn play_one_run(self) -> StageRecord {
        self.perform(None).await
    }

    /// Plays the turn in a process that stops after a while.
    pub(super) async fn play_until_stop(self, after: Duration) -> StageRecord {
        self.perform(Some(after)).await
    }

    async fn perform(self, stop_after: Option<Duration>) -> StageRecord {
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let journal: Arc<Mutex<Vec<JournalEntry>>> = Arc::default();
        let requests: Arc<Mutex<Vec<ModelRequest>>> = Arc::default();
        let completed: Arc<Mutex<Option<CompletedTurn>>> = Arc::default();
        let start = tokio::time::Instant::now();

        let mut ledger = MockLedger::default();
        let refused_verb = self.refused_verb;
        let accept = move |verb| if refused_verb == Some(verb) { Err(LedgerError::Full) } else { Ok(()) };
        let questions: Arc<Mutex<Vec<NewQuestion>>> = Arc::default();
        let (lines, asked) = (Arc::clone(&log), Arc::clone(&questions));
        ledger.outbox.expect_open_question().returning(move |lease, question| {
            accept("open_question")?;
            let mut asked = asked.lock().unwrap();
            let (text, command) = (question.text.lines().next().unwrap(), &question.buttons[0].command);
            lines.lock().unwrap().push(format!("ask {text} {command}"));
            asked.push(question.clone());
            Ok(question_part(lease, question, asked.len()))
        });
        ledger.outbox.expect_load_question_key().returning(move || {
            accept("load_question_key")?;
            Ok(question_key())
        });
        let (asked, busy) = (Arc::clone(&questions), self.busy);
        ledger.archive.expect_parts().returning(move |query| {
            let index = query.part.expect("one is asked for").0.as_u128() - 1;
            let question = asked.lock().unwrap()[usize::try_from(index).unwrap()].clone();
            let lease =
                Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 };
            let part = question_part(&lease, &question, usize::try_from(index).unwrap() + 1);
            let open = PartState::Open { message: MessageRef("q".into()) };
            let waiting = PartState::Waiting { until: Timestamp(0), reason: "too many requests".into() };
            Ok(vec![Part { state: if start.elapsed() < busy { waiting } else { open }, ..part }])
        });
        let lines = Arc::clone(&log);
        ledger.outbox.expect_close_question().returning(move |_, _, text| {
            lines.lock().unwrap().push(format!("close {text}"));
            Ok(())
        });
        let made = self.made;
        ledger.archive.expect_attachments().returning(move |_| Ok(made.clone()));
        let (made, cancelled) = (self.made_reminders, self.cancelled_reminders);
        ledger.reminders.expect_list_reminders().returning(move |query| {
            let ReminderScope { made_in, cancelled_in, .. } = query.scope;
            assert!(made_in.or(cancelled_in) == Some(TURN) && made_in.is_none() != cancelled_in.is_none());
            Ok(if made_in.is_some() { made.clone() } else { cancelled.clone() })
        });
        ledger.reminders.expect_load_timezone().returning(|person| {
            assert_eq!(person.to_string(), "console:owner");
            Ok(Some("Asia/Tokyo".to_owned()))
        });
        let known = self.known_files;
        ledger
            .archive
            .expect_attachment()
            .returning(move |_, key| Ok(known.iter().find(|file| AttachmentKey::Id(file.id) == key).cloned()));
        let arrivals = self.arrivals;
        ledger.turns.expect_list_queued_behind().returning(move |_, _| {
            let arrived = arrivals.iter().filter(|(after, _)| start.elapsed() >= *after);
            Ok(arrived.map(|(_, message)| message.clone()).collect())
        });
        let (lines, can_be_joined) = (Arc::clone(&log), self.can_be_joined);
        ledger.turns.expect_join_turns().returning(move |_, turn, followers| {
            assert_eq!(turn, TURN);
            let followers: Vec<u128> = followers.iter().map(|follower| follower.0.as_u128()).collect();
            lines.lock().unwrap().push(format!("join {followers:?}"));
            Ok(can_be_joined)
        });
        let (lines, entries) = (Arc::clone(&log), Arc::clone(&journal));
        ledger.turns.expect_journal_message().returning(move |_, _, entry| {
            lines.lock().unwrap().push(match entry {
                JournalEntry::CallStarted { ordinal } => format!("journal start {ordinal}"),
                _ => "journal message".to_owned(),
            });
            entries.lock().unwrap().push(entry.clone());
            Ok(())
        });
        let (lines, entries) = (Arc::clone(&log), Arc::clone(&journal));
        ledger.turns.expect_journal_decision().returning(move |_, decision| {
            accept("journal_decision")?;
            let CallDecision { call, allowed, message, closing } = decision.clone();
            lines.lock().unwrap().push(format!("journal decision {closing}"));
            entries.lock().unwrap().push(JournalEntry::Decided { ordinal: call.ordinal, allowed, message });
            Ok(())
        });
        let changes = Arc::<Mutex<Vec<RecordedChanges>>>::default();
        let (lines, entries, changed) = (Arc::clone(&log), Arc::clone(&journal), Arc::clone(&changes));
        ledger.turns.expect_journal_outcome().returning(move |_, _, ordinal, outcome, changes| {
            changed.lock().unwrap().push((ordinal, changes.to_vec()));
            lines.lock().unwrap().push(format!("journal outcome {ordinal}"));
            let outcome = outcome.clone().try_map_files(recorded_file)?;
            entries.lock().unwrap().push(JournalEntry::Outcome { ordinal, outcome: outcome.clone() });
            Ok(outcome)
        });
        let (lines, end) = (Arc::clone(&log), Arc::clone(&completed));
        ledger.turns.expect_complete_turn().times(0..=1).returning(move |_, turn| {
            lines.lock().unwrap().push(format!("complete {}", turn.ending.as_str()));
            *end.lock().unwrap() = Some(turn.clone());
            Ok(None)
        });

        let mut model = MockLanguageModel::new();
        model.expect_name().returning(|| "scripted".into());
        let input_support = self.input_support;
        model.expect_input_support().returning(move || input_support.clone());
        let (asked, silent) = (Arc::clone(&requests), self.silent);
        let scripts = Mutex::new(VecDeque::from(self.model));
        model.expect_stream().returning(move |request| {
            asked.lock().unwrap().push(request.clone());
            if silent {
                return Ok(Box::pin(futures::stream::pending()));
            }
            let script = scripts.lock().unwrap().pop_front().expect("an answer is scripted");
            let failed = |reason: &str| {
                let remedy = (reason == "no key").then(|| "set `models.main.api_key`".to_owned());
                ModelError { reason: reason.into(), retryable: false, remedy }
            };
            let events: Vec<_> = script.into_iter().map(move |event| event.map_err(failed)).collect();
            Ok(Box::pin(futures::stream::iter(events)))
        });

        let mut channel = MockChannel::new();
        channel.expect_name().returning(|| ChannelName::new("console").unwrap());
        let joins_messages = self.joins_messages;
        channel.expect_capabilities().returning(move |_| ChannelCapabilities { joins_messages, ..tables::console() });
        channel.expect_show_activity().returning(|_, _| ());
        let mut bus = MockEventBus::new();
        bus.expect_publish().returning(|_| Ok(()));
        bus.expect_subscribe().returning(|| Ok(Box::pin(futures::stream::pending())));

        let services = AgentServices {
            turns: Arc::new(ledger.turns),
            outbox: Arc::new(ledger.outbox),
            archive: Arc::new(ledger.archive),
            reminders: Arc::new(ledger.reminders),
            clock: Arc::new(ManualClock::default()),
            ids: Arc::new(SequentialIds::default()),
            bus: Arc::new(bus),
            agents: AgentProfiles::new(
                AgentProfile::default_agent(Arc::new(model), Toolbox::new(self.tools)),
                self.other_agents,
                self.chats,
            )
            .unwrap()
            .with_models(self.models),
            playbooks: self.playbooks,
            documents: self.documents,
            plan_steering: Arc::new(steer),
            links: None,
            is_owner: Arc::new(|_, sender| sender.id == "boss"),
            is_owners_chat: Arc::new(|conversation| conversation.key() == "boss"),
            settings: self.settings,
        };
        let lane = LaneHandle {
            lease: Lease { conversation: "console:main".parse().unwrap(), holder: HolderId(Uuid::nil()), token: 1 },
            channel: Arc::new(channel),
            wake: Arc::new(Notify::new()),
            woken: Arc::default(),
            hands_over: Arc::default(),
            handed_over: Arc::default(),
            delivery: DeliveryHandle::new().0,
            stop: CancellationToken::new(),
        };
        let stopping = async {
            if let Some(after) = stop_after {
                // Under paused time.
                tokio::time::sleep(after).await;
                lane.stop.cancel();
            }
        };
        if stop_after == Some(Duration::ZERO) {
            lane.stop.cancel();
        }
        let (ended, ()) = tokio::join!(crate::run_turn(&services, &lane, self.turn, self.task.as_ref()), stopping);
        ended.unwrap();
        // What nobody waits for happens too.
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(services);
        StageRecord {
            log: log.lock().unwrap().clone(),
            journal: journal.lock().unwrap().clone(),
            requests: requests.lock().unwrap().clone(),
            questions: questions.lock().unwrap().clone(),
            completed: completed.lock().unwrap().take(),
            changes: changes.lock().unwrap().clone(),
        }
    }
}
