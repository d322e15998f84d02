//! A bot with its people, and somebody who takes in what it hands over.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use satchel_fake_kit::FaultyBlobs;
use satchel_fake_telegram::{FakeTelegram, TelegramRules};
use satchel_ports::{Inbound, InboundError};
use satchel_routing::tables;
use satchel_telegram::{
    BotCommand, HttpTimeouts, LookupSettings, TelegramChannel, TelegramError, TelegramListener, TelegramSettings,
};
use satchel_wait::wait_until;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The people of these tests.
pub(crate) const ANN: i64 = 42;
pub(crate) const BOB: i64 = 43;

pub(crate) struct InboundHarness {
    pub(crate) fake: Arc<FakeTelegram>,
    pub(crate) settings: TelegramSettings,
}

impl InboundHarness {
    pub(crate) async fn start() -> Self {
        Self::with(TelegramRules::default()).await
    }

    /// A bot whose people are Ann and Bob, who both have a private chat with it.
    pub(crate) async fn with(rules: TelegramRules) -> Self {
        let fake = FakeTelegram::start(rules).await.expect("a loopback port is free");
        for (id, name) in [(ANN, "Ann"), (BOB, "Bob")] {
            fake.private_chat(fake.person(id, name));
        }
        let settings = TelegramSettings {
            token: fake.token().into(),
            api_url: Some(fake.api_url().into()),
            capabilities: tables::telegram(),
            local_files: None,
            answers_in: Vec::new(),
            webhook: None,
            commands: vec![BotCommand { name: "files".into(), description: "Lists your files".into() }],
            look_up: LookupSettings::default(),
        };
        Self { fake: Arc::new(fake), settings }
    }

    pub(crate) fn channel(&self) -> TelegramChannel {
        let timeouts = HttpTimeouts {
            connect: Duration::from_secs(5),
            response: Duration::from_secs(5),
            idle: Duration::from_secs(2),
        };
        TelegramChannel::with_timeouts(&self.settings, Arc::new(FaultyBlobs::default()), timeouts)
            .expect("the settings are good")
    }

    pub(crate) fn listen(&self, taker: &Arc<RecordingInbound>) -> ListenerTask {
        self.listen_beside(Arc::new(self.channel()), taker)
    }

    /// Listens while `channel` sends.
    pub(crate) fn listen_beside(&self, channel: Arc<TelegramChannel>, taker: &Arc<RecordingInbound>) -> ListenerTask {
        let stop = CancellationToken::new();
        let listener = TelegramListener::new(self.settings.clone(), channel);
        let task = tokio::spawn(listener.run(Arc::clone(taker) as Arc<dyn Inbound>, stop.clone()));
        ListenerTask { task, stop }
    }

    /// Listens until Telegram has been told that everything was taken.
    pub(crate) async fn listen_to_all(&self, taker: &Arc<RecordingInbound>) {
        let listening = self.listen(taker);
        self.all_confirmed().await;
        listening.stop().await.expect("it listens until it is told to stop");
    }

    pub(crate) async fn all_confirmed(&self) {
        wait_until("everything is confirmed", || self.fake.unconfirmed_updates() == 0).await;
    }

    /// Calls a method as another process with this bot's token would.
    pub(crate) async fn call(&self, method: &str, body: Value) -> Value {
        let url = format!("{}/bot{}/{method}", self.fake.api_url(), self.fake.token());
        let answer = reqwest::Client::new().post(url).body(body.to_string());
        let answer = answer.header("content-type", "application/json").send().await.expect("the fake answers");
        serde_json::from_slice(&answer.bytes().await.expect("the whole answer comes")).expect("it is JSON")
    }
}

/// A listener at work.
pub(crate) struct ListenerTask {
    task: JoinHandle<Result<(), TelegramError>>,
    stop: CancellationToken,
}

impl ListenerTask {
    /// Asks it to end and doesn't wait.
    pub(crate) fn request_stop(&self) {
        self.stop.cancel();
    }

    /// Ends it as an operator does; it must not take long.
    pub(crate) async fn stop(self) -> Result<(), TelegramError> {
        self.request_stop();
        self.ended().await
    }

    pub(crate) async fn ended(self) -> Result<(), TelegramError> {
        tokio::time::timeout(Duration::from_secs(5), self.task).await.expect("it ends soon").expect("it doesn't panic")
    }

    /// Ends it as a killed process ends.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.is_err_and(|error| error.is_cancelled()), "it was still at work");
    }
}

/// Takes what is handed over: at once, when it is let, or not at all.
pub(crate) struct RecordingInbound {
    taken: Mutex<Vec<InboundMessage>>,
    unreadable: Mutex<Vec<UndecodableUpdate>>,
    moved: Mutex<Vec<(ConversationId, ConversationId)>>,
    refused: Mutex<BTreeSet<String>>,
    tries: watch::Sender<u32>,
    gate: Semaphore,
    fake: Option<Arc<FakeTelegram>>,
    /// How many updates Telegram still kept each time something was stored.
    kept_meanwhile: Mutex<Vec<usize>>,
}

impl Default for RecordingInbound {
    fn default() -> Self {
        Self {
            taken: Mutex::default(),
            unreadable: Mutex::default(),
            moved: Mutex::default(),
            refused: Mutex::default(),
            tries: watch::channel(0).0,
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            fake: None,
            kept_meanwhile: Mutex::default(),
        }
    }
}

impl RecordingInbound {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// One that looks, each time it stores something, what Telegram still keeps.
    pub(crate) fn watching(fake: &Arc<FakeTelegram>) -> Arc<Self> {
        Arc::new(Self { fake: Some(Arc::clone(fake)), ..Self::default() })
    }

    /// One that stores nothing until it is let.
    pub(crate) fn shut() -> Arc<Self> {
        Arc::new(Self { gate: Semaphore::new(0), ..Self::default() })
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(1_000);
    }

    /// Lets it store one thing more.
    pub(crate) fn let_one(&self) {
        self.gate.add_permits(1);
    }

    /// How many attempts to store something were begun.
    pub(crate) fn tries(&self) -> u32 {
        *self.tries.borrow()
    }

    /// Fails to store what comes in a conversation, from now on.
    pub(crate) fn refuse(&self, conversation: &str) {
        locked(&self.refused).insert(conversation.to_owned());
    }

    pub(crate) fn refuse_nothing(&self) {
        locked(&self.refused).clear();
    }

    pub(crate) fn taken(&self) -> Vec<InboundMessage> {
        locked(&self.taken).clone()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        locked(&self.taken).iter().map(|message| message.text.clone()).collect()
    }

    pub(crate) fn unreadable(&self) -> Vec<UndecodableUpdate> {
        locked(&self.unreadable).clone()
    }

    /// The conversations that moved, as from and to.
    pub(crate) fn moved(&self) -> Vec<(String, String)> {
        locked(&self.moved).iter().map(|(from, to)| (from.to_string(), to.to_string())).collect()
    }

    pub(crate) fn kept_meanwhile(&self) -> Vec<usize> {
        locked(&self.kept_meanwhile).clone()
    }

    /// Waits until so many attempts to store something were begun.
    pub(crate) async fn tried(&self, times: u32) {
        let mut tries = self.tries.subscribe();
        let waiting = tries.wait_for(|tries| *tries >= times);
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it is tried").expect("the taker lives");
    }

    async fn begin(&self) {
        self.tries.send_modify(|tries| *tries += 1);
        self.gate.acquire().await.expect("the gate is never closed").forget();
        if let Some(fake) = &self.fake {
            locked(&self.kept_meanwhile).push(fake.unconfirmed_updates());
        }
    }

    fn is_refused(&self, conversation: &ConversationId) -> bool {
        locked(&self.refused).contains(&conversation.to_string())
    }
}

#[async_trait]
impl Inbound for RecordingInbound {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        self.begin().await;
        if self.is_refused(&message.conversation) {
            return Err(InboundError("the disk is full".into()));
        }
        let mut taken = locked(&self.taken);
        if taken.iter().all(|known| known.key != message.key) {
            taken.push(message);
        }
        Ok(Some(TurnId(Uuid::from_u128(1))))
    }

    async fn rename_conversation(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        self.begin().await;
        locked(&self.moved).push((from, to));
        Ok(())
    }

    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError> {
        self.begin().await;
        let mut kept = locked(&self.unreadable);
        if kept.iter().all(|known| known.key != update.key) {
            kept.push(update);
        }
        Ok(())
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        unreachable!("Telegram keeps what was not taken: {channel}");
    }

    async fn save_checkpoint(&self, channel: &ChannelName, bookmark: Value) -> Result<(), InboundError> {
        unreachable!("Telegram keeps what was not taken: {channel}, {bookmark}");
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
