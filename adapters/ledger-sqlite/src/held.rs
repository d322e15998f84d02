//! What this process knows of the lanes that it holds, so that a turn needn't read the history that the last one wrote.
//!
//! Only a lane's owner completes its turns and changes its history, and its token goes up by one with every claim and
//! every change of its name. What is known under one token is so while the lease lives, and is so again under the very
//! next token if that is this process's own too: nobody can have come between. Writes never go by this, they look at
//! the lease and at all else themselves; it only tells which of them to try in one trip.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use satchel_domain::{ConversationId, HistoryMessage, PartId};
use satchel_ports::ledger::{HistoryChange, Lease};

/// How many bytes of histories are kept, about; those used last stay.
const ROOM: usize = 4 << 20;

/// What a lane, a message and a file's record take besides words, about.
const LANE: usize = 512;
const MESSAGE: usize = 128;
const RECORD: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Held {
    lanes: Mutex<Lanes>,
}

#[derive(Debug, Default)]
struct Lanes {
    of: HashMap<ConversationId, Lane>,
    clock: u64,
    /// The room that all histories take.
    bytes: usize,
}

#[derive(Debug)]
struct Lane {
    token: u64,
    /// Until when nobody else can have the lane; `None` once it was given back.
    until: Option<Instant>,
    history: Option<History>,
    /// Whether the turn that is worked on has a draft or asks, or the one before has found something under way.
    crowded: bool,
    /// The part that is being sent, where nothing was to be done behind it when it was begun.
    last: Option<PartId>,
    /// Whether a turn is being completed, so that nobody knows what is read.
    completing: bool,
    /// How often the history was changed, so that one which was read before a change isn't taken for what is there.
    changes: u64,
    used: u64,
}

/// The end of a history.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct History {
    messages: Vec<HistoryMessage>,
    bytes: usize,
    /// How many messages were asked for: where there are fewer, these are all.
    limit: usize,
}

/// What a history that is being read will be good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    token: u64,
    changes: u64,
}

#[derive(Debug, PartialEq)]
pub(crate) enum CachedHistory {
    Messages(Vec<HistoryMessage>),
    /// It must be read; and may be kept, where the lane is held.
    Nothing(Option<Reading>),
}

impl Held {
    /// A lane was claimed, and is this process's at least until then.
    pub(crate) fn claimed(&self, lease: &Lease, until: Instant) {
        let mut lanes = self.lanes();
        let used = lanes.tick();
        let before = lanes.of.get_mut(&lease.conversation);
        if let Some(lane) = before.filter(|lane| lane.token + 1 == lease.token) {
            (lane.token, lane.until, lane.used) = (lease.token, Some(until), used);
            (lane.crowded, lane.last) = (false, None);
            (lane.completing, lane.changes) = (false, lane.changes + 1);
            return;
        }
        lanes.evict(&lease.conversation);
        let lane = Lane {
            token: lease.token,
            until: Some(until),
            crowded: false,
            last: None,
            history: None,
            completing: false,
            changes: 0,
            used,
        };
        lanes.of.insert(lease.conversation.clone(), lane);
    }

    /// Leases were renewed, but for those that are lost.
    pub(crate) fn renewed(&self, leases: &[Lease], lost: &[Lease], until: Instant) {
        let mut lanes = self.lanes();
        for lease in leases {
            if lost.contains(lease) {
                lanes.evict(&lease.conversation);
            } else if let Some(lane) = lanes.of.get_mut(&lease.conversation).filter(|lane| lane.is_of(lease)) {
                lane.until = Some(until);
            }
        }
        // Whoever worked on these is gone and gave nothing back.
        let run_out = lanes.of.iter().filter(|(_, lane)| lane.until.is_some() && !lane.is_held());
        for conversation in run_out.map(|(conversation, _)| conversation.clone()).collect::<Vec<_>>() {
            lanes.evict(&conversation);
        }
    }

    /// A lane was given back, or is about to be.
    pub(crate) fn given_back(&self, lease: &Lease) {
        let mut lanes = self.lanes();
        let Some(lane) = lanes.of.get_mut(&lease.conversation).filter(|lane| lane.is_of(lease)) else { return };
        (lane.until, lane.last) = (None, None);
        if lane.history.is_none() {
            lanes.evict(&lease.conversation);
        }
    }

    /// Evicts a conversation from the cache.
    pub(crate) fn evict(&self, conversation: &ConversationId) {
        self.lanes().evict(conversation);
    }

    /// Something has come to be done behind the part that is being sent.
    pub(crate) fn expect_more(&self, conversation: &ConversationId) {
        if let Some(lane) = self.lanes().of.get_mut(conversation) {
            lane.last = None;
        }
    }

    /// The turn that is worked on has a draft, or asks a person.
    pub(crate) fn crowd(&self, lease: &Lease) {
        if let Some(lane) = self.lanes().of.get_mut(&lease.conversation).filter(|lane| lane.is_of(lease)) {
            lane.crowded = true;
        }
    }

    /// Whether nothing stands in the way of the turn that is worked on, as far as is known.
    pub(crate) fn is_quiet(&self, lease: &Lease) -> bool {
        self.lanes().of.get(&lease.conversation).is_some_and(|lane| lane.is_of(lease) && !lane.crowded)
    }

    /// A turn was completed with so many parts, and one of them was begun unless something was under way.
    pub(crate) fn completed(&self, lease: &Lease, begun: Option<PartId>, parts: usize) {
        if let Some(lane) = self.lanes().of.get_mut(&lease.conversation).filter(|lane| lane.is_of(lease)) {
            (lane.crowded, lane.last) = (begun.is_none(), begun.filter(|_| parts == 1));
        }
    }

    /// Whether a part is being sent behind which nothing has come to be done, as far as is known.
    pub(crate) fn is_last(&self, lease: &Lease, part: PartId) -> bool {
        let lanes = self.lanes();
        lanes.of.get(&lease.conversation).is_some_and(|lane| lane.is_of(lease) && lane.last == Some(part))
    }

    /// The last messages of a conversation.
    pub(crate) fn history(&self, conversation: &ConversationId, limit: u32) -> CachedHistory {
        let mut lanes = self.lanes();
        let used = lanes.tick();
        let Some(lane) = lanes.of.get_mut(conversation).filter(|lane| lane.is_held()) else {
            return CachedHistory::Nothing(None);
        };
        lane.used = used;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match &lane.history {
            _ if lane.completing => CachedHistory::Nothing(None),
            Some(history) if history.limit >= limit => CachedHistory::Messages(history.last(limit).to_vec()),
            _ => CachedHistory::Nothing(Some(Reading { token: lane.token, changes: lane.changes })),
        }
    }

    /// Keeps what was read, unless the lane has another owner or history by now.
    pub(crate) fn learn(
        &self,
        conversation: &ConversationId,
        reading: Reading,
        messages: &[HistoryMessage],
        limit: u32,
    ) {
        let mut lanes = self.lanes();
        let Some(lane) = lanes.of.get_mut(conversation) else { return };
        if lane.is_held() && reading == (Reading { token: lane.token, changes: lane.changes }) {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            lanes.keep(conversation, History::new(messages.to_vec(), limit));
        }
    }

    /// Takes the history of a lane whose turn is being completed: until that is done, nobody knows it.
    pub(crate) fn take_history(&self, lease: &Lease) -> Option<History> {
        let mut lanes = self.lanes();
        let lane = lanes.of.get_mut(&lease.conversation)?;
        lane.completing = true;
        lane.changes += 1;
        let of_lease = lane.is_of(lease);
        lanes.take_history(&lease.conversation).filter(|_| of_lease)
    }

    /// The completion has ended: keeps the history that was taken, with what the turn has done to it, or nothing where
    /// that is not known.
    pub(crate) fn put_history(&self, lease: &Lease, history: Option<History>, change: Option<HistoryChange>) {
        let history = history.zip(change).map(|(history, change)| history.changed(change));
        let mut lanes = self.lanes();
        let Some(lane) = lanes.of.get_mut(&lease.conversation).filter(|lane| lane.is_of(lease)) else { return };
        lane.completing = false;
        lane.changes += 1;
        if let Some(history) = history {
            lanes.keep(&lease.conversation, history);
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lanes {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn evict(&mut self, conversation: &ConversationId) {
        self.take_history(conversation);
        self.of.remove(conversation);
    }

    fn take_history(&mut self, conversation: &ConversationId) -> Option<History> {
        let history = self.of.get_mut(conversation)?.history.take()?;
        self.bytes -= history.bytes;
        Some(history)
    }

    /// Keeps a history, and as many of the others as there is room for.
    fn keep(&mut self, conversation: &ConversationId, history: History) {
        self.take_history(conversation);
        let bytes = history.bytes;
        if bytes > ROOM / 4 {
            return;
        }
        while self.bytes + bytes > ROOM {
            let others = self.of.iter().filter(|(_, lane)| lane.history.is_some());
            let Some(oldest) = others.min_by_key(|(_, lane)| lane.used).map(|(oldest, _)| oldest.clone()) else {
                break;
            };
            self.take_history(&oldest);
            if self.of.get(&oldest).is_some_and(|lane| !lane.is_held()) {
                self.of.remove(&oldest);
            }
        }
        if let Some(lane) = self.of.get_mut(conversation) {
            lane.history = Some(history);
            self.bytes += bytes;
        }
    }
}

impl Lane {
    fn is_of(&self, lease: &Lease) -> bool {
        self.token == lease.token
    }

    fn is_held(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

impl History {
    fn new(messages: Vec<HistoryMessage>, limit: usize) -> Self {
        let bytes = LANE + messages.iter().map(size).sum::<usize>();
        Self { messages, bytes, limit }
    }

    fn changed(mut self, change: HistoryChange) -> Self {
        match change {
            HistoryChange::Append(messages) => {
                self.append(messages);
                self
            }
            HistoryChange::Reset => Self::new(Vec::new(), self.limit),
        }
    }

    fn last(&self, limit: usize) -> &[HistoryMessage] {
        &self.messages[self.messages.len().saturating_sub(limit)..]
    }

    fn append(&mut self, messages: Vec<HistoryMessage>) {
        self.bytes += messages.iter().map(size).sum::<usize>();
        self.messages.extend(messages);
        let gone = self.messages.len().saturating_sub(self.limit);
        self.bytes -= self.messages.drain(..gone).map(|message| size(&message)).sum::<usize>();
    }
}

/// What a message takes, about.
fn size(message: &HistoryMessage) -> usize {
    MESSAGE
        + match message {
            HistoryMessage::Person { text, attachments, refused, .. } => {
                text.len() + RECORD * (attachments.len() + refused.len())
            }
            HistoryMessage::Model { text, calls } => {
                text.len() + calls.iter().map(|call| MESSAGE + call.arguments.to_string().len()).sum::<usize>()
            }
            HistoryMessage::Tool { text, attachments, .. } => text.len() + RECORD * attachments.len(),
            HistoryMessage::Note { text } => text.len(),
        }
}

#[cfg(test)]
mod tests;
