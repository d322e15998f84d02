//! The strict fake Discord: its state, its script of faults, and what a test asks of it.
//!
//! It follows Discord's documentation and its OpenAPI, and where both are silent what bots have been told for years;
//! each limit names its source. [`FakeDiscord`] is the HTTP API, the gateway, the CDN, the people who use it all, and
//! the record of what they see.

mod call;
mod cdn;
mod draft;
pub mod gateway;
mod guilds;
mod links;
mod markdown;
mod message;
mod methods;
mod objects;
mod people;
mod platform_state;
mod privacy;
mod rate;
mod refusal;
mod route;
mod rules;
mod serving;
mod transcript;

use std::{
    collections::{BTreeSet, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use satchel_fake_kit::{
    FaultScript, FaultTiming, LateRequests, ListenerGate, RequestPhase, ScriptedRequest, TestClock, wait_for_change,
};
use serde_json::Value;
use tokio::{
    sync::{Notify, oneshot},
    time::error::Elapsed,
};
use tokio_util::sync::CancellationToken;

use self::{
    call::ReceivedCall,
    gateway::{FakeGateway, GatewaySnapshot},
    platform_state::PlatformState,
    rate::RateCounter,
};
pub use self::{
    call::{DiscordCall, SentFile},
    markdown::{MarkKind, SeenMark, SeenText, read_markdown},
    message::{
        DiscordButton, DiscordFile, DiscordMessage, EPHEMERAL, Mention, MessageVersion, PersonMessage, VOICE_MESSAGE,
    },
    platform_state::{
        APPLICATION, BOT, ChannelKind, EPOCH_MS, InteractionKind, InteractionResponse, Permission, SentInteraction,
        Tier,
    },
    rate::RateReport,
    refusal::{ApiRefusal, DiscordFault, RetryAfter},
    route::CDN,
    rules::{DiscordRates, DiscordRules},
    transcript::{DiscordTranscript, TranscriptChannel},
};

/// How many requests are remembered for [`FakeDiscord::calls`].
const MAX_RECORDED_CALLS: usize = 10_000;

/// Discord on a free loopback port, with the people who use it. It ends when it is dropped.
///
/// Routes are named as in `POST /channels/{}/messages`, in any case. Where a route is asked for, `GET*` means all that
/// begin so, `*` means all, and [`CDN`] means downloads of files.
pub struct FakeDiscord {
    shared: Arc<Shared>,
}

/// What the routes work on.
pub(crate) struct Shared {
    pub(crate) clock: TestClock,
    pub(crate) rules: DiscordRules,
    pub(crate) gate: Arc<ListenerGate>,
    pub(crate) hub: FakeGateway,
    pub(crate) stopped: CancellationToken,
    /// Told when something has changed on the platform.
    pub(crate) changed: Notify,
    pub(crate) late: LateRequests,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) platform: PlatformState,
    pub(crate) pace: RateCounter,
    pub(crate) script: FaultScript<ApiRefusal>,
    /// The tokens that it accepts.
    pub(crate) tokens: BTreeSet<String>,
    calls: VecDeque<DiscordCall>,
}

impl FakeDiscord {
    /// The token of its bot, until it is revoked.
    pub const TOKEN: &'static str = "NzY1NDMyMTA5ODc2NTQzMjEw.GFake1.DiscordTokenCanary_8b1f42c7Zw";

    /// Starts a server with these rules.
    ///
    /// # Errors
    /// When no loopback port can be had.
    pub async fn start(rules: DiscordRules) -> io::Result<Self> {
        satchel_fake_kit::install_tls_provider();
        let clock = TestClock::default();
        let gate = ListenerGate::open(clock.clone()).await?;
        let stopped = CancellationToken::new();
        let address = gate.address();
        let hub =
            FakeGateway::new(rules.gateway, Self::TOKEN, &format!("ws://{address}"), stopped.clone(), clock.clone());
        let state = State {
            platform: PlatformState::new(format!("http://{address}"), rules.link_life, clock.clone()),
            pace: RateCounter::new(rules.pace.clone(), clock.clone()),
            script: FaultScript::new(clock.clone()),
            tokens: BTreeSet::from([Self::TOKEN.to_owned()]),
            calls: VecDeque::new(),
        };
        let shared = Arc::new(Shared {
            clock: clock.clone(),
            rules,
            gate: Arc::clone(&gate),
            hub: hub.clone(),
            stopped: stopped.clone(),
            changed: Notify::new(),
            late: LateRequests::new(clock),
            state: Mutex::new(state),
        });
        let server = Arc::downgrade(&shared);
        hub.set_snapshot(move || server.upgrade().map(|shared| shared.gateway_snapshot()).unwrap_or_default());
        hub.set_redaction(privacy::event);
        // It ends with the token, which is cancelled when the server is dropped.
        satchel_fake_kit::serve(gate, serving::router(Arc::clone(&shared)), stopped);
        Ok(Self { shared })
    }

    /// Where clients find it, in place of `https://discord.com`.
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("http://{}", self.shared.gate.address())
    }

    /// The first token of its bot.
    #[must_use]
    pub fn token(&self) -> &'static str {
        Self::TOKEN
    }

    /// Refuses a token from now on. Opcodes and Status Codes: 401 "The Authorization header was missing or invalid" of the
    /// HTTP API, and 4004 "The account token sent with your identify payload is incorrect" of the gateway, which ends the
    /// sessions that were begun with it.
    pub fn revoke_token(&self, token: &str) {
        self.state().tokens.remove(token);
        self.shared.hub.revoke_token(token);
    }

    /// Accepts a token for its bot from now on, as after Reset Token in the developer portal. Its guilds and channels stay.
    pub fn accept_token(&self, token: &str) {
        self.state().tokens.insert(token.to_owned());
        self.shared.hub.accept_token(token);
    }

    /// The rules that it enforces.
    #[must_use]
    pub fn rules(&self) -> &DiscordRules {
        &self.shared.rules
    }

    /// The clock that its rates, ids, nonces, links, interactions, faults and gateway go by.
    #[must_use]
    pub fn clock(&self) -> &TestClock {
        &self.shared.clock
    }

    #[must_use]
    pub fn gateway(&self) -> &FakeGateway {
        &self.shared.hub
    }

    /// Lets something go wrong with requests that are to come. Where several lines meet a request, the first counts.
    pub fn script(&self, routes: &str, timing: FaultTiming, fault: impl Into<DiscordFault>) {
        self.state().script.add(routes, timing, fault.into());
        self.shared.close_if_scripted();
    }

    /// Lets the next request of a route go wrong.
    pub fn script_next(&self, routes: &str, fault: impl Into<DiscordFault>) {
        self.script(routes, FaultTiming::Nth(self.requests(routes) + 1), fault);
    }

    pub fn clear_script(&self) {
        self.state().script.clear();
    }

    /// Performs the requests that [`satchel_fake_kit::Fault::AcceptOnRelease`] has withheld so far, in the order in
    /// which they came.
    pub fn release_requests(&self) {
        self.shared.late.release();
    }

    /// How many requests of a route have arrived; refused connections are none, and neither are unknown routes.
    #[must_use]
    pub fn requests(&self, routes: &str) -> u64 {
        self.state().script.requests(routes)
    }

    /// The requests that were read, oldest first.
    #[must_use]
    pub fn calls(&self) -> Vec<DiscordCall> {
        self.state().calls.iter().cloned().collect()
    }

    /// Tells when the `number`th request of a route, counted from 1 since the start, reaches a phase.
    pub fn on_nth(&self, routes: &str, number: u64, phase: RequestPhase) -> oneshot::Receiver<()> {
        self.state().script.wait_for(routes, number, phase)
    }

    /// Refuses all connections for a while, from now on. Those that are open stay.
    pub fn refuse_connections(&self, duration: Duration) {
        self.shared.gate.close(duration);
    }

    /// What stands in the channels.
    #[must_use]
    pub fn transcript(&self) -> DiscordTranscript {
        DiscordTranscript::from_state(&self.state().platform)
    }

    /// Waits until the channels read as wanted.
    ///
    /// # Errors
    /// When they don't within a minute.
    pub async fn wait_until(&self, wanted: impl Fn(&DiscordTranscript) -> bool) -> Result<(), Elapsed> {
        wait_for_change(&self.shared.changed, || wanted(&self.transcript())).await
    }

    /// How fast the bot has been.
    #[must_use]
    pub fn pace(&self) -> RateReport {
        self.state().pace.report()
    }

    /// The slash commands that the bot has told of.
    #[must_use]
    pub fn commands(&self) -> Vec<Value> {
        self.state().platform.commands.clone()
    }

    /// Keeps the bytes of the files that the bot uploads from now on.
    pub fn keep_file_bytes(&self) {
        self.state().platform.keep_bytes = true;
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

/// The gateway's controls that tests use most; the others are at [`FakeDiscord::gateway`].
impl FakeDiscord {
    /// Tells all sessions of an event as it is, of a kind that nobody knows or that can't be read.
    pub fn dispatch(&self, name: &str, data: Value) {
        self.shared.hub.dispatch(name, data);
    }

    /// See [`FakeGateway::drop_connection`].
    pub fn drop_connection(&self) {
        self.shared.hub.drop_connection();
    }

    /// See [`FakeGateway::ask_to_reconnect`].
    pub fn ask_to_reconnect(&self) {
        self.shared.hub.ask_to_reconnect();
    }

    /// See [`FakeGateway::invalidate_session`].
    pub fn invalidate_session(&self, resumable: bool) {
        self.shared.hub.invalidate_session(resumable);
    }

    /// See [`FakeGateway::close_with`].
    pub fn close_with(&self, code: u16) {
        self.shared.hub.close_with(code);
    }

    /// See [`FakeGateway::withhold_heartbeat_acks`].
    pub fn withhold_heartbeat_acks(&self, withhold: bool) {
        self.shared.hub.withhold_heartbeat_acks(withhold);
    }

    /// See [`FakeGateway::send_garbage`].
    pub fn send_garbage(&self, text: &str) {
        self.shared.hub.send_garbage(text);
    }

    /// See [`FakeGateway::grant_intents`].
    pub fn grant_intents(&self, bits: u64) {
        self.shared.hub.grant_intents(bits);
    }

    /// How many sessions there are, connected or waiting to be resumed.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.hub.sessions()
    }

    /// How many sessions were begun.
    #[must_use]
    pub fn identifies(&self) -> u64 {
        self.shared.hub.report().identifies
    }

    /// How many sessions were resumed.
    #[must_use]
    pub fn resumes(&self) -> u64 {
        self.shared.hub.report().resumes
    }
}

impl Drop for FakeDiscord {
    fn drop(&mut self) {
        self.shared.stopped.cancel();
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn on_request(&self, route: &str) -> ScriptedRequest<ApiRefusal> {
        self.state().script.on_request(&route.to_lowercase())
    }

    /// Remembers what a request said.
    pub(crate) fn record_call(&self, call: &ReceivedCall) {
        let mut state = self.state();
        if state.calls.len() == MAX_RECORDED_CALLS {
            state.calls.pop_front();
        }
        state.calls.push_back(call.as_record());
    }

    /// Lets the gateway tell what has happened, in the order in which it did. What the bot can't see it isn't told of.
    pub(crate) fn notify(&self, state: &mut State) {
        for (name, data) in std::mem::take(&mut state.platform.events) {
            let channel = data["channel_id"].as_str().and_then(|id| id.parse().ok());
            let sees = channel.is_none_or(|channel| state.platform.may(channel, Permission::View));
            if sees {
                self.hub.dispatch(name, data);
            }
        }
    }

    /// What a session is told when it begins.
    fn gateway_snapshot(&self) -> GatewaySnapshot {
        let state = self.state();
        let platform = &state.platform;
        let guilds = platform.guilds.iter().map(|(id, guild)| guilds::with_channels(platform, *id, guild)).collect();
        GatewaySnapshot { user: objects::user(platform, BOT), application: APPLICATION, guilds }
    }

    /// Closes the gate if the next request is scripted to find it closed.
    pub(crate) fn close_if_scripted(&self) {
        let closure = self.state().script.next_closure();
        if let Some(for_ms) = closure {
            self.gate.close(Duration::from_millis(for_ms));
        }
    }
}
