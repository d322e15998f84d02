//! The records that the ledger takes and returns: leases, messages, turns, settlements and queries.

use std::collections::BTreeMap;

use satchel_domain::{
    Attachment, AttachmentId, ChannelName, ConversationId, Ending, FileReference, HistoryMessage, InboundMessage,
    InboxId, MessageOrigin, MessageRef, OutgoingResponse, Part, PartId, PartState, RefusedFile, Sender, Sha256,
    Timestamp, ToolCall, ToolOutcome, TurnId,
    delivery::DeliveryRules,
    part::{Plan, PlannedPart, UndeliveredPart},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::FileChange;

/// The process that holds a lease. A restarted process is another holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HolderId(pub Uuid);

/// The right to work a lane. Every write presents it; a newer lease of the lane revokes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The lane.
    pub conversation: ConversationId,
    /// The process that holds it.
    pub holder: HolderId,
    /// The fencing token, which grows with every claim of the lane.
    pub token: u64,
}

/// Whether `receive` may claim the lane for the caller's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Claims the lane if it has no holder.
    IfFree,
    /// Leaves the lane to others: another process hosts the channel, or this one is at its limit.
    Never,
}

/// The result of receiving a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveOutcome {
    /// The message's turn.
    pub turn: TurnId,
    /// Whether the key was stored already, so that nothing changed.
    pub duplicate: bool,
    /// The lease, if one was requested and the lane was free.
    pub lease: Option<Lease>,
    /// Whether parts of the conversation are unsettled, so that the lane's holder has deliveries to resume.
    pub unsettled: bool,
}

/// The state of a file of a queued message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboundFileState {
    /// To be fetched.
    Waiting(FileReference),
    /// Stored.
    Stored(Attachment),
    /// Refused for good.
    Refused(RefusedFile),
}

/// The result of transcribing a voice note. Stored as `words` and `unheard`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transcription {
    /// The text; empty if the recording has no speech.
    #[serde(rename = "words")]
    Text(String),
    /// The reason why there is no text. The recording is kept.
    #[serde(rename = "unheard")]
    Failed(String),
}

/// A message in the inbox.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedMessage {
    /// Its id in the inbox.
    pub id: InboxId,
    /// Its turn.
    pub turn: TurnId,
    /// The message as it was received.
    pub message: InboundMessage,
    /// Its files, in the sender's order.
    pub files: Vec<InboundFileState>,
    /// The transcriptions of its voice notes made so far, by the index of the file.
    pub transcriptions: BTreeMap<u32, Transcription>,
    /// When it was stored.
    pub received_at: Timestamp,
}

impl QueuedMessage {
    /// Returns when the message was sent and, in a group, by whom; a system task has no sender.
    #[must_use]
    pub fn origin(&self) -> MessageOrigin {
        let InboundMessage { group, system_task, sender, sent_at, .. } = &self.message;
        MessageOrigin {
            sent_at: sent_at.unwrap_or(self.received_at),
            sender: (*group && system_task.is_none()).then(|| sender.clone()),
        }
    }
}

/// A message that was injected between two model calls of a running turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteeringMessage {
    /// Its id in the inbox; consumed with the turn that it was injected into.
    pub id: InboxId,
    /// The person who wrote it.
    pub sender: Sender,
    /// Its text.
    pub text: String,
    /// When it was sent and, in a group, by whom; `None` in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<MessageOrigin>,
}

/// A person's decision about a tool call that waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDecision {
    /// The message with the decision.
    pub id: InboxId,
    /// The person who decided; only the requester and owners may.
    pub sender: Sender,
    /// The confirmation code of the call.
    pub code: String,
    /// Whether the call may run.
    pub allow: bool,
}

/// A reply of Satchel itself to a message queued behind a running turn, sent without waiting for that turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImmediateReply {
    /// The message's own turn, which the reply completes.
    pub turn: TurnId,
    /// The message on its platform.
    pub reply_to: Option<MessageRef>,
    /// The reply.
    pub text: String,
}

/// What the messages queued behind a running turn request of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SteeringRequests {
    /// The message that stops the turn.
    pub stop: Option<InboxId>,
    /// The messages to give to the model before its next call, oldest first.
    pub inject: Vec<SteeringMessage>,
    /// People's decisions about calls that wait for one, oldest first.
    pub decisions: Vec<ToolDecision>,
    /// The replies to send at once, oldest first.
    pub immediate_replies: Vec<ImmediateReply>,
}

/// A durable step of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum JournalEntry {
    /// A model message with tool calls, and the messages that were injected before it.
    Model {
        /// The name of the agent that answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// The task whose model it was, in a run of tasks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
        /// The messages that were injected before the model call.
        #[serde(default)]
        steered: Vec<SteeringMessage>,
        /// The model's text.
        text: String,
        /// Its calls; ordinals count over the whole turn.
        calls: Vec<ToolCall>,
        /// The ordinals of the calls that need a decision before they start. Stored as `asks`.
        #[serde(default, rename = "asks")]
        awaiting_decision: Vec<u32>,
    },
    /// A person's decision about a call.
    Decided {
        /// The call's ordinal.
        ordinal: u32,
        /// Whether the call may run.
        allowed: bool,
        /// The message with the decision; consumed with the turn.
        message: InboxId,
    },
    /// The end of a task that another task of the turn needs. What is recorded behind it belongs to the next one.
    TaskFinished {
        /// The task's name.
        task: String,
        /// The text of its model's last message.
        text: String,
    },
    /// The outcome of a call.
    Outcome {
        /// The call's ordinal.
        ordinal: u32,
        /// The outcome, with its files' numbers.
        outcome: ToolOutcome,
    },
}

/// The turn to work on: the oldest incomplete one of its lane.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedTurn {
    /// Its id.
    pub id: TurnId,
    /// Its messages: one, or those of an album.
    pub messages: Vec<QueuedMessage>,
    /// When it may start: an album waits for half a second without another item.
    pub ready_at: Timestamp,
    /// Whether more messages of the conversation are queued behind it.
    pub has_followers: bool,
    /// The steps that an earlier run recorded, in order.
    pub journal: Vec<JournalEntry>,
    /// The message in which an earlier run streamed.
    pub stream: Option<Part>,
    /// How many processes crashed while it was the lane's oldest turn.
    pub crashes: u32,
    /// Failed deliveries that haven't been reported to the model.
    pub unreported_failures: Vec<UndeliveredPart>,
    /// Whether the conversation's replies are sent as voice messages, too.
    pub voice: bool,
    /// The name of the agent that was chosen for the conversation, whether or not it still exists.
    pub agent: Option<String>,
}

/// What a turn does to the conversation's history.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryChange {
    /// Adds messages.
    Append(Vec<HistoryMessage>),
    /// Hides all earlier messages from the model.
    Reset,
}

/// The end of a turn, committed at once.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedTurn {
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub ending: Ending,
    /// The response.
    pub response: OutgoingResponse,
    /// The response's plan for its channel.
    pub plan: Plan,
    /// The change to the history.
    pub history: HistoryChange,
    /// The injected messages that the turn consumed besides its own.
    pub steered: Vec<InboxId>,
    /// The failed parts that were reported to the model in this turn.
    pub reported_failures: Vec<PartId>,
    /// The person's message to which the parts reply.
    pub reply_to: Option<MessageRef>,
    /// The changes of files that no recorded outcome has.
    pub changes: Vec<FileChange>,
}

/// The result of a part, with what follows from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The part in its settled state; with children, the ledger sets it to `Replaced`.
    pub part: Part,
    /// The parts that replace it. They inherit its label, the first also its target.
    pub children: Vec<PlannedPart>,
    /// The text of the response's closing notice, when the part failed and is no notice itself.
    pub notice: Option<String>,
    /// The rules by which the next part may start.
    pub rules: DeliveryRules,
}

/// The state of the lane after a part was settled.
#[derive(Debug, Clone, PartialEq)]
pub struct SettleOutcome {
    /// The lane's next unsettled part; `Sending` if it was started in the same commit.
    pub next: Option<Part>,
    /// Whether the lane was idle and has been released.
    pub released: bool,
}

/// Whether a lane with work is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseMode {
    /// Only if no turn is queued and no part is unsettled.
    IfIdle,
    /// In any case: the process stops and another one continues.
    Always,
}

/// A stored turn.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecord {
    /// Its id.
    pub id: TurnId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// How it ended; `None` while it is queued or running.
    pub ending: Option<Ending>,
    /// The response, with the files' numbers.
    pub response: Option<OutgoingResponse>,
    /// Its own messages and those that were injected into it, in the order of arrival.
    pub messages: Vec<QueuedMessage>,
    /// The parts, in order, replaced ones included.
    pub parts: Vec<Part>,
}

impl TurnRecord {
    /// Returns the refused inbound files.
    pub fn refused(&self) -> impl Iterator<Item = &RefusedFile> {
        self.messages.iter().flat_map(|message| &message.files).filter_map(|file| match file {
            InboundFileState::Refused(refused) => Some(refused),
            InboundFileState::Waiting(_) | InboundFileState::Stored(_) => None,
        })
    }

    /// Returns the failed parts of the response.
    #[must_use]
    pub fn routing_errors(&self) -> Vec<UndeliveredPart> {
        let routing_error = |part: &Part| match &part.state {
            PartState::Failed { reason } => Some(UndeliveredPart {
                part: part.id,
                turn: part.turn,
                content: part.content.clone(),
                reason: reason.clone(),
            }),
            _ => None,
        };
        self.parts.iter().filter_map(routing_error).collect()
    }
}

/// An entry of a list of conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSummary {
    /// The conversation.
    pub conversation: ConversationId,
    /// The beginning of its first text, as it was sent; empty if it has only files.
    pub title: String,
    /// When its latest message was stored.
    pub last_at: Timestamp,
}

/// A query for turns of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnQuery {
    /// The conversation.
    pub conversation: ConversationId,
    /// Only turns older than this one.
    pub before: Option<TurnId>,
    /// At most this many, the newest.
    pub limit: u32,
}

/// The key of a file in its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentKey {
    /// Its id.
    Id(AttachmentId),
    /// Its number.
    Number(u64),
}

/// A query for files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachmentQuery {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those of this turn.
    pub turn: Option<TurnId>,
    /// Only those with these bytes.
    pub sha256: Option<Sha256>,
    /// Only those whose number is smaller, which are the older ones of a conversation.
    pub before: Option<u64>,
    /// At most this many, the first of the order.
    pub limit: Option<u32>,
    /// The order.
    pub order: AttachmentOrder,
}

/// The order of a list of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttachmentOrder {
    /// The newest first.
    #[default]
    Newest,
    /// The oldest first.
    Oldest,
    /// The largest first.
    Largest,
}

/// A query for parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboxQuery {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only this one.
    pub part: Option<PartId>,
    /// Includes sent and replaced parts.
    pub include_delivered: bool,
    /// Only unsettled ones, the oldest first.
    pub unsettled_only: bool,
    /// At most this many, the newest, or the oldest where these come first.
    pub limit: Option<u32>,
}

/// A stored platform message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMessage {
    /// Its conversation.
    pub conversation: ConversationId,
    /// The platform's id.
    pub message: MessageRef,
}

/// The recorded messages of a channel, for looking up a sent part by message ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordedMessages {
    /// People's messages that were stored before the part was first started, in all conversations of the channel.
    pub before: Vec<RecordedMessage>,
    /// All others: people's later messages, and the bot's with a known id.
    pub other: Vec<RecordedMessage>,
    /// Whether another send to the same chat may have arrived as a message with an unknown id.
    pub other_doubt: bool,
}

/// The number of a channel's stored undecodable updates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecodableCount {
    /// The channel.
    pub channel: ChannelName,
    /// Their number.
    pub updates: u64,
}

/// The result of renaming a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameOutcome {
    /// Everything of the conversation now has the new name.
    Renamed,
    /// No conversation has the old name.
    NotFound,
    /// A conversation has the new name already; both stay as they are.
    Conflict,
}
