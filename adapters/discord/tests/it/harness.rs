//! The set-up of the tests of the gateway and of what people send: a bot with its people and a guild, and a port that
//! records what it is given.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_discord::{
    DiscordChannel, DiscordError, DiscordListener, DiscordSettings, GatewayTimeouts, HttpTimeouts, SlashCommand,
};
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use satchel_fake_discord::{DiscordRules, FakeDiscord, Tier};
use satchel_fake_kit::FaultyBlobs;
use satchel_ports::{FetchRequest, FetchResponse, Fetcher, FetcherError, Inbound, InboundError};
use satchel_routing::tables;
use satchel_wait::wait_until;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The people of these tests.
pub(crate) const ANN: u64 = 42;
pub(crate) const BOB: u64 = 43;

/// Their guild, two of its channels, and a thread of the first.
pub(crate) const GUILD: u64 = 9_000;
pub(crate) const GENERAL: u64 = 9_100;
pub(crate) const OTHER: u64 = 9_200;
pub(crate) const THREAD: u64 = 9_110;

pub(crate) struct GatewayHarness {
    pub(crate) fake: Arc<FakeDiscord>,
    pub(crate) settings: DiscordSettings,
    pub(crate) waits: GatewayTimeouts,
    pub(crate) timeouts: HttpTimeouts,
    pub(crate) direct: u64,
}

impl GatewayHarness {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A bot that answers everything in a guild of Ann and Bob.
    pub(crate) async fn with(change: impl FnOnce(&mut DiscordRules)) -> Self {
        let mut rules = DiscordRules { keeps_connections: true, ..DiscordRules::unpaced() };
        change(&mut rules);
        let fake = FakeDiscord::start(rules).await.expect("a loopback port is free");
        for (id, name) in [(ANN, "Ann"), (BOB, "Bob")] {
            fake.person(id, name);
        }
        let direct = fake.direct(ANN);
        fake.guild(GUILD, "Workshop", Tier::None);
        fake.channel(GUILD, GENERAL, "general");
        fake.channel(GUILD, OTHER, "other");
        fake.thread(GENERAL, THREAD, "a thread");
        let mut capabilities = tables::discord();
        capabilities.rate_limits = None;
        let settings = DiscordSettings {
            token: fake.token().into(),
            api_url: Some(fake.api_url().into()),
            capabilities,
            answers_in: vec!["*".to_owned()],
            needs_parents: false,
            commands: vec![SlashCommand {
                name: "files".into(),
                description: "Lists your files".into(),
                choices: Vec::new(),
                takes_input: false,
            }],
        };
        let waits = GatewayTimeouts {
            identify_interval: Duration::from_millis(10),
            invalid_session_delay: Duration::from_millis(2),
            min_retry_delay: Duration::from_millis(4),
            max_retry_delay: Duration::from_millis(40),
            checkpoint_interval: Duration::from_millis(10),
            unavailable_timeout: Duration::from_millis(400),
            guilds_timeout: Duration::from_millis(300),
        };
        let timeouts = HttpTimeouts {
            connect: Duration::from_secs(5),
            response: Duration::from_secs(5),
            idle: Duration::from_millis(500),
        };
        Self { fake: Arc::new(fake), settings, waits, timeouts, direct }
    }

    pub(crate) fn channel(&self) -> Arc<DiscordChannel> {
        let blobs = Arc::new(FaultyBlobs::default());
        let channel = DiscordChannel::with_timeouts(&self.settings, blobs, Arc::new(NoFetcher), self.timeouts);
        Arc::new(channel.expect("the settings are good"))
    }

    pub(crate) fn listener(&self) -> DiscordListener {
        self.listener_of(self.channel())
    }

    pub(crate) fn listener_of(&self, channel: Arc<DiscordChannel>) -> DiscordListener {
        DiscordListener::with_timeouts(self.settings.clone(), channel, self.waits)
    }

    pub(crate) fn listen(&self, taker: &Arc<RecordingInbound>) -> ListenerTask {
        ListenerTask::begin(self.listener(), taker)
    }

    /// Listens, and has a session.
    pub(crate) async fn connected(&self, taker: &Arc<RecordingInbound>) -> ListenerTask {
        let listening = self.listen(taker);
        self.fake.gateway().wait_connected(1).await.expect("it connects");
        wait_until("the session is remembered", || taker.bookmark()["session_id"].is_string()).await;
        listening
    }

    /// Lets the bot say something, with a button for each command. Returns the message's id.
    pub(crate) async fn bot_says(&self, channel: u64, text: &str, commands: &[&str]) -> u64 {
        let button = |command: &&str| json!({ "type": 2, "style": 1, "label": "Press", "custom_id": command });
        let mut body = json!({ "content": text });
        if !commands.is_empty() {
            let buttons: Vec<Value> = commands.iter().map(button).collect();
            body["components"] = json!([{ "type": 1, "components": buttons }]);
        }
        let url = format!("{}/api/v10/channels/{channel}/messages", self.fake.api_url());
        let request = reqwest::Client::new()
            .post(url)
            .header("authorization", format!("Bot {}", self.fake.token()))
            .header("user-agent", "DiscordBot (https://example.org, 1)")
            .header("content-type", "application/json")
            .body(body.to_string());
        let answer = request.send().await.expect("the fake answers").bytes().await.expect("the whole answer comes");
        let said: Value = serde_json::from_slice(&answer).expect("it is JSON");
        said["id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_else(|| unreachable!("no message: {said}"))
    }

    /// Waits until as many sessions as this were begun, and as many connections resumed.
    pub(crate) async fn sessions_begun_and_resumed(&self, begun: u64, resumed: u64) {
        let seen =
            self.fake.gateway().wait_until(|report| (report.identifies, report.resumes) >= (begun, resumed)).await;
        let report = self.fake.gateway().report();
        assert!(seen.is_ok() && (report.identifies, report.resumes) == (begun, resumed), "{report:?}");
    }
}

/// Nothing is fetched in these tests.
struct NoFetcher;

#[async_trait]
impl Fetcher for NoFetcher {
    async fn fetch(&self, _: &FetchRequest) -> Result<FetchResponse, FetcherError> {
        Err(FetcherError::NotFound { reason: "nothing is fetched here".to_owned() })
    }
}

/// A listener at work.
pub(crate) struct ListenerTask {
    task: JoinHandle<Result<(), DiscordError>>,
    stop: CancellationToken,
}

impl ListenerTask {
    pub(crate) fn begin(listener: DiscordListener, taker: &Arc<RecordingInbound>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(listener.run(Arc::clone(taker) as Arc<dyn Inbound>, stop.clone()));
        Self { task, stop }
    }

    /// Ends it as an operator does; it must not take long.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.ended().await.expect("it listens until it is told to stop");
    }

    pub(crate) async fn ended(self) -> Result<(), DiscordError> {
        tokio::time::timeout(Duration::from_secs(6), self.task).await.expect("it ends soon").expect("it doesn't panic")
    }

    /// Ends it as a killed process ends.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.is_err_and(|error| error.is_cancelled()), "it was still at work");
    }
}

/// Takes what is handed over: at once, when it is let, or not at all. What it keeps outlives the listener.
pub(crate) struct RecordingInbound {
    taken: Mutex<Vec<InboundMessage>>,
    repeated: Mutex<Vec<String>>,
    unreadable: Mutex<Vec<UndecodableUpdate>>,
    bookmark: Mutex<Option<Value>>,
    /// How often a bookmark was to be kept, and whether none is.
    bookmarks: watch::Sender<u32>,
    keeps_none: AtomicBool,
    strangers: Mutex<BTreeSet<String>>,
    /// How often accepting still fails, by the conversation.
    failures: Mutex<BTreeMap<String, u32>>,
    /// The conversations of which nothing is answered.
    stuck: Mutex<BTreeSet<String>>,
    tries: watch::Sender<u32>,
    gate: Semaphore,
}

impl Default for RecordingInbound {
    fn default() -> Self {
        Self {
            taken: Mutex::default(),
            repeated: Mutex::default(),
            unreadable: Mutex::default(),
            bookmark: Mutex::default(),
            bookmarks: watch::channel(0).0,
            keeps_none: AtomicBool::new(false),
            strangers: Mutex::default(),
            failures: Mutex::default(),
            stuck: Mutex::default(),
            tries: watch::channel(0).0,
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        }
    }
}

impl RecordingInbound {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// One that stores nothing until it is let.
    pub(crate) fn shut() -> Arc<Self> {
        Arc::new(Self { gate: Semaphore::new(0), ..Self::default() })
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(100_000);
    }

    /// One that finds a bookmark.
    pub(crate) fn with_bookmark(bookmark: Value) -> Arc<Self> {
        Arc::new(Self { bookmark: Mutex::new(Some(bookmark)), ..Self::default() })
    }

    /// Another process' one, which finds the same bookmark and nothing else.
    pub(crate) fn of_the_next_process(&self) -> Arc<Self> {
        Self::with_bookmark(self.bookmark())
    }

    /// Fails so many times to store what comes in a channel.
    pub(crate) fn fail(&self, channel: u64, times: u32) {
        locked(&self.failures).insert(format!("discord:{channel}"), times);
    }

    pub(crate) fn keep_none(&self, keeps_none: bool) {
        self.keeps_none.store(keeps_none, Ordering::Relaxed);
    }

    pub(crate) fn refuse(&self, person: u64) {
        locked(&self.strangers).insert(person.to_string());
    }

    pub(crate) fn let_in(&self, person: u64) {
        locked(&self.strangers).remove(&person.to_string());
    }

    /// Answers nothing to what comes in a channel.
    pub(crate) fn stick(&self, channel: u64) {
        locked(&self.stuck).insert(format!("discord:{channel}"));
    }

    pub(crate) fn taken(&self) -> Vec<InboundMessage> {
        locked(&self.taken).clone()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        locked(&self.taken).iter().map(|message| message.text.clone()).collect()
    }

    /// What was said in a channel.
    pub(crate) fn texts_of(&self, channel: u64) -> Vec<String> {
        let conversation = format!("discord:{channel}");
        let taken = self.taken();
        let there = taken.iter().filter(|message| message.conversation.to_string() == conversation);
        there.map(|message| message.text.clone()).collect()
    }

    /// The keys that came once more.
    pub(crate) fn repeated(&self) -> Vec<String> {
        locked(&self.repeated).clone()
    }

    pub(crate) fn unreadable(&self) -> Vec<UndecodableUpdate> {
        locked(&self.unreadable).clone()
    }

    pub(crate) fn bookmark(&self) -> Value {
        locked(&self.bookmark).clone().unwrap_or_default()
    }

    /// How often a bookmark was kept, or should have been.
    pub(crate) fn bookmarks(&self) -> u32 {
        *self.bookmarks.borrow()
    }

    /// Waits until a bookmark is kept that is as wanted.
    pub(crate) async fn keeps(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        wait_until(what, || is_so(&self.bookmark())).await;
    }

    /// Waits until so many messages were taken.
    pub(crate) async fn takes(&self, messages: usize) {
        wait_until(&format!("{messages} messages are taken"), || locked(&self.taken).len() >= messages).await;
    }

    /// Waits until so many attempts to store something were begun.
    pub(crate) async fn tried(&self, times: u32) {
        let mut tries = self.tries.subscribe();
        let waiting = tries.wait_for(|tries| *tries >= times);
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it is tried").expect("the taker lives");
    }

    async fn begin(&self, conversation: &str) -> Result<(), InboundError> {
        self.tries.send_modify(|tries| *tries += 1);
        if locked(&self.stuck).contains(conversation) {
            std::future::pending::<()>().await;
        }
        self.gate.acquire().await.expect("the gate is never closed").forget();
        let mut failures = locked(&self.failures);
        match failures.get_mut(conversation).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                Err(InboundError("the disk is full".into()))
            }
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Inbound for RecordingInbound {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        self.begin(&message.conversation.to_string()).await?;
        if locked(&self.strangers).contains(&message.sender.id) {
            return Ok(None);
        }
        let mut taken = locked(&self.taken);
        if taken.iter().any(|known| known.key == message.key) {
            locked(&self.repeated).push(message.key);
        } else {
            taken.push(message);
        }
        Ok(Some(TurnId(Uuid::from_u128(1))))
    }

    async fn rename_conversation(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        Err(InboundError(format!("nothing moves on Discord: {from}, {to}").into()))
    }

    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError> {
        self.begin("").await?;
        let mut kept = locked(&self.unreadable);
        if kept.iter().all(|known| known.key != update.key) {
            kept.push(update);
        }
        Ok(())
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        assert_eq!(channel.to_string(), "discord");
        Ok(locked(&self.bookmark).clone())
    }

    async fn save_checkpoint(&self, channel: &ChannelName, bookmark: Value) -> Result<(), InboundError> {
        assert_eq!(channel.to_string(), "discord");
        self.bookmarks.send_modify(|times| *times += 1);
        if self.keeps_none.load(Ordering::Relaxed) {
            return Err(InboundError("the disk is full".into()));
        }
        *locked(&self.bookmark) = Some(bookmark);
        Ok(())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
