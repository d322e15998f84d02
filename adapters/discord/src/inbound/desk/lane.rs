//! What is to be stored of a channel, one after the other.

use std::collections::{BTreeMap, VecDeque};

use serenity::model::Timestamp;

use super::store::Job;
use crate::inbound::marks::Ticket;

/// How many edited messages are kept in mind that history has told. Their events come within seconds.
const MOST_EDITED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Whether something of it is being stored.
    pub(super) is_busy: bool,
    /// What had come before history was asked.
    before: VecDeque<(Ticket, Job)>,
    missed: VecDeque<Job>,
    waiting: VecDeque<(Ticket, Job)>,
}

impl Lane {
    pub(super) fn push(&mut self, ticket: Ticket, job: Job) {
        self.waiting.push_back((ticket, job));
    }

    /// History is going to be asked: what has come so far goes before what it tells.
    pub(super) fn history_is_asked(&mut self) {
        self.before.append(&mut self.waiting);
    }

    /// History has told this.
    pub(super) fn was_missed(&mut self, jobs: VecDeque<Job>) {
        self.missed = jobs;
    }

    /// Whether nothing of what history told is left.
    pub(super) fn has_stored_what_was_missed(&self) -> bool {
        self.missed.is_empty()
    }

    /// What is next. While history is being read what comes `waits`.
    pub(super) fn next(&mut self, waits: bool) -> Option<(Option<Ticket>, Job)> {
        if let Some((ticket, job)) = self.before.pop_front() {
            return Some((Some(ticket), job));
        }
        if let Some(job) = self.missed.pop_front() {
            return Some((None, job));
        }
        let (ticket, job) = if waits { None } else { self.waiting.pop_front() }?;
        Some((Some(ticket), job))
    }

    /// Takes out what waits though history has told it, as it has become since.
    pub(super) fn take_told(&mut self, edited: &Edited) -> Vec<Ticket> {
        let mut told = Vec::new();
        self.waiting.retain(|(ticket, job)| {
            let is_told = edited.covers(job);
            if is_told {
                told.push(*ticket);
            }
            !is_told
        });
        told
    }
}

/// The messages that history has told as they were after an edit. Events of the time before say nothing more: each
/// would be a message of its own beside what they have become.
#[derive(Debug, Default)]
pub(super) struct Edited(BTreeMap<u64, String>);

impl Edited {
    /// History has told this.
    pub(super) fn told(&mut self, job: &Job) {
        let Some((message, Some(at))) = job.version() else { return };
        if self.0.get(&message).is_none_or(|known| is_not_after(known, at)) {
            self.0.insert(message, at.to_owned());
        }
        if self.0.len() > MOST_EDITED {
            self.0.pop_first();
        }
    }

    /// Whether something tells of a message as it was before, or as it is known.
    pub(super) fn covers(&self, job: &Job) -> bool {
        let Some((message, at)) = job.version() else { return false };
        self.0.get(&message).is_some_and(|known| at.is_none_or(|at| is_not_after(at, known)))
    }
}

/// Whether one time is not after another, both as Discord writes them.
fn is_not_after(one: &str, other: &str) -> bool {
    match (Timestamp::parse(one), Timestamp::parse(other)) {
        (Ok(one), Ok(other)) => one <= other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use satchel_domain::{InboundMessage, MessageRef, Sender};
    use serde_json::{Value, json};

    use super::*;
    use crate::inbound::{bookmark::Bookmark, marks::Marks};

    const FIRST: &str = "2026-11-22T09:01:00+00:00";
    const SECOND: &str = "2026-11-22T09:01:00.250000+00:00";

    fn said(message: u64, edited: Option<&str>) -> Job {
        let id = message.to_string();
        let key = edited.map_or_else(|| id.clone(), |at| format!("{id}:{at}"));
        let said = InboundMessage::new("discord:1".parse().unwrap(), key, Sender::new("7", "Ada"));
        let said = InboundMessage { edit_of: edited.map(|_| id.clone()), message: Some(MessageRef(id)), ..said };
        Job::Accept(Box::new(said), None)
    }

    fn of_unknown(name: &str, data: Value) -> Job {
        Job::Unknown { channel: 1, name: name.to_owned(), data, content: true }
    }

    #[test]
    fn what_an_edit_has_overtaken_is_told() {
        let mut edited = Edited::default();
        edited.told(&said(1, None));
        assert!(!edited.covers(&said(1, None)), "it was never edited");
        edited.told(&said(1, Some(SECOND)));
        edited.told(&said(1, Some(FIRST)));
        for (job, is_told) in [
            (said(1, None), true),
            (said(1, Some(FIRST)), true),
            (said(1, Some(SECOND)), true),
            (said(1, Some("2026-11-22T09:01:01+00:00")), false),
            (said(1, Some("later")), false),
            (said(2, None), false),
            (of_unknown("MESSAGE_CREATE", json!({ "id": "1" })), true),
            (of_unknown("MESSAGE_UPDATE", json!({ "id": "1", "edited_timestamp": FIRST })), true),
            (of_unknown("MESSAGE_UPDATE", json!({ "id": "1", "edited_timestamp": "2027-01-01T00:00:00Z" })), false),
            (of_unknown("MESSAGE_UPDATE", json!({ "id": "1" })), false),
        ] {
            assert_eq!(edited.covers(&job), is_told, "{job:?}");
        }
    }

    #[test]
    fn only_what_waits_for_history_is_taken_out() {
        let mut marks = Marks::at(Bookmark::beginning(0));
        let mut lane = Lane::default();
        let tickets = [1, 2, 1].map(|message| (marks.open(None), message));
        for (ticket, message) in tickets {
            lane.push(ticket, said(message, None));
            if ticket == tickets[0].0 {
                lane.history_is_asked();
            }
        }
        let mut edited = Edited::default();
        edited.told(&said(1, Some(FIRST)));
        assert_eq!(lane.take_told(&edited), [tickets[2].0]);
        let left: Vec<Option<Ticket>> = std::iter::from_fn(|| lane.next(false)).map(|(ticket, _)| ticket).collect();
        assert_eq!(left, [Some(tickets[0].0), Some(tickets[1].0)]);
    }
}
