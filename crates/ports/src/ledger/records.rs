//! What the ledger takes and returns: lanes, messages, turns, settlements, and how they are asked for.

use std::collections::BTreeMap;

use satchel_domain::{
    Attachment, AttachmentId, ChannelName, ConversationId, Ending, FileReference, HistoryMessage, InboundMessage,
    InboxId, MessageOrigin, MessageRef, OutgoingResponse, Part, PartId, PartState, RefusedFile, Sender, Sha256,
    Timestamp, ToolCall, ToolOutcome, TurnId,
    delivery::DeliveryRules,
    part::{Plan, PlannedPart, RoutingError},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// One running process, as leases name it. A process that starts again is another owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HolderId(pub Uuid);

/// The right to work on one conversation. Every write shows it; a newer one for the same lane makes it worthless.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The lane.
    pub conversation: ConversationId,
    /// Who holds it.
    pub holder: HolderId,
    /// The fencing token: it grows with every claim of the lane.
    pub token: u64,
}

/// Whether `receive` may claim the lane for the caller's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// If nobody holds it.
    IfFree,
    /// No: another process hosts the channel, or this one has enough to do.
    Leave,
}

/// What became of a received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveOutcome {
    /// The turn that it is part of.
    pub turn: TurnId,
    /// Whether its key was known already, so that nothing was stored.
    pub duplicate: bool,
    /// The lane, if it was free and asked for.
    pub lease: Option<Lease>,
    /// Whether parts of the conversation are unsettled, so that whoever has the lane must look for them.
    pub unsettled: bool,
}

/// Where a file of a queued message stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboundFileState {
    /// To be fetched.
    Waiting(FileReference),
    /// Stored.
    Stored(Attachment),
    /// Not taken.
    Refused(RefusedFile),
}

/// What became of the words of a voice note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transcription {
    /// They were written down; empty when nothing was said.
    Words(String),
    /// They could not be written down, for this reason. The recording is kept.
    Unheard(String),
}

/// A message as the inbox has it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedMessage {
    /// Its id in the inbox.
    pub id: InboxId,
    /// The turn that it began or belongs to.
    pub turn: TurnId,
    /// The message as it came.
    pub message: InboundMessage,
    /// Its files, in the sender's order.
    pub files: Vec<InboundFileState>,
    /// The words of those that are voice notes, by their place among the files, as far as they were listened to.
    pub transcriptions: BTreeMap<u32, Transcription>,
    /// When it was stored.
    pub received_at: Timestamp,
}

impl QueuedMessage {
    /// When the message was sent and, where others can write too, by whom. Nobody has sent what Satchel itself does.
    #[must_use]
    pub fn origin(&self) -> MessageOrigin {
        let InboundMessage { group, system_task: errand, sender, sent_at, .. } = &self.message;
        MessageOrigin {
            sent_at: sent_at.unwrap_or(self.received_at),
            sender: (*group && errand.is_none()).then(|| sender.clone()),
        }
    }
}

/// A message that was injected between two model calls of a running turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteeringMessage {
    /// Its id in the inbox; consumed with the turn that it was injected into.
    pub id: InboxId,
    /// Who wrote it.
    pub sender: Sender,
    /// The words.
    pub text: String,
    /// When it was sent and, where others can write too, by whom; `None` in what earlier versions recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<MessageOrigin>,
}

/// A person's word about a tool call that waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDecision {
    /// The message that said it.
    pub id: InboxId,
    /// Who said it; not everybody's word counts.
    pub sender: Sender,
    /// The code of the call that is meant.
    pub code: String,
    /// Whether the call may run.
    pub allow: bool,
}

/// The answer to a message behind a running turn that Satchel gives itself, without waiting for the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The message's own turn, which the answer completes.
    pub turn: TurnId,
    /// The message on its platform.
    pub reply_to: Option<MessageRef>,
    /// The words.
    pub text: String,
}

/// What the messages behind a running turn ask of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SteeringRequests {
    /// The message that stops the turn.
    pub stop: Option<InboxId>,
    /// The messages that can be put before the model in the middle of the turn, oldest first.
    pub inject: Vec<SteeringMessage>,
    /// What people said about calls that wait for their word, oldest first.
    pub decisions: Vec<ToolDecision>,
    /// What is explained at once, oldest first.
    pub explained: Vec<Explained>,
}

/// What a turn has recorded, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum JournalEntry {
    /// A model message that asked for tools, and what was injected before it.
    Model {
        /// The messages that were injected before the model was asked.
        #[serde(default)]
        steered: Vec<SteeringMessage>,
        /// What the model wrote.
        text: String,
        /// What it asked for; ordinals count over the whole turn.
        calls: Vec<ToolCall>,
        /// The ordinals of those that wait for a person's word before they begin.
        #[serde(default)]
        asks: Vec<u32>,
    },
    /// A person's word about one of the calls.
    Decided {
        /// The call's ordinal.
        ordinal: u32,
        /// Whether it may run.
        allowed: bool,
        /// The message that said so; consumed with the turn.
        message: InboxId,
    },
    /// What one of the calls yielded.
    Outcome {
        /// The call's ordinal.
        ordinal: u32,
        /// What it yielded.
        outcome: ToolOutcome,
    },
}

/// The turn to work on: the oldest of its lane that isn't complete.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedTurn {
    /// Its id.
    pub id: TurnId,
    /// Its messages: one, or those of an album.
    pub messages: Vec<QueuedMessage>,
    /// When it may begin: an album waits for half a second of quiet.
    pub ready_at: Timestamp,
    /// Whether more messages of the conversation wait behind it.
    pub has_followers: bool,
    /// What an earlier run of it has recorded, in order.
    pub journal: Vec<JournalEntry>,
    /// The message in which an earlier run of it streamed.
    pub stream: Option<Part>,
    /// How many processes died while it was the lane's oldest turn.
    pub crashes: u32,
    /// What was not delivered and the model hasn't been told of.
    pub unreported_failures: Vec<RoutingError>,
    /// Whether the person wants every reply of the conversation spoken too.
    pub voice: bool,
}

/// What a turn does to the conversation's history.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryChange {
    /// Adds messages.
    Append(Vec<HistoryMessage>),
    /// Begins anew: what stood before is no longer shown to the model.
    Reset,
}

/// A turn's end, committed as one.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletedTurn {
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub ending: Ending,
    /// What the person gets.
    pub response: OutgoingResponse,
    /// How they get it on their channel.
    pub plan: Plan,
    /// What it adds to the history.
    pub history: HistoryChange,
    /// The injected messages that it consumed besides its own.
    pub steered: Vec<InboxId>,
    /// The failed parts that the model was told of in this turn.
    pub reported_failures: Vec<PartId>,
    /// The person's message that the parts answer.
    pub reply_to: Option<MessageRef>,
}

/// A part's end, and what it brings about.
#[derive(Debug, Clone, PartialEq)]
pub struct Settlement {
    /// The part in its settled state; with children the ledger makes it `Replaced` by them.
    pub part: Part,
    /// What takes its place. They inherit its label, the first also its target.
    pub children: Vec<PlannedPart>,
    /// The text of the response's closing notice, when the part failed and is no notice itself.
    pub notice: Option<String>,
    /// The rules by which the next part may be begun.
    pub rules: DeliveryRules,
}

/// What follows a settled part.
#[derive(Debug, Clone, PartialEq)]
pub struct SettleOutcome {
    /// The lane's next unsettled part; `Sending` when it could be begun in the same commit.
    pub next: Option<Part>,
    /// Whether the lane had nothing left to do and was released.
    pub released: bool,
}

/// Whether a lane is given back with work in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseMode {
    /// Only if no turn is queued and no part is unsettled.
    IfIdle,
    /// In any case: the process stops, in good order, and another goes on.
    Always,
}

/// A turn as it is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecord {
    /// Its id.
    pub id: TurnId,
    /// Where it took place.
    pub conversation: ConversationId,
    /// How it ended; `None` while it runs or waits.
    pub ending: Option<Ending>,
    /// What the person gets, with the files' numbers.
    pub response: Option<OutgoingResponse>,
    /// What was said in it, in the order of arrival: its own messages and those that were injected into it.
    pub messages: Vec<QueuedMessage>,
    /// The parts, in order, replaced ones included.
    pub parts: Vec<Part>,
}

impl TurnRecord {
    /// The inbound files that were not taken.
    pub fn refused(&self) -> impl Iterator<Item = &RefusedFile> {
        self.messages.iter().flat_map(|message| &message.files).filter_map(|file| match file {
            InboundFileState::Refused(refused) => Some(refused),
            InboundFileState::Waiting(_) | InboundFileState::Stored(_) => None,
        })
    }

    /// What of the response was not delivered.
    #[must_use]
    pub fn routing_errors(&self) -> Vec<RoutingError> {
        let failed = |part: &Part| match &part.state {
            PartState::Failed { reason } => Some(RoutingError {
                part: part.id,
                turn: part.turn,
                content: part.content.clone(),
                reason: reason.clone(),
            }),
            _ => None,
        };
        self.parts.iter().filter_map(failed).collect()
    }
}

/// A conversation as a list of them shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSummary {
    /// Which.
    pub conversation: ConversationId,
    /// The first words that were said in it, as they came; empty when only files were sent.
    pub title: String,
    /// When something was last said in it.
    pub last_at: Timestamp,
}

/// Which turns of a conversation are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnQuery {
    /// Whose.
    pub conversation: ConversationId,
    /// Only those that began before this one.
    pub before: Option<TurnId>,
    /// At most this many, the newest.
    pub limit: u32,
}

/// How a file is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentKey {
    /// By its id.
    Id(AttachmentId),
    /// By its number in its conversation.
    Number(u64),
}

/// Which files are asked for.
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
    /// Which come first.
    pub order: AttachmentOrder,
}

/// In which order files are read.
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

/// Which parts are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboxQuery {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only this one.
    pub part: Option<PartId>,
    /// Sent and replaced ones too, not only unsettled and failed ones.
    pub include_delivered: bool,
    /// Only unsettled ones, the oldest first.
    pub unsettled_only: bool,
    /// At most this many, the newest, or the oldest where these come first.
    pub limit: Option<u32>,
}

/// A message that is known to stand in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMessage {
    /// Where it stands.
    pub conversation: ConversationId,
    /// The platform's id of it.
    pub message: MessageRef,
}

/// What the ledger knows of a channel's messages, where one of ours is looked for by ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordedMessages {
    /// Messages of people that were stored before the part was first begun, of all conversations of its channel.
    pub before: Vec<RecordedMessage>,
    /// All others: those of people that were stored later, and all of ours whose ids are known.
    pub other: Vec<RecordedMessage>,
    /// Whether another send to the same chat may have arrived as a message of which nobody knows the id.
    pub other_doubt: bool,
}

/// How many updates of a channel could not be read and are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndecodableCount {
    /// The channel.
    pub channel: ChannelName,
    /// How many.
    pub updates: u64,
}

/// What came of giving a conversation another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameOutcome {
    /// Everything of the conversation now has the new name.
    Renamed,
    /// No conversation has the old name.
    NotFound,
    /// A conversation has the new name already; both stay as they are.
    Conflict,
}
