//! The gateway soak: people write on and on while everything that can become of a gateway becomes of it. Every message
//! is taken in once, in the order of its conversation.

use std::{
    collections::HashSet,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use satchel_discord::{DiscordChannel, DiscordError, DiscordListener, DiscordSettings, GatewayTimeouts, HttpTimeouts};
use satchel_domain::{ChannelCapabilities, ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use satchel_fake_discord::{
    DiscordRules, FakeDiscord, Tier,
    gateway::{FakeGateway, GatewayRules},
};
use satchel_fake_kit::{Fault, FaultyBlobs};
use satchel_ports::{FetchRequest, FetchResponse, Fetcher, FetcherError, Inbound, InboundError};
use satchel_routing::tables;
use satchel_wait::wait_until;
use serde_json::{Value, json};
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often a heartbeat is wanted.
const HEARTBEAT: Duration = Duration::from_millis(250);

const ANN: u64 = 71;
const BOB: u64 = 72;
const ADA: u64 = 73;

/// What people have said so far: in which channel, and as which message. The latest comes last.
type Said = Arc<Mutex<Vec<(u64, u64)>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateway_faults_keep_order_and_uniqueness() {
    let mut soak = Soak::start().await;
    let talk = soak.talk();
    soak.each_trouble_alone().await;
    soak.the_process_comes_and_goes().await;
    soak.one_trouble_upon_another().await;
    talk.end().await;
    soak.all_is_taken("after all").await;
    soak.end(ListenerTask::stop).await;

    let said = soak.said();
    assert!(said.len() > 300, "{} messages are no soak", said.len());
    let report = soak.inbound.report();
    assert_eq!(report.ahead, Vec::<String>::new(), "a bookmark says what is stored, and no more");
    assert_eq!(report.accepted.len(), said.len(), "each is taken once");
    for (channel, _) in &soak.places {
        let conversation = format!("discord:{channel}");
        let there = said.iter().filter(|(place, _)| place == channel).map(|(_, message)| message.to_string());
        let accepted = report.accepted.iter().filter(|(place, _)| *place == conversation).map(|(_, key)| key.clone());
        assert_eq!(accepted.collect::<Vec<_>>(), there.collect::<Vec<_>>(), "in the order of {conversation}");
    }
    assert!(report.failures > 20, "the ledger has failed {} times only", report.failures);
    assert!(report.repeats > 0, "what is told twice is taken once");
    let gateway = soak.hub().report();
    assert!(gateway.replayed > 0, "nothing happened while a session was alone");
    assert!(gateway.identifies_refused >= 3, "three sessions were refused");
}

/// A bot, the people who write to it, and the ledger that it writes to.
struct Soak {
    fake: Arc<FakeDiscord>,
    settings: DiscordSettings,
    inbound: Arc<FailingInbound>,
    /// The channels, and who writes there.
    places: Vec<(u64, Vec<u64>)>,
    said: Said,
    /// Whether people hold their tongues for a while.
    quiet: Arc<AtomicBool>,
    listening: ListenerTask,
}

impl Soak {
    async fn start() -> Self {
        let gateway = GatewayRules {
            identify_every: Some(Duration::from_millis(15)),
            reconnect_within: Duration::from_millis(20),
            ..GatewayRules::default().beating(HEARTBEAT)
        };
        let rules = DiscordRules { gateway, ..DiscordRules::unpaced() };
        let fake = Arc::new(FakeDiscord::start(rules).await.expect("a loopback port is free"));
        for (id, name) in [(ANN, "Ann"), (BOB, "Bob"), (ADA, "Ada")] {
            fake.person(id, name);
        }
        let guild = fake.guild(500, "Home", Tier::None);
        let all = vec![ANN, BOB, ADA];
        let kitchen = fake.channel(guild, 501, "kitchen");
        let places = vec![
            (kitchen, all.clone()),
            (fake.channel(guild, 502, "garden"), all.clone()),
            (fake.thread(kitchen, 503, "cake"), all),
            (fake.direct(ANN), vec![ANN]),
            (fake.direct(BOB), vec![BOB]),
        ];
        let settings = DiscordSettings {
            token: fake.token().into(),
            api_url: Some(fake.api_url().into()),
            capabilities: ChannelCapabilities { rate_limits: None, ..tables::discord() },
            answers_in: vec!["*".to_owned()],
            needs_parents: false,
            commands: Vec::new(),
        };
        let said = Said::default();
        let inbound = Arc::new(FailingInbound::new(Arc::clone(&said)));
        let listening = ListenerTask::begin(&settings, &inbound);
        let soak = Self { fake, settings, inbound, places, said, quiet: Arc::default(), listening };
        soak.hub().wait_connected(1).await.expect("it connects");
        soak
    }

    fn hub(&self) -> &FakeGateway {
        self.fake.gateway()
    }

    fn said(&self) -> Vec<(u64, u64)> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets everybody write, here and there, until they are told to end.
    fn talk(&self) -> Talk {
        let (fake, places, said) = (Arc::clone(&self.fake), self.places.clone(), Arc::clone(&self.said));
        let (quiet, over) = (Arc::clone(&self.quiet), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&over);
        let task = tokio::spawn(async move {
            let mut random = SeededRandom(7);
            while !ends.load(Ordering::Relaxed) {
                if !quiet.load(Ordering::Relaxed) {
                    says(&fake, &places, &said, &mut random);
                }
                // As people do, at any moment.
                tokio::time::sleep(Duration::from_millis(random.below(12) as u64)).await;
            }
        });
        Talk { over, task }
    }

    /// Each trouble, until it is over and what was said meanwhile is taken in.
    async fn each_trouble_alone(&mut self) {
        self.resumes("dropped", FakeGateway::drop_connection).await;
        self.resumes("dropped a little later", |hub| hub.drop_after(5)).await;
        self.resumes("asked to reconnect", FakeGateway::ask_to_reconnect).await;
        self.resumes("an invalid session that can be resumed", |hub| hub.invalidate_session(true)).await;
        assert_eq!(self.inbound.report().repeats, 0, "a process that goes on is told nothing twice");
        self.begins_anew("an invalid session", |hub| hub.invalidate_session(false)).await;
        for code in [4000, 4002, 4008, 1001, 1012] {
            self.resumes(&format!("closed with {code}"), |hub| hub.close_with(code)).await;
        }
        for code in [4007, 4009] {
            self.begins_anew(&format!("closed with {code}"), |hub| hub.close_with(code)).await;
        }
        self.resumes("a frozen connection", FakeGateway::freeze_connections).await;
        // Behind much that is still to be read there may be an acknowledgement; where nothing is, there is none.
        self.quiet.store(true, Ordering::Relaxed);
        self.resumes("no heartbeat is acknowledged", |hub| hub.withhold_heartbeat_acks(true)).await;
        self.hub().withhold_heartbeat_acks(false);
        self.resumes("heartbeats are acknowledged too late", |hub| hub.delay_heartbeat_acks(3 * HEARTBEAT)).await;
        self.hub().delay_heartbeat_acks(HEARTBEAT / 4);
        self.quiet.store(false, Ordering::Relaxed);
        self.resumes("no socket for a while", |hub| {
            hub.refuse_upgrades(2);
            hub.drop_connection();
        })
        .await;
        self.hub().delay_heartbeat_acks(Duration::ZERO);
        self.begins_anew("no session for a while", |hub| {
            hub.refuse_identifies(3);
            hub.invalidate_session(false);
        })
        .await;
        let fake = Arc::clone(&self.fake);
        self.resumes("nothing listens for a while", move |hub| {
            fake.refuse_connections(Duration::from_millis(60));
            hub.drop_connection();
        })
        .await;
        let fake = Arc::clone(&self.fake);
        self.begins_anew("a history that can't be had at first", move |hub| {
            for fault in [Fault::ServerError, Fault::RateLimit { retry_after_ms: 30 }, Fault::ResetMidTransfer] {
                fake.script_next("GET /channels/{}/messages", fault);
            }
            hub.invalidate_session(false);
        })
        .await;
        assert!(self.fake.requests("GET /channels/{}/messages") > 3, "history was not read");
        self.keeps_what_means_nothing().await;
    }

    /// What can't be read ends nothing, and is kept.
    async fn keeps_what_means_nothing(&self) {
        for attempt in 0..5 {
            let (kept, connections) = (self.inbound.report().unreadable.len(), self.hub().report().connections);
            self.hub().send_garbage(&format!("}}{{ {attempt}"));
            self.hub().send_binary(&[0xff, attempt]);
            self.hub().send_garbage(&format!(r#"{{"t":"MESSAGE_CREATE","d":{attempt}}}"#));
            self.hub().dispatch("MESSAGE_CREATE", json!({ "id": format!("odd-{attempt}"), "channel_id": attempt }));
            self.more_is_said(1).await;
            self.all_is_taken("what means nothing").await;
            // Frames of no session are lost with a connection that ends by chance.
            if self.hub().report().connections == connections {
                self.inbound.wait_until("four odd things are kept", |report| report.unreadable.len() == kept + 4).await;
                return;
            }
        }
        unreachable!("no connection stays");
    }

    /// The process ends, as it is told to or not, and the next one goes on.
    async fn the_process_comes_and_goes(&mut self) {
        self.the_session_is_known().await;
        for _ in 0..2 {
            let before = self.hub().report();
            self.restart(ListenerTask::stop).await;
            self.hub().wait_until(|report| report.resumes > before.resumes).await.expect("it resumes");
            self.all_is_taken("another process").await;
            assert_eq!(self.hub().report().identifies, before.identifies, "the session goes on");
        }
        for _ in 0..5 {
            // The bookmark may be of any moment before, and some things are being stored.
            let before = self.hub().report();
            self.restart(ListenerTask::kill).await;
            self.hub().wait_until(|report| report.resumes > before.resumes).await.expect("it resumes");
        }
        self.all_is_taken("a process that was killed").await;

        let before = self.hub().report();
        self.end(ListenerTask::stop).await;
        self.more_is_said(20).await;
        self.hub().expire_sessions();
        self.listening = ListenerTask::begin(&self.settings, &self.inbound);
        self.hub().wait_until(|report| report.identifies > before.identifies).await.expect("it begins anew");
        self.all_is_taken("a long absence").await;
    }

    /// Everything at once: nothing is waited for.
    async fn one_trouble_upon_another(&mut self) {
        let mut random = SeededRandom(11);
        for _ in 0..60 {
            match random.below(12) {
                0..=2 => self.hub().drop_connection(),
                3 => self.hub().drop_after(2),
                4 => self.hub().ask_to_reconnect(),
                5 => self.hub().invalidate_session(true),
                6 => self.hub().invalidate_session(false),
                7 => self.hub().close_with(4009),
                8 => self.hub().refuse_upgrades(1),
                9 => self.hub().send_garbage("}{"),
                10 => self.fake.script_next("GET /channels/{}/messages", Fault::ServerError),
                _ => self.restart(ListenerTask::kill).await,
            }
            // Until the next trouble, at any moment.
            tokio::time::sleep(Duration::from_millis(random.below(40) as u64)).await;
        }
    }

    /// Waits until the session of now is kept in mind. The gateway has begun it some time before the bot hears of it,
    /// and while what was missed is being read the last one is kept in mind, which can't go on.
    async fn the_session_is_known(&self) {
        let of_now = |kept: &InboundReport| kept.session().is_some_and(|kept| self.hub().session_ids().contains(&kept));
        self.inbound.wait_until("the session of now is kept in mind", of_now).await;
    }

    /// Lets something happen after which the session is to go on.
    async fn resumes(&self, what: &str, happens: impl FnOnce(&FakeGateway)) {
        self.the_session_is_known().await;
        let before = self.hub().report();
        happens(self.hub());
        let resumed = self.hub().wait_until(|report| report.resumes > before.resumes).await;
        assert!(resumed.is_ok(), "{what}: it is not resumed");
        self.all_is_taken(what).await;
        assert_eq!(self.hub().report().identifies, before.identifies, "{what}: the session goes on");
    }

    /// Lets something happen after which a new session is to begin.
    async fn begins_anew(&self, what: &str, happens: impl FnOnce(&FakeGateway)) {
        let before = self.hub().report();
        happens(self.hub());
        let began = self.hub().wait_until(|report| report.identifies > before.identifies).await;
        assert!(began.is_ok(), "{what}: no session begins");
        self.all_is_taken(what).await;
    }

    /// Waits until people have said so much more.
    async fn more_is_said(&self, messages: usize) {
        let so_far = self.said().len();
        wait_until("people say more", || self.said().len() >= so_far + messages).await;
    }

    /// Waits until all that has been said by now is taken in.
    async fn all_is_taken(&self, what: &str) {
        let said = self.said();
        let taken = |report: &InboundReport| said.iter().all(|(_, message)| report.keys.contains(&message.to_string()));
        self.inbound.wait_until(&format!("{what}: all is taken"), taken).await;
    }

    async fn restart<F: Future<Output = Result<(), DiscordError>>>(&mut self, end: impl FnOnce(ListenerTask) -> F) {
        self.end(end).await;
        self.listening = ListenerTask::begin(&self.settings, &self.inbound);
    }

    async fn end<F: Future<Output = Result<(), DiscordError>>>(&mut self, end: impl FnOnce(ListenerTask) -> F) {
        let listening = std::mem::replace(&mut self.listening, ListenerTask::nobody());
        end(listening).await.expect("it ends as it should");
    }
}

/// Lets somebody say something somewhere.
fn says(fake: &FakeDiscord, places: &[(u64, Vec<u64>)], said: &Said, random: &mut SeededRandom) {
    let (channel, people) = &places[random.below(places.len())];
    let person = people[random.below(people.len())];
    let message = fake.person_says(*channel, person, "and another thing");
    said.lock().unwrap_or_else(PoisonError::into_inner).push((*channel, message));
}

/// People who write on and on.
struct Talk {
    over: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Talk {
    async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.task.await.expect("they write");
    }
}

/// A listener at work.
struct ListenerTask {
    task: JoinHandle<Result<(), DiscordError>>,
    stop: CancellationToken,
}

impl ListenerTask {
    fn begin(settings: &DiscordSettings, inbound: &Arc<FailingInbound>) -> Self {
        let five = Duration::from_secs(5);
        let timeouts = HttpTimeouts { connect: five, response: five, idle: five };
        let blobs = Arc::new(FaultyBlobs::default());
        let channel = DiscordChannel::with_timeouts(settings, blobs, Arc::new(NoFiles), timeouts);
        let channel = Arc::new(channel.expect("the settings are good"));
        let waits = GatewayTimeouts {
            identify_interval: Duration::from_millis(20),
            invalid_session_delay: Duration::from_millis(5),
            min_retry_delay: Duration::from_millis(5),
            max_retry_delay: Duration::from_millis(50),
            checkpoint_interval: Duration::from_millis(10),
            unavailable_timeout: Duration::from_millis(400),
            guilds_timeout: Duration::from_millis(300),
        };
        let listener = DiscordListener::with_timeouts(settings.clone(), channel, waits);
        let stop = CancellationToken::new();
        let task = tokio::spawn(listener.run(Arc::clone(inbound) as _, stop.clone()));
        Self { task, stop }
    }

    /// Stands where a listener stood, and where the next one will.
    fn nobody() -> Self {
        Self { task: tokio::spawn(async { Ok(()) }), stop: CancellationToken::new() }
    }

    /// Ends it as an operator does.
    async fn stop(self) -> Result<(), DiscordError> {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(10), self.task).await.expect("it ends").expect("it doesn't panic")
    }

    /// Ends it as a killed process ends.
    async fn kill(self) -> Result<(), DiscordError> {
        self.task.abort();
        assert!(self.task.await.is_err_and(|error| error.is_cancelled()), "it was still at work");
        Ok(())
    }
}

/// Nobody sends files here.
struct NoFiles;

#[async_trait]
impl Fetcher for NoFiles {
    async fn fetch(&self, _request: &FetchRequest) -> Result<FetchResponse, FetcherError> {
        Err(FetcherError::NotFound { reason: "nobody has sent a file".to_owned() })
    }
}

/// Numbers that fall alike in each run.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("it is a short number") % end
    }
}

/// What is written in a book.
#[derive(Debug, Clone, Default)]
pub(crate) struct InboundReport {
    /// The messages in the order in which they were taken: their conversation and their key.
    pub(crate) accepted: Vec<(String, String)>,
    pub(crate) keys: HashSet<String>,
    /// The keys of what could not be read.
    pub(crate) unreadable: HashSet<String>,
    /// How often a message came that was taken already.
    pub(crate) repeats: u64,
    /// How often something could not be stored.
    pub(crate) failures: u64,
    /// The bookmarks that said more than was stored.
    pub(crate) ahead: Vec<String>,
    bookmark: Option<Value>,
}

impl InboundReport {
    /// The session that the bookmark names.
    pub(crate) fn session(&self) -> Option<String> {
        self.bookmark.as_ref()?["session_id"].as_str().map(str::to_owned)
    }
}

pub(crate) struct FailingInbound {
    said: Said,
    tries: AtomicU64,
    changed: Notify,
    report: Mutex<InboundReport>,
}

impl FailingInbound {
    pub(crate) fn new(said: Said) -> Self {
        Self { said, tries: AtomicU64::new(0), changed: Notify::new(), report: Mutex::default() }
    }

    pub(crate) fn report(&self) -> InboundReport {
        self.read(InboundReport::clone)
    }

    /// Waits until the book reads as wanted.
    pub(crate) async fn wait_until(&self, what: &str, wanted: impl Fn(&InboundReport) -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.read(&wanted) {
                    return;
                }
                changed.await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(15), waiting).await.is_ok(), "in vain: {what}");
    }

    fn read<T>(&self, reads: impl FnOnce(&InboundReport) -> T) -> T {
        reads(&self.report.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, writes: impl FnOnce(&mut InboundReport) -> T) -> T {
        let written = writes(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_waiters();
        written
    }

    /// Takes its time, and fails each eleventh time.
    async fn work(&self) -> Result<(), InboundError> {
        let number = self.tries.fetch_add(1, Ordering::Relaxed);
        // So that messages of several channels are stored side by side.
        tokio::time::sleep(Duration::from_millis(number % 4)).await;
        if number % 11 == 10 {
            self.write(|report| report.failures += 1);
            return Err(InboundError("the disk is full".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Inbound for FailingInbound {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        let turn = TurnId(Uuid::from_u128(1));
        let repeats = |report: &mut InboundReport| {
            let is_known = report.keys.contains(&message.key);
            report.repeats += u64::from(is_known);
            is_known
        };
        if self.write(repeats) {
            return Ok(Some(turn));
        }
        self.work().await?;
        self.write(|report| {
            report.keys.insert(message.key.clone());
            report.accepted.push((message.conversation.to_string(), message.key.clone()));
        });
        Ok(Some(turn))
    }

    async fn rename_conversation(&self, _from: ConversationId, _to: ConversationId) -> Result<(), InboundError> {
        Err(InboundError("conversations stay where they are on Discord".into()))
    }

    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError> {
        self.work().await?;
        self.write(|report| report.unreadable.insert(update.key));
        Ok(())
    }

    async fn load_checkpoint(&self, _channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        self.work().await?;
        Ok(self.read(|report| report.bookmark.clone()))
    }

    async fn save_checkpoint(&self, _channel: &ChannelName, bookmark: Value) -> Result<(), InboundError> {
        self.work().await?;
        let seen = bookmark["seen_up_to"].as_str().and_then(|seen| seen.parse::<u64>().ok()).expect("a message's id");
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.write(|report| {
            let is_missing = |message: &u64| *message <= seen && !report.keys.contains(&message.to_string());
            let missing: Vec<u64> = said.iter().map(|(_, message)| *message).filter(is_missing).collect();
            if !missing.is_empty() {
                report.ahead.push(format!("{bookmark} without {missing:?}"));
            }
            report.bookmark = Some(bookmark);
        });
        Ok(())
    }
}
