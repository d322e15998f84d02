//! Counts the events of the bus, and opens a span for each turn. Events are counted where they are published: a
//! subscriber may lose events or get them twice.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use satchel_domain::{TurnId, part::FailureReason};
use satchel_ports::{BusError, BusEvent, EventBus, event_bus::EventStream};
use tracing::{Span, field::Empty};

use super::{ChannelLabels, Metrics, PartLabels, TurnLabels, label_value};

const ENDINGS: [&str; 6] = ["done", "budget", "cancelled", "model_failed", "failed", "crashed"];
pub(super) const KINDS: [&str; 7] = ["text", "voice", "file", "album", "notice", "question", "delete"];
const STATES: [&str; 8] = ["pending", "sending", "waiting", "in_doubt", "open", "sent", "failed", "replaced"];

/// How many turns are tracked at once. The turn of a message that was injected into another one never completes.
const MAX_TRACKED_TURNS: usize = 1_000;

/// A bus that counts.
pub struct MeasuredBus {
    inner: Arc<dyn EventBus>,
    metrics: Arc<Metrics>,
    /// The spans of running turns, if spans are collected.
    turns: Mutex<HashMap<TurnId, Span>>,
}

impl MeasuredBus {
    /// Counts the events that are published on `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn EventBus>, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics, turns: Mutex::default() }
    }

    /// Opens a turn's span when its message is stored, and closes it with the turn.
    fn track_turn(&self, event: &BusEvent) {
        let turns = || self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            BusEvent::MessageReceived { conversation, turn } => {
                let span = tracing::debug_span!("turn", turn.id = %turn, chat.id = %conversation, ending = Empty);
                if !span.is_disabled() {
                    let mut turns = turns();
                    if turns.len() >= MAX_TRACKED_TURNS {
                        turns.clear();
                    }
                    turns.entry(*turn).or_insert(span);
                }
            }
            BusEvent::TurnCompleted { turn, ending, .. } => {
                if let Some(span) = turns().remove(turn) {
                    span.record("ending", label_value(ending, &ENDINGS));
                }
            }
            _ => {}
        }
    }

    fn record_event(&self, event: &BusEvent) {
        let channel = self.metrics.channel_label(event.conversation().channel().as_str());
        match event {
            BusEvent::MessageReceived { .. } => {
                self.metrics.messages.get_or_create(&ChannelLabels { channel }).inc();
            }
            BusEvent::TurnCompleted { ending, .. } => {
                let ending = label_value(ending, &ENDINGS);
                self.metrics.turns.get_or_create(&TurnLabels { channel, ending }).inc();
            }
            // Nothing of it was to be delivered any more.
            BusEvent::DeliveryPart { reason: Some(FailureReason::NotNeeded), .. } => {}
            BusEvent::DeliveryPart { kind, state, .. } => {
                let (kind, state) = (label_value(kind, &KINDS), label_value(state, &STATES));
                self.metrics.parts.get_or_create(&PartLabels { channel, kind, state }).inc();
            }
            BusEvent::TextDelta { .. }
            | BusEvent::TaskStarted { .. }
            | BusEvent::ToolStarted { .. }
            | BusEvent::ToolFinished { .. }
            | BusEvent::ToolQuestion { .. }
            | BusEvent::ToolDecided { .. }
            | BusEvent::ResponseText { .. }
            | BusEvent::ResponseBinary { .. } => {}
        }
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl EventBus for MeasuredBus {
    async fn publish(&self, event: BusEvent) -> Result<(), BusError> {
        self.record_event(&event);
        self.track_turn(&event);
        self.inner.publish(event).await
    }

    async fn subscribe(&self) -> Result<EventStream, BusError> {
        self.inner.subscribe().await
    }
}
