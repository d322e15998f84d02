//! A session: its own numbers for its events, those buffered for whoever resumes it, and where it is connected.

use std::collections::VecDeque;

use serde_json::Value;
use tokio::time::Instant;

use crate::gateway::{connection::ConnectionCommand, frame, intents};

/// The stream of events that one IDENTIFY began.
#[derive(Debug)]
pub(crate) struct FakeSession {
    pub(crate) intents: u64,
    /// The connection that hears of it now, and the way there.
    pub(crate) connection: Option<(u64, tokio::sync::mpsc::UnboundedSender<ConnectionCommand>)>,
    /// Since when nobody hears of it.
    pub(crate) disconnected_at: Option<Instant>,
    /// What happened before the client was told how things stand: it is told after that.
    early: Option<Vec<(String, Value)>>,
    last: u64,
    buffered: VecDeque<(u64, String)>,
    capacity: usize,
}

impl FakeSession {
    pub(crate) fn new(intents: u64, capacity: usize) -> Self {
        let early = Some(Vec::new());
        Self { intents, connection: None, disconnected_at: None, early, last: 0, buffered: VecDeque::new(), capacity }
    }

    /// Tells of an event if the intents let it through. Returns whether it went out on a connection.
    pub(crate) fn dispatch(&mut self, name: &str, data: Value) -> bool {
        if !intents::lets_through(self.intents, name, &data) {
            return false;
        }
        if let Some(early) = &mut self.early {
            early.push((name.to_owned(), data));
            return false;
        }
        self.number(name, &data)
    }

    /// Tells how things stand, and then what has happened meanwhile. Returns how many events went out.
    pub(crate) fn start(&mut self, state: &[(&str, Value)]) -> u64 {
        let meanwhile = self.early.take().unwrap_or_default();
        let mut told = 0;
        for (name, data) in state {
            told += u64::from(intents::lets_through(self.intents, name, data) && self.number(name, data));
        }
        for (name, data) in meanwhile {
            told += u64::from(self.number(&name, &data));
        }
        told
    }

    fn number(&mut self, name: &str, data: &Value) -> bool {
        self.last += 1;
        let event = frame::dispatch(name, self.last, data);
        if self.buffered.len() == self.capacity {
            self.buffered.pop_front();
        }
        self.buffered.push_back((self.last, event.clone()));
        self.send(event)
    }

    fn send(&self, event: String) -> bool {
        self.connection.as_ref().is_some_and(|(_, commands)| commands.send(ConnectionCommand::Send(event)).is_ok())
    }

    /// Whether a client that has seen the events up to this one can have the rest.
    pub(crate) fn can_resume(&self, seen: u64) -> bool {
        self.buffered.front().is_none_or(|(first, _)| seen + 1 >= *first)
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Tells a client that has come back what it has missed, and that this was all. Returns how many events it missed.
    pub(crate) fn replay(&mut self, seen: u64) -> u64 {
        let missed: Vec<_> = self.buffered.iter().filter(|(number, _)| *number > seen).cloned().collect();
        let count = missed.len() as u64;
        for (_, event) in missed {
            self.send(event);
        }
        self.number("RESUMED", &serde_json::json!({ "_trace": ["fake-gateway"] }));
        count
    }

    /// Leaves the connection, which may come back for the session.
    pub(crate) fn disconnect(&mut self, now: Instant) {
        self.connection = None;
        self.disconnected_at = Some(now);
    }
}
