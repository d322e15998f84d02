//! What is said on one connection, as a function of what was heard: no socket, no clock.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::Instant;

use super::{
    Dispatch, Event, Position,
    closing::Next,
    frame::{Frame, Said},
    pulse::Pulse,
};

/// What a frame or a heartbeat leads to.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Nothing,
    Say(Said),
    /// This is handed on.
    Tell(Event),
    /// The connection is left, for this reason.
    Leave(Next, &'static str),
}

pub(super) struct Talk {
    content: bool,
    /// The server that has told where to connect to.
    server: Arc<str>,
    position: Option<Position>,
    /// How long a hello is waited for, and then the session or the next of the events that come before it goes on.
    patience: Duration,
    until: Instant,
    pulse: Option<Pulse>,
    began: Option<Instant>,
    is_established: bool,
    went_on: bool,
    has_lasted: bool,
}

impl Talk {
    /// Before the first frame. With a position the session goes on there, else a new one begins; each word of
    /// that comes within `patience`.
    pub(super) fn new(
        content: bool,
        server: Arc<str>,
        position: Option<Position>,
        now: Instant,
        patience: Duration,
    ) -> Self {
        Self {
            content,
            server,
            position,
            patience,
            until: now + patience,
            pulse: None,
            began: None,
            is_established: false,
            went_on: false,
            has_lasted: false,
        }
    }

    /// Where the session stands.
    pub(super) fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// When a new session was asked for.
    pub(super) fn began(&self) -> Option<Instant> {
        self.began
    }

    /// Whether the session has begun, or goes on.
    pub(super) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Whether events came that were not known before.
    pub(super) fn went_on(&self) -> bool {
        self.went_on
    }

    /// Whether it went on for at least one heartbeat that was heard.
    pub(super) fn has_lasted(&self) -> bool {
        self.has_lasted
    }

    /// When [`Talk::beat`] is to be called.
    pub(super) fn due(&self) -> Instant {
        match &self.pulse {
            Some(pulse) if self.is_established => pulse.due(),
            Some(pulse) => pulse.due().min(self.until),
            None => self.until,
        }
    }

    /// The time is up. `reading` is whether frames are being read at the moment.
    pub(super) fn beat(&mut self, now: Instant, reading: bool) -> Step {
        let Some(pulse) = &mut self.pulse else { return Step::Leave(Next::Resume, "no hello arrived") };
        if !self.is_established && now >= self.until {
            if reading {
                return Step::Leave(Next::Resume, "identifying got no session");
            }
            self.until = now + self.patience;
        }
        if now < pulse.due() {
            return Step::Nothing;
        }
        if pulse.beat(now, reading) {
            Step::Say(self.heartbeat())
        } else {
            Step::Leave(Next::Resume, "no heartbeat ack arrived")
        }
    }

    /// A frame has come. `part` of the interval passes before the first heartbeat.
    pub(super) fn hear(&mut self, frame: Frame, now: Instant, part: f64) -> Step {
        if let Some(pulse) = &mut self.pulse {
            pulse.came();
        }
        match frame {
            Frame::Hello { interval } => {
                if self.pulse.is_some() {
                    return Step::Nothing;
                }
                self.pulse = Some(Pulse::new(now, interval, part));
                self.until = now + self.patience;
                self.began = self.position.is_none().then_some(now);
                Step::Say(match &self.position {
                    Some(position) => Said::Resume(position.clone()),
                    None => Said::Identify { content: self.content },
                })
            }
            Frame::BeatNow => Step::Say(self.heartbeat()),
            Frame::Heard => {
                self.has_lasted |= self.is_established;
                if let Some(pulse) = &mut self.pulse {
                    pulse.heard();
                }
                Step::Nothing
            }
            Frame::Reconnect => Step::Leave(Next::Resume, "Discord requested a reconnect"),
            Frame::Invalid { resumable } => {
                let next = if resumable && self.position.is_some() { Next::Resume } else { Next::Anew };
                Step::Leave(next, "Discord invalidated the session")
            }
            Frame::Dispatch { seq, name, data } => self.happened(seq, name, data, now),
            Frame::Other => Step::Nothing,
        }
    }

    fn happened(&mut self, seq: u64, name: String, data: Value, now: Instant) -> Step {
        if name == "READY" {
            let text = |field| data.get(field).and_then(Value::as_str);
            let (Some(session_id), Some(resume_url)) = (text("session_id"), text("resume_gateway_url")) else {
                return Step::Leave(Next::Anew, "a session without a name, or without an address to go on at");
            };
            let (session_id, resume_url) = (session_id.into(), resume_url.into());
            let server = Arc::clone(&self.server);
            self.position = Some(Position { server, session_id, resume_url, seq, content: self.content });
        }
        self.is_established |= name == "READY" || name == "RESUMED";
        let Some(position) = &mut self.position else {
            return Step::Leave(Next::Anew, "an event of no session");
        };
        self.went_on |= seq > position.seq;
        position.seq = seq;
        self.until = now + self.patience;
        Step::Tell(Event::Dispatch(Dispatch { position: position.clone(), name, data }))
    }

    fn heartbeat(&self) -> Said {
        Said::Heartbeat(self.position.as_ref().map(|position| position.seq))
    }
}

#[cfg(test)]
mod tests;
