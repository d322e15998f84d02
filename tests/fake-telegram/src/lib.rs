//! The strict fake Bot API: its state, its script of faults, and what a test asks of it.
//!
//! It follows the Bot API's manual and, where that is silent, the words and checks of Telegram's own open server; each
//! limit names its source. [`FakeTelegram`] is the server, the people who use it, and the record of what they see.

mod call;
mod drafts;
mod files;
mod html;
mod inbox;
mod keyboard;
mod media;
mod message;
mod methods;
mod objects;
mod people;
mod platform_state;
mod rate;
mod refusal;
mod rich;
mod rules;
mod serving;
mod text;
mod topics;
mod transcript;
mod webhook;

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use satchel_fake_kit::{
    FaultScript, FaultTiming, LateRequests, ListenerGate, RequestPhase, ScriptedRequest, TestClock, wait_for_change,
};
use serde_json::{Map, Value};
use tokio::{
    sync::{Notify, oneshot, watch},
    time::error::Elapsed,
};
use tokio_util::sync::CancellationToken;

use self::{call::ReceivedCall, inbox::TelegramInbox, platform_state::PlatformState, rate::RateCounter};
pub use self::{
    drafts::TelegramDraft,
    html::parse_html,
    message::{
        ChatKind, FileKind, FormattedText, InlineButton, PersonMessage, TelegramContent, TelegramFile, TelegramMessage,
        TextEntity,
    },
    platform_state::ButtonPress,
    rate::{ChatRate, RateReport},
    refusal::{ApiRefusal, TelegramFault},
    rich::{RichContent, parse_rich_html},
    rules::{TelegramRates, TelegramRules},
    serving::DOWNLOAD,
    transcript::{TelegramTranscript, TranscriptChat},
};

/// How many requests are remembered for [`FakeTelegram::calls`].
const MAX_RECORDED_CALLS: usize = 10_000;

/// A Bot API server on a free loopback port, with the people who use it. It ends when it is dropped.
///
/// Methods are named as in the manual, in any case. Where a method is asked for, `send*` means all that begin so, `*`
/// means all, and [`DOWNLOAD`] means downloads of files.
pub struct FakeTelegram {
    shared: Arc<Shared>,
}

/// A request as it was read.
#[derive(Debug, Clone)]
pub struct TelegramCall {
    /// The method, in lower case.
    pub method: String,
    /// Its parameters; uploads are none.
    pub parameters: Map<String, Value>,
    /// Which parameters the method looks at.
    pub taken: BTreeSet<String>,
}

/// What the routes work on.
pub(crate) struct Shared {
    pub(crate) clock: TestClock,
    pub(crate) rules: TelegramRules,
    pub(crate) gate: Arc<ListenerGate>,
    pub(crate) stopped: CancellationToken,
    /// Told when something is there for the bot.
    pub(crate) arrived: Notify,
    /// Told when the bot has done something.
    pub(crate) changed: Notify,
    pub(crate) late: LateRequests,
    /// Whether downloads wait.
    pub(crate) downloads_held: watch::Sender<bool>,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) platform: PlatformState,
    pub(crate) inbox: TelegramInbox,
    pub(crate) pace: RateCounter,
    pub(crate) script: FaultScript<ApiRefusal>,
    /// The tokens that it accepts.
    pub(crate) tokens: BTreeSet<String>,
    calls: VecDeque<TelegramCall>,
}

impl FakeTelegram {
    /// The token of its bot, until it is revoked.
    pub const TOKEN: &'static str = "7654321098:AAFakeTelegramTokenCanary_5e7c1a90Qx";

    /// Starts a server with these rules.
    ///
    /// # Errors
    /// When no loopback port can be had.
    pub async fn start(rules: TelegramRules) -> io::Result<Self> {
        satchel_fake_kit::install_tls_provider();
        let clock = TestClock::default();
        let gate = ListenerGate::open(clock.clone()).await?;
        let stopped = CancellationToken::new();
        let state = State {
            platform: PlatformState::new(clock.clone()),
            inbox: TelegramInbox::default(),
            pace: RateCounter::new(rules.pace, clock.clone()),
            script: FaultScript::new(clock.clone()),
            tokens: BTreeSet::from([Self::TOKEN.to_owned()]),
            calls: VecDeque::new(),
        };
        let shared = Arc::new(Shared {
            clock: clock.clone(),
            rules,
            gate: Arc::clone(&gate),
            stopped: stopped.clone(),
            arrived: Notify::new(),
            changed: Notify::new(),
            late: LateRequests::new(clock),
            downloads_held: watch::Sender::new(false),
            state: Mutex::new(state),
        });
        // Both end with the token, which is cancelled when the server is dropped.
        satchel_fake_kit::serve(gate, serving::router(Arc::clone(&shared)), stopped);
        tokio::spawn(webhook::deliver(Arc::clone(&shared)));
        Ok(Self { shared })
    }

    /// Where clients find it, in place of `https://api.telegram.org`.
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("http://{}", self.shared.gate.address())
    }

    /// The first token of its bot.
    #[must_use]
    pub fn token(&self) -> &'static str {
        Self::TOKEN
    }

    /// Refuses a token from now on, also in polls that are under way. Bot Features, "/revoke – revoke bot access token";
    /// tdlib/telegram-bot-api, `Client.cpp`: a client whose authorization was taken away answers every query with 401
    /// "Unauthorized".
    pub fn revoke_token(&self, token: &str) {
        self.state().tokens.remove(token);
        self.shared.arrived.notify_waiters();
    }

    /// Accepts a token for its bot from now on. Bot Features, "/token – generate authorization token": the bot, its chats
    /// and its waiting updates stay the same.
    pub fn accept_token(&self, token: &str) {
        self.state().tokens.insert(token.to_owned());
    }

    /// The id and the username of its bot.
    #[must_use]
    pub fn bot(&self) -> (i64, &'static str) {
        (platform_state::BOT, platform_state::BOT_USERNAME)
    }

    /// The rules that it enforces.
    #[must_use]
    pub fn rules(&self) -> &TelegramRules {
        &self.shared.rules
    }

    /// The clock that its rates, dates, long polls, webhook and faults go by.
    #[must_use]
    pub fn clock(&self) -> &TestClock {
        &self.shared.clock
    }

    /// Lets something go wrong with requests that are to come. Where several lines meet a request, the first counts.
    pub fn script(&self, methods: &str, timing: FaultTiming, fault: impl Into<TelegramFault>) {
        self.state().script.add(methods, timing, fault.into());
        self.shared.close_if_scripted();
    }

    /// Lets the next request of a method go wrong.
    pub fn script_next(&self, methods: &str, fault: impl Into<TelegramFault>) {
        self.script(methods, FaultTiming::Nth(self.requests(methods) + 1), fault);
    }

    pub fn clear_script(&self) {
        self.state().script.clear();
    }

    /// Performs the requests that [`satchel_fake_kit::Fault::AcceptOnRelease`] has withheld so far, in the order in
    /// which they came.
    pub fn release_requests(&self) {
        self.shared.late.release();
    }

    /// Lets downloads wait, which count as arrived only when they go on.
    pub fn hold_downloads(&self) {
        self.shared.downloads_held.send_replace(true);
    }

    /// Lets downloads go on.
    pub fn resume_downloads(&self) {
        self.shared.downloads_held.send_replace(false);
    }

    /// How many requests of a method have arrived; refused connections are none.
    #[must_use]
    pub fn requests(&self, methods: &str) -> u64 {
        self.state().script.requests(methods)
    }

    /// The requests that were read, oldest first.
    #[must_use]
    pub fn calls(&self) -> Vec<TelegramCall> {
        self.state().calls.iter().cloned().collect()
    }

    /// Tells when the `number`th request of a method, counted from 1 since the start, reaches a phase.
    pub fn on_nth(&self, methods: &str, number: u64, phase: RequestPhase) -> oneshot::Receiver<()> {
        self.state().script.wait_for(methods, number, phase)
    }

    /// Refuses all connections for a while, from now on.
    pub fn refuse_connections(&self, duration: Duration) {
        self.shared.gate.close(duration);
    }

    /// What stands in the chats.
    #[must_use]
    pub fn transcript(&self) -> TelegramTranscript {
        TelegramTranscript::from_state(&self.state().platform)
    }

    /// Waits until the chats read as wanted.
    ///
    /// # Errors
    /// When they don't within a minute.
    pub async fn wait_until(&self, wanted: impl Fn(&TelegramTranscript) -> bool) -> Result<(), Elapsed> {
        wait_for_change(&self.shared.changed, || wanted(&self.transcript())).await
    }

    /// How fast the bot has been.
    #[must_use]
    pub fn pace(&self) -> RateReport {
        self.state().pace.report()
    }

    /// The commands that the bot has told of, as in `setMyCommands`.
    #[must_use]
    pub fn commands(&self) -> Vec<Value> {
        self.state().platform.commands.clone()
    }

    /// Keeps the bytes of the files that the bot uploads from now on.
    pub fn keep_file_bytes(&self) {
        self.state().platform.keep_bytes = true;
    }

    /// Lets the webhook's address lead here over plain HTTP, as a proxy in front of the bot does.
    pub fn webhook_behind_proxy(&self, bot: SocketAddr) {
        self.state().inbox.behind_proxy = Some(bot);
        self.shared.arrived.notify_waiters();
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for FakeTelegram {
    fn drop(&mut self) {
        self.shared.stopped.cancel();
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn on_request(&self, method: &str) -> ScriptedRequest<ApiRefusal> {
        self.state().script.on_request(method)
    }

    /// Remembers what a request said, and wakes those who wait for what it may have changed.
    pub(crate) fn record_call(&self, call: &ReceivedCall) {
        let mut state = self.state();
        if state.calls.len() == MAX_RECORDED_CALLS {
            state.calls.pop_front();
        }
        state.calls.push_back(TelegramCall {
            method: call.method.clone(),
            parameters: call.parameters.clone(),
            taken: call.taken(),
        });
        drop(state);
        if call.method.ends_with("webhook") {
            self.arrived.notify_waiters();
        }
    }

    /// Closes the gate if the next request is scripted to find it closed.
    pub(crate) fn close_if_scripted(&self) {
        let closure = self.state().script.next_closure();
        if let Some(for_ms) = closure {
            self.gate.close(Duration::from_millis(for_ms));
        }
    }
}
