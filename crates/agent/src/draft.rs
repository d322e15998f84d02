//! The text of a reply while the model writes it: deltas on the bus, and what its draft shows.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use satchel_domain::{
    ConversationId, MessageRef, TurnId,
    capabilities::StreamRule,
    fold::{InterimText, join_texts},
    markdown::{append_paragraph, start_paragraph, trim_blank_edges},
};
use satchel_ports::{BusEvent, EventBus, ledger::QueuedTurn};
use satchel_routing::deliver::DraftHandle;

use crate::{AgentServices, LaneHandle};

/// Where the model's deltas go as they come.
pub struct DeltaSink {
    bus: Arc<dyn EventBus>,
    conversation: ConversationId,
    turn: TurnId,
    message: AtomicU32,
    interim_text: InterimText,
    /// What stands above the message that the model writes.
    above: Mutex<String>,
    draft: DraftHandle,
}

impl DeltaSink {
    /// Begins to show a turn's reply as the channel can.
    #[must_use]
    pub fn new(services: &AgentServices, lane: &LaneHandle, turn: &QueuedTurn, interim_text: InterimText) -> Self {
        Self {
            bus: Arc::clone(&services.bus),
            conversation: lane.lease.conversation.clone(),
            turn: turn.id,
            message: AtomicU32::new(0),
            interim_text,
            above: Mutex::default(),
            draft: lane.delivery.open_draft(turn.id, reply_to(turn), turn.draft.clone()),
        }
    }

    /// A new message of the model begins, after those with these texts. Its text takes the place of the tools that
    /// the draft shows, and that of the texts where they aren't part of the reply.
    pub fn start_message(&self, message: u32, earlier: &[&str]) {
        self.message.store(message, Ordering::Relaxed);
        *self.above.lock().unwrap_or_else(PoisonError::into_inner) = match self.interim_text {
            InterimText::Keep => start_paragraph(&join_texts(earlier.iter().copied())),
            InterimText::Last => String::new(),
        };
    }

    /// Shows a task of a run that begins, in place of what the one before it wrote.
    pub fn show_task(&self, task: &str, number: usize, total: usize) {
        self.draft.update_in_message(|text| *text = format!("… {task} ({number} of {total})"));
    }

    /// Shows the tools that run until the model writes on, below the texts that it wrote before it asked for them.
    pub fn show_tools(&self, written: &[&str], tools: &[&str]) {
        let progress = format!("… {}", tools.join(", "));
        let written = match self.interim_text {
            InterimText::Keep => join_texts(written.iter().copied()),
            InterimText::Last => written.last().map_or_else(String::new, |last| trim_blank_edges(last).to_owned()),
        };
        self.draft.update_in_message(|text| *text = append_paragraph(&written, &progress));
    }

    /// Passes on a delta; `all` is the model's message so far.
    pub async fn push_delta(&self, delta: &str, all: &str) {
        self.draft.update(|text| {
            if all.len() == delta.len() {
                self.above.lock().unwrap_or_else(PoisonError::into_inner).clone_into(text);
            }
            text.push_str(delta);
        });
        let event = BusEvent::TextDelta {
            conversation: self.conversation.clone(),
            turn: self.turn,
            message: self.message.load(Ordering::Relaxed),
            text: delta.to_owned(),
        };
        // Deltas are lossy by contract; the text itself is in the turn.
        let _ = self.bus.publish(event).await;
    }

    /// Takes back what the model has written, unless something of it is recorded or shown: by a draft or a preview, or by a channel
    /// that shows each delta. Returns whether it did; then nothing of it will be shown.
    pub async fn withdraw(&self, stream: StreamRule) -> bool {
        let is_shown_at_once = stream == StreamRule::Deltas && self.draft.has_text();
        !is_shown_at_once && self.draft.withdraw().await
    }

    /// Ends the growth, once no edit is in flight.
    pub async fn finish(self) {
        self.draft.finish().await;
    }
}

/// The person's message that a turn answers.
#[must_use]
pub fn reply_to(turn: &QueuedTurn) -> Option<MessageRef> {
    turn.messages.first().and_then(|queued| queued.message.message.clone())
}

#[cfg(test)]
mod tests;
