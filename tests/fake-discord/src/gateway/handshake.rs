//! How a connection comes to its session: IDENTIFY begins one, RESUME goes on with one.

use std::sync::PoisonError;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::gateway::{
    GatewaySnapshot, RESUME_PATH, Shared, State,
    connection::ConnectionCommand,
    frame::close,
    intents::{self, ALL, PRIVILEGED},
    session::FakeSession,
};

/// How a connection is refused a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandshakeRefusal {
    /// It is closed with this code.
    Close(u16),
    InvalidSession,
    /// It is told nothing, and stays.
    Ignored,
}

impl Shared {
    /// Identify: begins a session, and tells it how things stand.
    pub(crate) fn identify(&self, connection: u64, data: &Value) -> Result<(), HandshakeRefusal> {
        let request = IdentifyRequest::read(data).ok_or(HandshakeRefusal::Close(close::DECODE_ERROR))?;
        let name = self.state().start_session(self, connection, &request)?;
        // The snapshot is taken while no lock is held: whoever dispatches may hold the platform's. What happens
        // meanwhile is told after it, and may stand in it already.
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let snapshot = snapshot();
        let mut state = self.state();
        let events = self.ready_events(&snapshot, &name, state.granted);
        let State { sessions, report, .. } = &mut *state;
        if let Some(session) = sessions.get_mut(&name) {
            report.dispatched += session.start(&events);
        }
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Ready: the guilds are "unavailable" in it; Guild Availability: "you will receive Guild Create events".
    fn ready_events(&self, snapshot: &GatewaySnapshot, session: &str, granted: u64) -> Vec<(&'static str, Value)> {
        let unavailable = |guild: &Value| json!({ "id": guild["id"], "unavailable": true });
        let ready = json!({
            "v": 10,
            "user": snapshot.user,
            "guilds": snapshot.guilds.iter().map(unavailable).collect::<Vec<_>>(),
            "session_id": session,
            "resume_gateway_url": format!("{}{RESUME_PATH}", self.base),
            "application": {
                "id": snapshot.application.to_string(),
                "flags": intents::application_flags(granted),
            },
            "private_channels": [],
            "session_type": "normal",
        });
        let guilds = snapshot.guilds.iter().map(|guild| ("GUILD_CREATE", guild.clone()));
        std::iter::once(("READY", ready)).chain(guilds).collect()
    }

    /// Resume: sends "the missed events in order, finishing with a Resumed event".
    pub(crate) fn resume(&self, connection: u64, at_its_url: bool, data: &Value) -> Result<(), HandshakeRefusal> {
        let (Some(token), Some(name), Some(seen)) =
            (data["token"].as_str(), data["session_id"].as_str(), data["seq"].as_u64())
        else {
            return Err(HandshakeRefusal::Close(close::DECODE_ERROR));
        };
        let mut state = self.state();
        state.report.resumes_misdirected += u64::from(!at_its_url);
        let resumed = state.resume_session(self, connection, token, name, seen);
        state.report.resumes_refused += u64::from(resumed.is_err());
        drop(state);
        self.changed.notify_waiters();
        resumed
    }
}

impl State {
    fn start_session(
        &mut self,
        shared: &Shared,
        connection: u64,
        request: &IdentifyRequest<'_>,
    ) -> Result<String, HandshakeRefusal> {
        let rules = &shared.rules;
        if !self.tokens.contains(request.token) {
            return Err(HandshakeRefusal::Close(close::AUTHENTICATION_FAILED));
        }
        if !request.is_only_shard {
            // Sharding for Large Bots: "an invalid number of shards"; GET /gateway/bot recommends one.
            return Err(HandshakeRefusal::Close(close::INVALID_SHARD));
        }
        // Gateway Intents: 4013 for invalid ones, 4014 for privileged ones that the application doesn't have.
        if request.intents & !ALL != 0 {
            return Err(HandshakeRefusal::Close(close::INVALID_INTENTS));
        }
        if request.intents & PRIVILEGED & !self.granted != 0 {
            return Err(HandshakeRefusal::Close(close::DISALLOWED_INTENTS));
        }
        // Identifying: "If your app exceeds this limit, Discord will respond with a Invalid Session".
        let too_early = rules
            .identify_every
            .zip(self.starts.back())
            .is_some_and(|(every, at)| shared.clock.elapsed_since(*at) < every);
        let refused = self.faults.refused_identifies > 0;
        self.faults.refused_identifies = self.faults.refused_identifies.saturating_sub(1);
        if too_early || refused {
            self.report.identifies_refused += 1;
            return Err(HandshakeRefusal::InvalidSession);
        }
        self.forget_starts(rules.session_starts_within);
        if self.starts.len() >= rules.session_starts {
            // Identifying: "all active sessions for the app will be terminated, the bot token will be reset".
            self.tokens.clear();
            self.command_all(|| ConnectionCommand::Close(close::AUTHENTICATION_FAILED));
            self.part(true);
            self.sessions.clear();
            return Err(HandshakeRefusal::Close(close::AUTHENTICATION_FAILED));
        }
        self.starts.push_back(shared.clock.now());
        self.report.identifies += 1;
        let name = Uuid::new_v4().simple().to_string();
        self.sessions.insert(name.clone(), FakeSession::new(request.intents, rules.buffered_events));
        self.connect(connection, &name);
        Ok(name)
    }

    fn resume_session(
        &mut self,
        shared: &Shared,
        connection: u64,
        token: &str,
        name: &str,
        seen: u64,
    ) -> Result<(), HandshakeRefusal> {
        if let Some(code) = self.faults.closes_resumes {
            return Err(HandshakeRefusal::Close(code));
        }
        if self.faults.ignored_resumes > 0 {
            self.faults.ignored_resumes -= 1;
            return Err(HandshakeRefusal::Ignored);
        }
        if !self.tokens.contains(token) {
            return Err(HandshakeRefusal::Close(close::AUTHENTICATION_FAILED));
        }
        let in_time = |session: &&mut FakeSession| {
            session.disconnected_at.is_none_or(|since| shared.clock.elapsed_since(since) < shared.rules.resumable_for)
        };
        let Some(session) = self.sessions.get_mut(name).filter(in_time) else {
            // Resuming: "It's possible your app won't reconnect in time to Resume".
            self.sessions.remove(name);
            return Err(HandshakeRefusal::InvalidSession);
        };
        if seen > session.last() {
            self.sessions.remove(name);
            return Err(HandshakeRefusal::Close(close::INVALID_SEQ));
        }
        if !session.can_resume(seen) {
            self.sessions.remove(name);
            return Err(HandshakeRefusal::InvalidSession);
        }
        self.connect(connection, name);
        let missed = self.sessions.get_mut(name).map_or(0, |session| session.replay(seen));
        self.report.resumes += 1;
        self.report.replayed += missed;
        Ok(())
    }

    /// Gives a session to a connection. Another one that had it until now is closed: only one can.
    fn connect(&mut self, connection: u64, name: &str) {
        for (other, connected) in &mut self.connections {
            if *other != connection && connected.session.as_deref() == Some(name) {
                connected.session = None;
                let _gone = connected.commands.send(ConnectionCommand::Drop);
            }
        }
        let Some(connected) = self.connections.get_mut(&connection) else { return };
        connected.session = Some(name.to_owned());
        if let Some(session) = self.sessions.get_mut(name) {
            session.connection = Some((connection, connected.commands.clone()));
            session.disconnected_at = None;
        }
    }
}

/// What an IDENTIFY asks for.
struct IdentifyRequest<'a> {
    token: &'a str,
    intents: u64,
    is_only_shard: bool,
}

impl<'a> IdentifyRequest<'a> {
    /// Identify Structure: `token`, `properties` and `intents` have to be there, and Connection Properties lists three
    /// of them. The names with a `$` are deprecated, and not taken here.
    fn read(data: &'a Value) -> Option<Self> {
        let properties = data.get("properties")?.as_object()?;
        if !["os", "browser", "device"].iter().all(|name| properties.get(*name).is_some_and(Value::is_string)) {
            return None;
        }
        let shard = data.get("shard").filter(|shard| !shard.is_null());
        Some(Self {
            token: data.get("token")?.as_str()?,
            intents: data.get("intents")?.as_u64()?,
            is_only_shard: shard.is_none_or(|shard| *shard == json!([0, 1])),
        })
    }
}
