//! The internal event bus. Its events are hints that reduce latency; the ledger is the truth.

mod wire;

use std::pin::Pin;

use async_trait::async_trait;
use futures::Stream;
use satchel_domain::{
    Button, CallId, ConversationId, Filename, MessageRef, OutgoingResponse, PartId, Sha256, TurnId, part::FailureReason,
};
use serde::{Deserialize, Serialize};

pub use self::wire::{DecodeEventError, EVENT_VERSION, decode_event, encode_event};

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
    /// The text of a response.
    #[serde(rename = "evt.agent.output.response.text")]
    ResponseText {
        /// Where.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
        /// The part that the event delivers, on a channel whose messages are events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<PartId>,
        /// The text in Markdown.
        text: String,
        /// The buttons below it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        buttons: Vec<Button>,
    },
    /// One file of a response, in order; N files are N events.
    #[serde(rename = "evt.agent.output.response.binary")]
    ResponseBinary {
        /// Where.
        conversation: ConversationId,
        /// The turn.
        turn: TurnId,
        /// The part that the event delivers, on a channel whose messages are events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<PartId>,
        /// The file's name, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filename: Option<Filename>,
        /// Its type.
        #[serde(rename = "mimeType")]
        mime: String,
        /// Its size.
        bytes: u64,
        /// The digest of its bytes.
        sha256: Sha256,
        /// The bytes, or where they are. Within a process always [`EventBytes::Blob`].
        #[serde(flatten)]
        content: EventBytes,
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
        /// The receipt: the platform's ids of the messages as which it arrived.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        messages: Vec<MessageRef>,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<FailureReason>,
    },
}

/// The bytes of a file in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventBytes {
    /// All of them, in Base64: for readers outside, up to [`MAX_INLINE_BYTES`].
    #[serde(rename = "dataBase64")]
    Inline(String),
    /// Their address in the blob store.
    #[serde(rename = "blob")]
    Blob(Sha256),
}

/// The largest file whose bytes an event carries.
pub const MAX_INLINE_BYTES: u64 = 256 * 1024;

impl BusEvent {
    /// All types of events, as they are written.
    pub const TYPES: [&str; 11] = [
        "evt.message.received",
        "evt.agent.output.delta.text",
        "evt.agent.task.started",
        "evt.agent.tool.started",
        "evt.agent.tool.question",
        "evt.agent.tool.decided",
        "evt.agent.tool.finished",
        "evt.agent.output.response.text",
        "evt.agent.output.response.binary",
        "evt.turn.completed",
        "evt.delivery.part",
    ];

    /// Returns the type as it is written, one of [`BusEvent::TYPES`].
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::MessageReceived { .. } => "evt.message.received",
            Self::TextDelta { .. } => "evt.agent.output.delta.text",
            Self::TaskStarted { .. } => "evt.agent.task.started",
            Self::ToolStarted { .. } => "evt.agent.tool.started",
            Self::ToolQuestion { .. } => "evt.agent.tool.question",
            Self::ToolDecided { .. } => "evt.agent.tool.decided",
            Self::ToolFinished { .. } => "evt.agent.tool.finished",
            Self::ResponseText { .. } => "evt.agent.output.response.text",
            Self::ResponseBinary { .. } => "evt.agent.output.response.binary",
            Self::TurnCompleted { .. } => "evt.turn.completed",
            Self::DeliveryPart { .. } => "evt.delivery.part",
        }
    }

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
            | Self::ResponseText { conversation, .. }
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
/// - Every subscriber gets every event, as far as it keeps up.
/// - A subscriber that is too slow loses events rather than slow anyone down; then it gets later ones.
/// - `subscribe` gets what is published after it returned, and nothing from before.
/// - `publish` without subscribers is fine, and it never waits for a subscriber or a server.
/// - Dropping a stream ends its subscription alone.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait EventBus: Send + Sync {
    /// Publishes an event.
    async fn publish(&self, event: BusEvent) -> Result<(), BusError>;

    /// Listens to all events from now on.
    async fn subscribe(&self) -> Result<EventStream, BusError>;
}
