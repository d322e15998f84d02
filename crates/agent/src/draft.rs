//! The text of a reply while the model writes it: deltas on the bus, and what its draft shows.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use satchel_domain::{
    ConversationId, MessageRef, TurnId,
    markdown::{append_paragraph, trim_blank_edges},
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
    draft: DraftHandle,
}

impl DeltaSink {
    /// Begins to show a turn's reply as the channel can.
    #[must_use]
    pub fn new(services: &AgentServices, lane: &LaneHandle, turn: &QueuedTurn) -> Self {
        Self {
            bus: Arc::clone(&services.bus),
            conversation: lane.lease.conversation.clone(),
            turn: turn.id,
            message: AtomicU32::new(0),
            draft: lane.delivery.open_draft(turn.id, reply_to(turn), turn.draft.clone()),
        }
    }

    /// A new message of the model begins; what it writes takes the place of what the draft shows.
    pub fn start_message(&self, message: u32) {
        self.message.store(message, Ordering::Relaxed);
    }

    /// Shows a task of a run that begins, in place of what the one before it wrote.
    pub fn show_task(&self, task: &str, number: usize, total: usize) {
        self.draft.update(|text| *text = format!("… {task} ({number} of {total})"));
    }

    /// Shows the tools that run until the model writes on, below what it wrote before it asked for them.
    pub fn show_tools(&self, written: &str, tools: &[&str]) {
        let progress = format!("… {}", tools.join(", "));
        self.draft.update(|text| *text = append_paragraph(trim_blank_edges(written), &progress));
    }

    /// Passes on a delta; `all` is the model's message so far.
    pub async fn push_delta(&self, delta: &str, all: &str) {
        self.draft.update(|text| {
            if all.len() == delta.len() {
                text.clear();
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
