//! The jobs of a channel in the order in which they are stored, and the events that a backfill has made obsolete. Pure.

use std::collections::{BTreeMap, VecDeque};

use serenity::model::Timestamp;

use super::{checkpoint::InFlightId, store::StoreJob};

/// How many edited messages of the history are remembered. The events of their edits arrive within seconds.
const MAX_TRACKED_EDITS: usize = 10_000;

/// What is to be stored of a channel, in order.
#[derive(Debug, Default)]
pub(super) struct ChannelQueue {
    /// Whether a job is being stored.
    pub(super) is_busy: bool,
    /// What arrived before the backfill started.
    before: VecDeque<(InFlightId, StoreJob)>,
    /// The page of the history that is being stored.
    backfill: VecDeque<StoreJob>,
    waiting: VecDeque<(InFlightId, StoreJob)>,
}

impl ChannelQueue {
    pub(super) fn push(&mut self, id: InFlightId, job: StoreJob) {
        self.waiting.push_back((id, job));
    }

    /// Starts a backfill: what has arrived so far is stored before it.
    pub(super) fn start_backfill(&mut self) {
        self.before.append(&mut self.waiting);
    }

    pub(super) fn set_backfill(&mut self, jobs: VecDeque<StoreJob>) {
        self.backfill = jobs;
    }

    pub(super) fn is_backfill_done(&self) -> bool {
        self.backfill.is_empty()
    }

    /// Removes the next job. While the channel `is_blocked` by its backfill, what has arrived since waits.
    pub(super) fn pop(&mut self, is_blocked: bool) -> Option<(Option<InFlightId>, StoreJob)> {
        if let Some((id, job)) = self.before.pop_front() {
            return Some((Some(id), job));
        }
        if let Some(job) = self.backfill.pop_front() {
            return Some((None, job));
        }
        let (id, job) = if is_blocked { None } else { self.waiting.pop_front() }?;
        Some((Some(id), job))
    }

    /// Removes what waits and is covered by the history.
    pub(super) fn drain_covered(&mut self, edited: &EditedMessages) -> Vec<InFlightId> {
        let mut covered = Vec::new();
        self.waiting.retain(|(id, job)| {
            let is_covered = edited.covers(job);
            if is_covered {
                covered.push(*id);
            }
            !is_covered
        });
        covered
    }
}

/// Messages that the history returned in their state after an edit. Their earlier events are obsolete: each would become
/// a message of its own.
#[derive(Debug, Default)]
pub(super) struct EditedMessages(BTreeMap<u64, String>);

impl EditedMessages {
    /// Records a job of the history.
    pub(super) fn record(&mut self, job: &StoreJob) {
        let Some((message, Some(edited_at))) = job.version() else { return };
        if self.0.get(&message).is_none_or(|recorded| is_not_after(recorded, edited_at)) {
            self.0.insert(message, edited_at.to_owned());
        }
        if self.0.len() > MAX_TRACKED_EDITS {
            self.0.pop_first();
        }
    }

    /// Whether a job contains a recorded message in the same or an earlier state.
    pub(super) fn covers(&self, job: &StoreJob) -> bool {
        let Some((message, edited_at)) = job.version() else { return false };
        self.0.get(&message).is_some_and(|recorded| edited_at.is_none_or(|edited_at| is_not_after(edited_at, recorded)))
    }
}

/// Compares two times as Discord writes them.
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
    use crate::inbound::checkpoint::{GatewayCheckpoint, WatermarkTracker};

    const FIRST: &str = "2026-11-22T09:01:00+00:00";
    const SECOND: &str = "2026-11-22T09:01:00.250000+00:00";

    fn accept(message: u64, edited: Option<&str>) -> StoreJob {
        let id = message.to_string();
        let key = edited.map_or_else(|| id.clone(), |at| format!("{id}:{at}"));
        let message = InboundMessage::new("discord:1".parse().unwrap(), key, Sender::new("7", "Ada"));
        let message = InboundMessage { edit_of: edited.map(|_| id.clone()), message: Some(MessageRef(id)), ..message };
        StoreJob::Accept(Box::new(message), None)
    }

    fn unresolved(name: &str, data: Value) -> StoreJob {
        StoreJob::Unresolved { channel: 1, name: name.to_owned(), data, has_message_content: true }
    }

    #[test]
    fn edit_in_history_covers_earlier_events() {
        let mut edited = EditedMessages::default();
        edited.record(&accept(1, None));
        assert!(!edited.covers(&accept(1, None)), "it was never edited");
        edited.record(&accept(1, Some(SECOND)));
        edited.record(&accept(1, Some(FIRST)));
        for (job, is_covered) in [
            (accept(1, None), true),
            (accept(1, Some(FIRST)), true),
            (accept(1, Some(SECOND)), true),
            (accept(1, Some("2026-11-22T09:01:01+00:00")), false),
            (accept(1, Some("later")), false),
            (accept(2, None), false),
            (unresolved("MESSAGE_CREATE", json!({ "id": "1" })), true),
            (unresolved("MESSAGE_UPDATE", json!({ "id": "1", "edited_timestamp": FIRST })), true),
            (unresolved("MESSAGE_UPDATE", json!({ "id": "1", "edited_timestamp": "2027-01-01T00:00:00Z" })), false),
            (unresolved("MESSAGE_UPDATE", json!({ "id": "1" })), false),
        ] {
            assert_eq!(edited.covers(&job), is_covered, "{job:?}");
        }
    }

    #[test]
    fn only_jobs_behind_the_backfill_are_covered() {
        let mut tracker = WatermarkTracker::from_checkpoint(GatewayCheckpoint::starting_at(0));
        let mut queue = ChannelQueue::default();
        let ids = [1, 2, 1].map(|message| (tracker.begin(None), message));
        for (id, message) in ids {
            queue.push(id, accept(message, None));
            if id == ids[0].0 {
                queue.start_backfill();
            }
        }
        let mut edited = EditedMessages::default();
        edited.record(&accept(1, Some(FIRST)));
        assert_eq!(queue.drain_covered(&edited), [ids[2].0]);
        let left: Vec<Option<InFlightId>> = std::iter::from_fn(|| queue.pop(false)).map(|(id, _)| id).collect();
        assert_eq!(left, [Some(ids[0].0), Some(ids[1].0)]);
    }
}
