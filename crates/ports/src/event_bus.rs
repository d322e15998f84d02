//! The internal event bus. Its events are hints that reduce latency; the ledger is the truth.

use std::pin::Pin;

use async_trait::async_trait;
use futures::Stream;
use satchel_domain::{
    Button, CallId, ConversationId, Filename, OutgoingResponse, PartId, Sha256, TurnId, part::FailureReason,
};
use serde::{Deserialize, Serialize};

/// Something that happened. Every event but the text deltas has been committed before it is published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum BusEvent {
    /// A message was stored; workers look at the conversation.
    #[serde(rename = "evt.message.received")]
    MessageReceived {
        /// Where.
        conversation: ConversationId,
        /// The turn that it became part of.
        turn: TurnId,
    },
    /// The model wrote a little more. Lossy.
    #[serde(rename = "evt.agent.output.delta.text")]
    TextDelta {
        /// Where.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
        /// Which of the turn's model messages, from 0.
        message: u32,
        /// What it wrote.
        text: String,
    },
    /// A task of a run was started.
    #[serde(rename = "evt.agent.task.started")]
    TaskStarted {
        /// Where.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
        /// The task's name.
        task: String,
        /// Which of the run's tasks it is, from 1.
        number: u32,
        /// How many tasks the run has.
        total: u32,
    },
    /// A tool was started.
    #[serde(rename = "evt.agent.tool.started")]
    ToolStarted {
        /// Where.
        conversation: ConversationId,
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
    },
    /// A question about a tool call was posted.
    #[serde(rename = "evt.agent.tool.question")]
    ToolQuestion {
        /// Where.
        conversation: ConversationId,
        /// The call.
        call: CallId,
        /// The question in Markdown.
        text: String,
        /// The buttons.
        buttons: Vec<Button>,
    },
    /// The question about a tool call was decided, or expired.
    #[serde(rename = "evt.agent.tool.decided")]
    ToolDecided {
        /// Where.
        conversation: ConversationId,
        /// The call.
        call: CallId,
        /// Whether it may run.
        allowed: bool,
        /// The result, as text for the person. Published as `words`.
        #[serde(rename = "words")]
        text: String,
    },
    /// A tool call has finished.
    #[serde(rename = "evt.agent.tool.finished")]
    ToolFinished {
        /// Where.
        conversation: ConversationId,
        /// The call.
        call: CallId,
        /// The tool's name.
        tool: String,
        /// Whether it failed.
        failed: bool,
    },
    /// One file of a response, in order; N files are N events.
    #[serde(rename = "evt.agent.output.response.binary")]
    ResponseBinary {
        /// Where.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
        /// The file's name.
        filename: Filename,
        /// Its type.
        #[serde(rename = "mimeType")]
        mime: String,
        /// Its size.
        bytes: u64,
        /// The address of its bytes.
        sha256: Sha256,
    },
    /// The turn's response is committed.
    #[serde(rename = "evt.turn.completed")]
    TurnCompleted {
        /// Where.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
        /// How it ended: [`satchel_domain::Ending::as_str`].
        ending: String,
        /// What the person gets.
        response: OutgoingResponse,
    },
    /// A part of a response changed its state.
    #[serde(rename = "evt.delivery.part")]
    DeliveryPart {
        /// Where.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
        /// The part.
        part: PartId,
        /// What it sends: [`satchel_domain::PartContent::kind`].
        kind: String,
        /// Its state: [`satchel_domain::PartState::as_str`].
        state: String,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<FailureReason>,
    },
}

impl BusEvent {
    /// The conversation in which it happened.
    #[must_use]
    pub fn conversation(&self) -> &ConversationId {
        match self {
            Self::MessageReceived { conversation, .. }
            | Self::TextDelta { conversation, .. }
            | Self::TaskStarted { conversation, .. }
            | Self::ToolStarted { conversation, .. }
            | Self::ToolFinished { conversation, .. }
            | Self::ToolQuestion { conversation, .. }
            | Self::ToolDecided { conversation, .. }
            | Self::ResponseBinary { conversation, .. }
            | Self::TurnCompleted { conversation, .. }
            | Self::DeliveryPart { conversation, .. } => conversation,
        }
    }
}

/// Why an event was not published. Nothing is lost by it: the ledger has what happened.
#[derive(Debug, thiserror::Error)]
#[error("the event bus rejected the event")]
pub struct BusError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// A stream of events.
pub type EventStream = Pin<Box<dyn Stream<Item = BusEvent> + Send>>;

/// Publishes events to subscribers.
///
/// # Contract
/// - At least once, in any order: a consumer must bear an event twice, late, and out of turn.
/// - A subscriber that is too slow loses events rather than slow anyone down.
/// - `subscribe` gets what is published after it returned.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait EventBus: Send + Sync {
    /// Publishes an event.
    async fn publish(&self, event: BusEvent) -> Result<(), BusError>;

    /// Listens to all events from now on.
    async fn subscribe(&self) -> Result<EventStream, BusError>;
}
