//! Discord's gateway protocol as one state machine: frames, close codes, heartbeats and the session.
//!
//! It is pure: [`GatewayProtocol::on`] maps an event and a time to an action. Socket, clock and randomness stay outside.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use serenity::{
    constants::{Opcode, close_codes},
    model::gateway::GatewayIntents,
};

use crate::{rest::DiscordError, snowflake::stable_key};

/// What a session subscribes to without the privileged intent: events and messages of guilds and direct channels.
const INTENTS: GatewayIntents =
    GatewayIntents::GUILDS.union(GatewayIntents::GUILD_MESSAGES).union(GatewayIntents::DIRECT_MESSAGES);

/// Longer intervals are cut, so that an absurd number doesn't end the heartbeat.
const MAX_HEARTBEAT_INTERVAL_MS: u64 = 3_600_000;

/// How many intervals in a row may pass without an ack while other frames arrive.
const MAX_MISSED_ACKS: u32 = 3;

/// How many resumes may fail at the session's own address, and then at the one of `GET /gateway/bot`, before the
/// session is given up.
const MAX_ATTEMPTS: u32 = 3;

/// The code with which we close a connection. 1000 and 1001 would end the session, too.
pub(super) const CLOSE_KEEPING_SESSION: u16 = 4000;

/// serenity has no name for it (Opcodes and Status Codes, Gateway Close Event Codes).
const INVALID_API_VERSION: u16 = 4012;

/// The close code of an invalid session. What shows us the same ends a connection in the same way.
const SESSION_INVALID: Option<u16> = Some(close_codes::INVALID_SEQUENCE);
const TOO_MANY_GUILDS_TEXT: &str = "the bot is in more guilds than one connection can serve; remove it from some";
const UNSUPPORTED_VERSION_TEXT: &str = "Discord no longer supports this version's gateway protocol; update Satchel";

/// A position in a session's stream of events, and what a resume needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResumeState {
    /// The origin of the API server whose session it is: another server must get neither token nor session.
    pub(crate) server: Arc<str>,
    /// A secret like the token: with both, anyone can resume the session.
    pub(crate) session_id: Arc<str>,
    pub(crate) resume_url: Arc<str>,
    /// The sequence number of the last event.
    pub(crate) seq: u64,
    /// Whether guild messages of this session contain their text.
    pub(crate) has_message_content: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum GatewayEvent {
    /// An event such as `MESSAGE_CREATE`. `READY` starts a new session, which repeats no earlier event.
    Dispatch { resume_state: ResumeState, name: String, data: Value },
    /// A frame that could not be decoded. The key is the same for the same frame; the reason contains nothing of it.
    Undecodable { key: String, reason: &'static str },
}

/// What happens to a connection. Its first heartbeat is due after the share `jitter` of the interval, from 0 to 1; no ack
/// is missed while nothing is read; without a code it was lost.
#[derive(Debug)]
pub(super) enum ProtocolEvent {
    Connected { jitter: f64 },
    ConnectFailed,
    Text(String),
    Binary(Vec<u8>),
    Timer { is_reading: bool },
    Closed { code: Option<u16>, reason: String },
}

/// What to do next. Discord works if the session `is_ready`, and reliably if it `has_lasted` until a heartbeat ack.
#[derive(Debug)]
pub(super) enum ProtocolAction {
    None,
    Send(ClientFrame),
    Emit { event: GatewayEvent, is_ready: bool },
    Close { reconnect: Reconnect, reason: String, has_lasted: bool },
}

#[derive(Debug)]
pub(super) enum Reconnect {
    /// After a backoff.
    Backoff,
    /// After a backoff which is logged: the connection brought no session.
    Outage { is_session_dropped: bool },
    /// After Discord's pause before a new session; also after a logged backoff if Discord refused to identify.
    NewSession { is_outage: bool },
    /// At once, without the intent for message content.
    WithoutMessageContent,
    /// Not before Discord accepts the token again.
    AccountRefused,
    /// Never: no further attempt can help.
    Fail(DiscordError),
}

#[derive(Debug, PartialEq)]
enum ServerFrame {
    Hello { interval: Duration },
    HeartbeatRequest,
    HeartbeatAck,
    Reconnect,
    InvalidSession { is_resumable: bool },
    Dispatch { seq: u64, name: String, data: Value },
    Other,
}

impl ServerFrame {
    /// Parses a frame. The error says what is wrong, without the content.
    fn parse(text: &str) -> Result<Self, &'static str> {
        let Ok(mut frame) = serde_json::from_str::<Value>(text) else { return Err("it is no JSON") };
        let op = frame.get("op").and_then(Value::as_u64).and_then(|op| u8::try_from(op).ok());
        Ok(match Opcode::from(op.ok_or("it has no opcode")?) {
            Opcode::Dispatch => {
                let seq = frame.get("s").and_then(Value::as_u64).ok_or("an event without a number")?;
                let name = frame.get("t").and_then(Value::as_str).ok_or("an event without a name")?.to_owned();
                Self::Dispatch { seq, name, data: frame.get_mut("d").map(Value::take).unwrap_or_default() }
            }
            Opcode::Heartbeat => Self::HeartbeatRequest,
            Opcode::Reconnect => Self::Reconnect,
            Opcode::InvalidSession => Self::InvalidSession { is_resumable: frame.get("d") == Some(&json!(true)) },
            Opcode::Hello => {
                let interval = frame.pointer("/d/heartbeat_interval").and_then(Value::as_u64);
                let interval = interval.filter(|interval| *interval > 0).ok_or("a hello without an interval")?;
                Self::Hello { interval: Duration::from_millis(interval.min(MAX_HEARTBEAT_INTERVAL_MS)) }
            }
            Opcode::HeartbeatAck => Self::HeartbeatAck,
            _ => Self::Other,
        })
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum ClientFrame {
    Heartbeat(Option<u64>),
    Identify { has_message_content: bool },
    Resume(ResumeState),
}

impl ClientFrame {
    /// Encodes the frame, which may contain the token.
    pub(super) fn encode(&self, token: &str) -> String {
        let (op, data) = match self {
            Self::Heartbeat(seq) => (Opcode::Heartbeat, json!(seq)),
            Self::Identify { has_message_content } => {
                let content = if *has_message_content { GatewayIntents::MESSAGE_CONTENT } else { INTENTS };
                let intents = INTENTS.union(content).bits();
                let properties = json!({ "os": std::env::consts::OS, "browser": "satchel", "device": "satchel" });
                (Opcode::Identify, json!({ "token": token, "intents": intents, "properties": properties }))
            }
            Self::Resume(ResumeState { session_id, seq, .. }) => {
                (Opcode::Resume, json!({ "token": token, "session_id": session_id, "seq": seq }))
            }
        };
        json!({ "op": u8::from(op), "d": data }).to_string()
    }
}

/// When the next heartbeat is due, and whether missing acks mean a dead connection.
#[derive(Debug)]
struct Heartbeat {
    interval: Duration,
    next_at: Instant,
    /// How many heartbeats have no ack yet.
    unacked: u32,
    /// Whether reading was paused at the last heartbeat.
    was_paused: bool,
    /// Whether acks may be unread behind frames that piled up during a pause.
    has_backlog: bool,
    /// Whether a frame arrived since the last heartbeat.
    has_received: bool,
    /// How many intervals without a pause passed since the last ack.
    missed_acks: u32,
}

impl Heartbeat {
    /// The first heartbeat is due after a share of the interval, so that clients that connect together don't send in
    /// step.
    fn new(now: Instant, interval: Duration, jitter: f64) -> Self {
        Self {
            interval,
            next_at: now + interval.mul_f64(jitter.clamp(0.0, 1.0)),
            unacked: 0,
            was_paused: false,
            has_backlog: false,
            has_received: false,
            missed_acks: 0,
        }
    }

    /// A heartbeat is due. Returns whether to send it; otherwise the connection is dead.
    fn tick(&mut self, now: Instant, is_reading: bool) -> bool {
        if self.unacked > 0 && is_reading && !self.was_paused {
            self.missed_acks += 1;
            let may_be_unread = self.has_backlog && self.has_received && self.missed_acks < MAX_MISSED_ACKS;
            if !may_be_unread {
                return false;
            }
        }
        self.next_at = now + self.interval;
        self.unacked += 1;
        self.was_paused = !is_reading;
        self.has_backlog |= !is_reading;
        self.has_received = false;
        true
    }

    fn on_ack(&mut self) {
        self.unacked = self.unacked.saturating_sub(1);
        self.has_backlog &= self.unacked > 0;
        self.missed_acks = 0;
    }
}

#[derive(Debug, Default)]
struct ConnectionState {
    /// The share of the interval before the first heartbeat.
    jitter: f64,
    /// Exists after the hello.
    heartbeat: Option<Heartbeat>,
    has_identified: bool,
    /// Whether the session was started or resumed.
    is_ready: bool,
    /// Whether new events arrived.
    made_progress: bool,
    /// Whether the session got at least one heartbeat ack.
    has_lasted: bool,
}

/// The session, over all of its connections.
#[derive(Debug)]
pub(super) struct GatewayProtocol {
    server: Arc<str>,
    timeout: Duration,
    /// Whether to request the text of guild messages: not again after Discord refused.
    has_message_content: bool,
    resume_state: Option<ResumeState>,
    /// When the last new session was requested.
    pub(super) identified_at: Option<Instant>,
    /// How many attempts in a row to resume failed without progress.
    failed_attempts: u32,
    connection: ConnectionState,
    /// When the hello, and then the session or the next of the events before it, must have arrived.
    deadline: Instant,
}

impl GatewayProtocol {
    /// Resumes a session of the same server. One without message content is not resumed, because the operator may have
    /// granted the intent since.
    pub(super) fn new(server: &str, resume_state: Option<ResumeState>, timeout: Duration, now: Instant) -> Self {
        Self {
            server: server.into(),
            timeout,
            has_message_content: true,
            resume_state: resume_state.filter(|state| state.has_message_content && *state.server == *server),
            identified_at: None,
            failed_attempts: 0,
            connection: ConnectionState::default(),
            deadline: now,
        }
    }

    /// Returns the address at which to resume, unless it failed too often there.
    pub(super) fn resume_url(&self) -> Option<&str> {
        let state = self.resume_state.as_ref().filter(|_| self.failed_attempts < MAX_ATTEMPTS);
        state.map(|state| state.resume_url.as_ref())
    }

    pub(super) fn needs_identify(&self) -> bool {
        self.resume_state.is_none()
    }

    /// When [`ProtocolEvent::Timer`] is due.
    pub(super) fn next_timer(&self) -> Instant {
        match &self.connection.heartbeat {
            Some(heartbeat) if self.connection.is_ready => heartbeat.next_at,
            Some(heartbeat) => heartbeat.next_at.min(self.deadline),
            None => self.deadline,
        }
    }

    pub(super) fn on(&mut self, event: ProtocolEvent, now: Instant) -> ProtocolAction {
        match event {
            ProtocolEvent::Connected { jitter } => {
                self.connection = ConnectionState { jitter, ..ConnectionState::default() };
                self.deadline = now + self.timeout;
                ProtocolAction::None
            }
            ProtocolEvent::ConnectFailed => {
                // Says nothing about the session, so it only leads to another address.
                self.failed_attempts += u32::from(self.failed_attempts < MAX_ATTEMPTS);
                ProtocolAction::None
            }
            ProtocolEvent::Text(text) => match ServerFrame::parse(&text) {
                Ok(frame) => self.on_frame(frame, now),
                Err(reason) => self.on_undecodable(text.as_bytes(), reason),
            },
            ProtocolEvent::Binary(bytes) => self.on_undecodable(&bytes, "it is no text"),
            ProtocolEvent::Timer { is_reading } => self.on_timer(now, is_reading),
            ProtocolEvent::Closed { code, reason } => self.close(code, reason),
        }
    }

    fn on_timer(&mut self, now: Instant, is_reading: bool) -> ProtocolAction {
        let ConnectionState { heartbeat, is_ready, .. } = &mut self.connection;
        let Some(heartbeat) = heartbeat else { return self.close(None, "no hello arrived") };
        if !*is_ready && now >= self.deadline {
            if is_reading {
                return self.close(None, "identifying got no session");
            }
            self.deadline = now + self.timeout;
        }
        if now < heartbeat.next_at {
            ProtocolAction::None
        } else if heartbeat.tick(now, is_reading) {
            ProtocolAction::Send(self.heartbeat_frame())
        } else {
            self.close(None, "no heartbeat ack arrived")
        }
    }

    fn on_frame(&mut self, frame: ServerFrame, now: Instant) -> ProtocolAction {
        if let Some(heartbeat) = &mut self.connection.heartbeat {
            heartbeat.has_received = true;
        }
        match frame {
            ServerFrame::Hello { interval } => self.on_hello(interval, now),
            ServerFrame::HeartbeatRequest => ProtocolAction::Send(self.heartbeat_frame()),
            ServerFrame::HeartbeatAck => {
                self.connection.has_lasted |= self.connection.is_ready;
                if let Some(heartbeat) = &mut self.connection.heartbeat {
                    heartbeat.on_ack();
                }
                ProtocolAction::None
            }
            ServerFrame::Reconnect => self.close(None, "Discord requested a reconnect"),
            ServerFrame::InvalidSession { is_resumable } => {
                let can_resume = is_resumable && self.resume_state.is_some();
                self.close(SESSION_INVALID.filter(|_| !can_resume), "Discord invalidated the session")
            }
            ServerFrame::Dispatch { seq, name, data } => self.on_dispatch(seq, name, data, now),
            ServerFrame::Other => ProtocolAction::None,
        }
    }

    fn on_hello(&mut self, interval: Duration, now: Instant) -> ProtocolAction {
        let connection = &mut self.connection;
        if connection.heartbeat.is_some() {
            return ProtocolAction::None;
        }
        connection.heartbeat = Some(Heartbeat::new(now, interval, connection.jitter));
        self.deadline = now + self.timeout;
        ProtocolAction::Send(match &self.resume_state {
            Some(state) => ClientFrame::Resume(state.clone()),
            None => {
                connection.has_identified = true;
                self.identified_at = Some(now);
                ClientFrame::Identify { has_message_content: self.has_message_content }
            }
        })
    }

    fn on_dispatch(&mut self, seq: u64, name: String, data: Value, now: Instant) -> ProtocolAction {
        if name == "READY" {
            let text = |field| data.get(field).and_then(Value::as_str);
            let (Some(session_id), Some(resume_url)) = (text("session_id"), text("resume_gateway_url")) else {
                return self.close(SESSION_INVALID, "a session without an id, or without an address to resume at");
            };
            self.resume_state = Some(ResumeState {
                server: Arc::clone(&self.server),
                session_id: session_id.into(),
                resume_url: resume_url.into(),
                seq,
                has_message_content: self.has_message_content,
            });
        }
        self.connection.is_ready |= name == "READY" || name == "RESUMED";
        let Some(state) = &mut self.resume_state else {
            return self.close(SESSION_INVALID, "an event of no session");
        };
        self.connection.made_progress |= seq > state.seq;
        state.seq = seq;
        self.deadline = now + self.timeout;
        let event = GatewayEvent::Dispatch { resume_state: state.clone(), name, data };
        ProtocolAction::Emit { event, is_ready: self.connection.is_ready }
    }

    fn on_undecodable(&self, content: &[u8], reason: &'static str) -> ProtocolAction {
        let event = GatewayEvent::Undecodable { key: format!("frame-{}", stable_key(content)), reason };
        ProtocolAction::Emit { event, is_ready: self.connection.is_ready }
    }

    fn heartbeat_frame(&self) -> ClientFrame {
        ClientFrame::Heartbeat(self.resume_state.as_ref().map(|state| state.seq))
    }

    /// Ends the connection and decides about the next one. Without a close code it was lost, or is to be left.
    fn close(&mut self, code: Option<u16>, reason: impl Into<String>) -> ProtocolAction {
        let ConnectionState { is_ready, has_identified, made_progress, has_lasted, .. } = self.connection;
        self.failed_attempts = if is_ready { 0 } else { self.failed_attempts + u32::from(!made_progress) };
        let refused = |reason: &str| Reconnect::Fail(DiscordError::Refused { reason: reason.to_owned() });
        let reconnect = match code {
            // The session may be another bot's.
            Some(close_codes::AUTHENTICATION_FAILED) if !is_ready && self.resume_state.take().is_some() => {
                Reconnect::Outage { is_session_dropped: false }
            }
            Some(close_codes::AUTHENTICATION_FAILED) => Reconnect::AccountRefused,
            Some(close_codes::INVALID_SEQUENCE | close_codes::SESSION_TIMEOUT) => {
                self.resume_state = None;
                Reconnect::NewSession { is_outage: has_identified && !is_ready }
            }
            Some(close_codes::DISALLOWED_GATEWAY_INTENTS) if self.has_message_content => {
                self.resume_state = None;
                self.has_message_content = false;
                Reconnect::WithoutMessageContent
            }
            Some(close_codes::SHARDING_REQUIRED) => refused(TOO_MANY_GUILDS_TEXT),
            Some(close_codes::INVALID_SHARD | INVALID_API_VERSION) => refused(UNSUPPORTED_VERSION_TEXT),
            Some(close_codes::INVALID_GATEWAY_INTENTS | close_codes::DISALLOWED_GATEWAY_INTENTS) => {
                refused(UNSUPPORTED_VERSION_TEXT)
            }
            _ if is_ready => Reconnect::Backoff,
            // Unknown codes, too: Discord responds to an impossible resume with "invalid session", and nothing is lost.
            _ => {
                let has_failed = self.failed_attempts >= 2 * MAX_ATTEMPTS;
                Reconnect::Outage { is_session_dropped: has_failed && self.resume_state.take().is_some() }
            }
        };
        ProtocolAction::Close { reconnect, reason: reason.into(), has_lasted }
    }
}

#[cfg(test)]
mod tests;
