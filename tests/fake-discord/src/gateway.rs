//! The fake gateway: sessions that outlive their connections, what they are told, and what a test does to them.
//!
//! It follows Discord's documentation (Gateway; Gateway Events; Opcodes and Status Codes); each rule names its section.

mod connection;
mod faults;
mod frame;
mod handshake;
pub(crate) mod intents;
mod rules;
mod serving;
mod session;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use satchel_fake_kit::{TestClock, wait_for_change};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, error::Elapsed},
};
use tokio_util::sync::CancellationToken;

use self::{
    connection::ConnectionCommand,
    faults::GatewayFaults,
    frame::{close, opcode},
    session::FakeSession,
};
pub use self::{
    intents::{DIRECT_MESSAGES, GUILD_MESSAGES, GUILDS, MESSAGE_CONTENT},
    rules::GatewayRules,
};

/// Where the socket is served; GET /gateway/bot names it.
pub(crate) const PATH: &str = "/gateway-socket";

/// Where sessions are resumed; READY names it as `resume_gateway_url`.
pub(crate) const RESUME_PATH: &str = "/gateway-socket-again";

/// What a session is told of the platform when it begins.
#[derive(Debug, Clone, Default)]
pub struct GatewaySnapshot {
    /// The bot, as a user object.
    pub user: Value,
    /// The id of its application.
    pub application: u64,
    /// Its guilds, as GUILD_CREATE tells of them.
    pub guilds: Vec<Value>,
}

/// What the gateway has seen since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatewayReport {
    /// How many sockets were opened.
    pub connections: u64,
    /// How many sessions an IDENTIFY began.
    pub identifies: u64,
    /// How many IDENTIFYs got an Invalid Session (opcode 9).
    pub identifies_refused: u64,
    /// How many sessions were resumed.
    pub resumes: u64,
    /// How many RESUMEs did not go on with their session, for whatever reason.
    pub resumes_refused: u64,
    /// How many RESUMEs did not come to `resume_gateway_url`.
    pub resumes_misdirected: u64,
    /// How many events were sent again to those who resumed.
    pub replayed: u64,
    /// How many events went out as they happened.
    pub dispatched: u64,
    /// The sequence numbers that heartbeats carried.
    pub heartbeats: Vec<Option<u64>>,
    /// The codes with which the gateway closed connections.
    pub closed: Vec<u16>,
    /// The codes with which clients closed connections; `None` is a connection that just ended.
    pub left: Vec<Option<u16>>,
}

/// The gateway of a fake Discord. Clones are the same one.
#[derive(Clone)]
pub struct FakeGateway {
    shared: Arc<Shared>,
}

type SnapshotFn = dyn Fn() -> GatewaySnapshot + Send + Sync;
type RedactFn = dyn Fn(&str, &Value, u64) -> Value + Send + Sync;

pub(crate) struct Shared {
    clock: TestClock,
    rules: GatewayRules,
    /// Where the fake is found, as in `ws://127.0.0.1:1234`.
    base: String,
    snapshot: Mutex<Arc<SnapshotFn>>,
    redaction: OnceLock<Box<RedactFn>>,
    stopped: CancellationToken,
    changed: Notify,
    state: Mutex<State>,
}

struct State {
    clock: TestClock,
    /// The tokens that it accepts.
    tokens: BTreeSet<String>,
    granted: u64,
    sessions: BTreeMap<String, FakeSession>,
    connections: BTreeMap<u64, ConnectionHandle>,
    /// When the sessions of the last day were begun.
    starts: VecDeque<Instant>,
    faults: GatewayFaults,
    report: GatewayReport,
}

/// A connection, as far as others have to do with it.
struct ConnectionHandle {
    commands: mpsc::UnboundedSender<ConnectionCommand>,
    session: Option<String>,
}

impl FakeGateway {
    /// A gateway for this bot token, served at `base` (as in `ws://127.0.0.1:1234`) until it is stopped. Its times are
    /// those of the clock.
    #[must_use]
    pub fn new(rules: GatewayRules, token: &str, base: &str, stopped: CancellationToken, clock: TestClock) -> Self {
        let state = State {
            clock: clock.clone(),
            tokens: BTreeSet::from([token.to_owned()]),
            granted: rules.granted_intents,
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            starts: VecDeque::new(),
            faults: GatewayFaults::default(),
            report: GatewayReport::default(),
        };
        Self {
            shared: Arc::new(Shared {
                clock,
                rules,
                base: base.to_owned(),
                snapshot: Mutex::new(Arc::new(GatewaySnapshot::default)),
                redaction: OnceLock::new(),
                stopped,
                changed: Notify::new(),
                state: Mutex::new(state),
            }),
        }
    }

    /// Lets sessions begin with what this tells; without it they begin on an empty platform.
    ///
    /// It is called while the gateway holds no lock, so it may take the platform's.
    pub fn set_snapshot(&self, snapshot: impl Fn() -> GatewaySnapshot + Send + Sync + 'static) {
        *self.shared.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
    }

    /// Lets each session see of an event what its intents allow (Message Content Intent). Only the first one counts.
    ///
    /// It is called from within [`dispatch`](Self::dispatch), with the event's name, its data, and the intents.
    pub fn set_redaction(&self, redaction: impl Fn(&str, &Value, u64) -> Value + Send + Sync + 'static) {
        let _only_the_first = self.shared.redaction.set(Box::new(redaction));
    }

    /// Tells all sessions of an event, whether they are connected or not.
    pub fn dispatch(&self, name: &str, data: Value) {
        let mut state = self.shared.state();
        let (clock, patience) = (&self.shared.clock, self.shared.rules.resumable_for);
        let waits = |since| clock.elapsed_since(since) < patience;
        state.sessions.retain(|_, session| session.disconnected_at.is_none_or(waits));
        let State { sessions, faults, report, .. } = &mut *state;
        let mut told = 0;
        for session in sessions.values_mut() {
            let data = match self.shared.redaction.get() {
                Some(redact) => redact(name, &data, session.intents),
                None => data.clone(),
            };
            told += u64::from(session.dispatch(name, data));
        }
        report.dispatched += told;
        let is_the_last = faults.drops_after.is_some_and(|left| told > 0 && left <= told);
        faults.drops_after = faults.drops_after.map(|left| left.saturating_sub(told)).filter(|_| !is_the_last);
        if is_the_last {
            state.cut_all(|| ConnectionCommand::Drop);
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// The answer to GET /gateway.
    #[must_use]
    pub fn address(&self) -> Value {
        json!({ "url": format!("{}{PATH}", self.shared.base) })
    }

    /// The answer to GET /gateway/bot.
    #[must_use]
    pub fn bot_address(&self) -> Value {
        let rules = self.shared.rules;
        let mut state = self.shared.state();
        state.forget_starts(rules.session_starts_within);
        let since = state.starts.front().map_or(Duration::ZERO, |start| state.clock.elapsed_since(*start));
        let reset_after = rules.session_starts_within.saturating_sub(since).as_millis();
        let limit = json!({
            "total": rules.session_starts,
            "remaining": rules.session_starts.saturating_sub(state.starts.len()),
            "reset_after": u64::try_from(reset_after).unwrap_or(u64::MAX),
            "max_concurrency": 1,
        });
        json!({ "url": format!("{}{PATH}", self.shared.base), "shards": 1, "session_start_limit": limit })
    }

    /// The `flags` of the bot's application: they tell which privileged intents it has.
    #[must_use]
    pub fn application_flags(&self) -> u64 {
        intents::application_flags(self.shared.state().granted)
    }

    /// Lets the application have these privileged intents and no others. Sessions that run keep theirs.
    pub fn grant_intents(&self, bits: u64) {
        self.shared.state().granted = bits;
    }

    /// What it has seen.
    #[must_use]
    pub fn report(&self) -> GatewayReport {
        self.shared.state().report.clone()
    }

    /// How many sessions there are, connected or waiting to be resumed.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.state().sessions.len()
    }

    /// The ids of the sessions, connected or waiting to be resumed.
    #[must_use]
    pub fn session_ids(&self) -> Vec<String> {
        self.shared.state().sessions.keys().cloned().collect()
    }

    /// How many sessions are connected.
    #[must_use]
    pub fn connected(&self) -> usize {
        self.shared.state().sessions.values().filter(|session| session.connection.is_some()).count()
    }

    /// Waits until it has seen what is wanted.
    ///
    /// # Errors
    /// When it doesn't within a minute.
    pub async fn wait_until(&self, wanted: impl Fn(&GatewayReport) -> bool) -> Result<(), Elapsed> {
        self.shared.wait_until(|state| wanted(&state.report)).await
    }

    /// Waits until as many sessions as this are connected.
    ///
    /// # Errors
    /// When they aren't within a minute.
    pub async fn wait_connected(&self, count: usize) -> Result<(), Elapsed> {
        let connected = |state: &State| state.sessions.values().filter(|session| session.connection.is_some()).count();
        self.shared.wait_until(|state| connected(state) == count).await
    }

    /// Drops all connections without a word; their sessions stay. What is dispatched from now on waits for them.
    pub fn drop_connection(&self) {
        self.shared.state().cut_all(|| ConnectionCommand::Drop);
    }

    /// Lets the connections of now say and hear nothing any more, and never end by themselves (a "zombied" connection).
    /// What is dispatched from now on waits for their sessions to be resumed.
    pub fn freeze_connections(&self) {
        self.shared.state().cut_all(|| ConnectionCommand::Freeze);
    }

    /// Asks all clients to reconnect (opcode 7), and drops those who stay.
    pub fn ask_to_reconnect(&self) {
        self.shared.state().command_all(|| ConnectionCommand::AskToReconnect);
    }

    /// Tells all clients that their session is invalid (opcode 9). One that isn't resumable is gone.
    pub fn invalidate_session(&self, resumable: bool) {
        let mut state = self.shared.state();
        state.command_all(|| ConnectionCommand::Send(frame::control(opcode::INVALID_SESSION, json!(resumable))));
        state.part(!resumable);
    }

    /// Closes all connections with this code.
    pub fn close_with(&self, code: u16) {
        let mut state = self.shared.state();
        state.command_all(|| ConnectionCommand::Close(code));
        state.part(close::ends_session(code));
    }

    /// Refuses a token from now on, and closes all connections, whose sessions end.
    pub fn revoke_token(&self, token: &str) {
        self.shared.state().tokens.remove(token);
        self.close_with(close::AUTHENTICATION_FAILED);
    }

    /// Accepts a token from now on.
    pub fn accept_token(&self, token: &str) {
        self.shared.state().tokens.insert(token.to_owned());
    }

    /// Asks all clients for a heartbeat at once (opcode 1).
    pub fn ask_for_heartbeat(&self) {
        self.shared.state().command_all(|| ConnectionCommand::Send(frame::control(opcode::HEARTBEAT, Value::Null)));
    }

    /// Sends all clients a text frame that means nothing.
    pub fn send_garbage(&self, text: &str) {
        self.shared.state().command_all(|| ConnectionCommand::Send(text.to_owned()));
    }

    /// Sends all clients a binary frame that means nothing.
    pub fn send_binary(&self, bytes: &[u8]) {
        self.shared.state().command_all(|| ConnectionCommand::SendBinary(bytes.to_vec()));
    }

    /// Forgets all sessions that nobody is connected to, as if they had waited too long to be resumed.
    pub fn expire_sessions(&self) {
        self.shared.state().sessions.retain(|_, session| session.connection.is_some());
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_until(&self, wanted: impl Fn(&State) -> bool) -> Result<(), Elapsed> {
        wait_for_change(&self.changed, || wanted(&self.state())).await
    }
}

impl State {
    fn command_all(&self, command: impl Fn() -> ConnectionCommand) {
        for connection in self.connections.values() {
            // A connection that is gone needs no order.
            let _gone = connection.commands.send(command());
        }
    }

    /// Ends all connections for their sessions, which stay.
    fn cut_all(&mut self, command: impl Fn() -> ConnectionCommand) {
        self.command_all(command);
        self.part(false);
    }

    /// Parts all connections from their sessions, and ends those sessions if asked to.
    fn part(&mut self, ends: bool) {
        let now = self.clock.now();
        for connection in self.connections.values_mut() {
            let Some(name) = connection.session.take() else { continue };
            if ends {
                self.sessions.remove(&name);
            } else if let Some(session) = self.sessions.get_mut(&name) {
                session.disconnect(now);
            }
        }
    }

    fn forget_starts(&mut self, within: Duration) {
        while self.starts.front().is_some_and(|start| self.clock.elapsed_since(*start) >= within) {
            self.starts.pop_front();
        }
    }
}

impl fmt::Debug for FakeGateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FakeGateway").field("base", &self.shared.base).finish_non_exhaustive()
    }
}
