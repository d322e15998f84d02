//! The one durable truth: what came in, what is being worked on, what was said, what goes out.
//!
//! The database is the only queue (ADR 0003). Each verb is one atomic, durable commit; each query is a read.

pub mod people;

use std::collections::BTreeMap;

use async_trait::async_trait;
use satchel_domain::{
    Attachment, AttachmentId, ChannelName, ConversationId, Ending, FileReference, InboundMessage, InboxId, Message,
    MessageRef, OutgoingResponse, Part, PartId, RefusedFile, Sender, Sha256, Timestamp, ToolCall, ToolOutcome, TurnId,
    UnreadableUpdate,
    delivery::DeliveryRules,
    part::{Plan, PlannedPart, RoutingError},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::people::{Judged, Pairing, PairingRules, Person, Stranger, Verdict};

/// One running process, as leases name it. A process that starts again is another owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerId(pub Uuid);

/// The right to work on one conversation. Every write shows it; a newer one for the same lane makes it worthless.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The lane.
    pub conversation: ConversationId,
    /// Who holds it.
    pub owner: OwnerId,
    /// The fencing token: it grows with every claim of the lane.
    pub token: u64,
}

/// Whether `receive` may claim the lane for the caller's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// If nobody holds it.
    IfFree,
    /// No: another process hosts the channel, or this one has enough to do.
    Leave,
}

/// What became of a received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
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
pub enum InboundFile {
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
pub enum Heard {
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
    pub files: Vec<InboundFile>,
    /// The words of those that are voice notes, by their place among the files, as far as they were listened to.
    pub heard: BTreeMap<u32, Heard>,
    /// When it was stored.
    pub received_at: Timestamp,
}

/// A message that was injected between two model calls of a running turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steered {
    /// Its id in the inbox; consumed with the turn that it was injected into.
    pub id: InboxId,
    /// Who wrote it.
    pub sender: Sender,
    /// The words.
    pub text: String,
}

/// A person's word about a tool call that waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The message that said it.
    pub id: InboxId,
    /// Who said it; not everybody's word counts.
    pub sender: Sender,
    /// The code of the call that is meant.
    pub code: String,
    /// Whether the call may run.
    pub allow: bool,
}

/// What the messages behind a running turn ask of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Steering {
    /// The message that stops the turn.
    pub stop: Option<InboxId>,
    /// The messages that can be put before the model in the middle of the turn, oldest first.
    pub inject: Vec<Steered>,
    /// What people said about calls that wait for their word, oldest first.
    pub decisions: Vec<Decision>,
}

/// What a turn has recorded, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum JournalEntry {
    /// A model message that asked for tools, and what was injected before it.
    Model {
        /// The messages that were injected before the model was asked.
        #[serde(default)]
        steered: Vec<Steered>,
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
    pub followed: bool,
    /// What an earlier run of it has recorded, in order.
    pub journal: Vec<JournalEntry>,
    /// The message in which an earlier run of it streamed.
    pub stream: Option<Part>,
    /// How many processes died while it was the lane's oldest turn.
    pub crashes: u32,
    /// What was not delivered and the model hasn't been told of.
    pub untold: Vec<RoutingError>,
    /// Whether the person wants every reply of the conversation spoken too.
    pub voice: bool,
}

/// What a turn does to the conversation's history.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryChange {
    /// Adds messages.
    Append(Vec<Message>),
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
    pub told: Vec<PartId>,
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
pub struct Settled {
    /// The lane's next unsettled part; `Sending` when it could be begun in the same commit.
    pub next: Option<Part>,
    /// Whether the lane had nothing left to do and was released.
    pub released: bool,
}

/// Whether a lane is given back with work in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
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
            InboundFile::Refused(refused) => Some(refused),
            InboundFile::Waiting(_) | InboundFile::Stored(_) => None,
        })
    }

    /// What of the response was not delivered.
    #[must_use]
    pub fn routing_errors(&self) -> Vec<RoutingError> {
        let failed = |part: &Part| match &part.state {
            satchel_domain::PartState::Failed { reason } => Some(RoutingError {
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
pub struct TurnsQuery {
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
    /// At most this many, the newest.
    pub limit: Option<u32>,
}

/// Which parts are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboxQuery {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only this one.
    pub part: Option<PartId>,
    /// Sent and replaced ones too, not only unsettled and failed ones.
    pub with_delivered: bool,
    /// Only unsettled ones, the oldest first.
    pub under_way: bool,
    /// At most this many, the newest, or the oldest where these come first.
    pub limit: Option<u32>,
}

/// How many updates of a channel could not be read and are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The channel.
    pub channel: ChannelName,
    /// How many.
    pub updates: u64,
}

/// What came of giving a conversation another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renamed {
    /// All that it had is now under the new name.
    Done,
    /// There was nothing under the old name.
    Nothing,
    /// Something was under the new name already; both stay as they are.
    Taken,
}

/// Why the ledger did not do it. Whatever the error, nothing of the verb was committed.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The lane has another owner now; the caller must stop working on it at once.
    #[error("the lane of {0} has another owner")]
    LeaseLost(ConversationId),
    /// The part was settled meanwhile, such as by an operator who discarded it.
    #[error("part {0} is settled already")]
    AlreadySettled(PartId),
    /// Nothing is known by that name in this conversation.
    #[error("unknown {what}")]
    Unknown {
        /// What was looked for.
        what: String,
    },
    /// The disk has no room; trying again may help once it has.
    #[error("no space is left for the database")]
    Full,
    /// The store failed.
    #[error("the database failed: {doing}")]
    Store {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Keeps everything that must outlive a process.
///
/// # Contract
/// - A verb that returned `Ok` is durable: it survives power loss. A verb that returned an error changed nothing.
/// - `receive` stores a key once per channel, and answers a repeat with the same turn.
/// - `receive` of an edit whose original no completed turn has consumed and no owner has taken up replaces it.
/// - `keep_unreadable` keeps an update once per channel and key, as it is given; of each channel the newest thousand.
/// - `introduce` gives a stranger the same code while it lives, to no more strangers of a channel at once than the rules
///   allow, and none to somebody who was refused not long ago.
/// - `judge_pairing` lets a code count once, only while it lives, only to those who decide about its channel, and to
///   nobody who said too many wrong ones. Letting somebody in also queues [`satchel_domain::Errand::Welcome`] for them.
/// - Somebody who was let in may talk on that channel until they are revoked, and nobody else for having their name.
/// - `rename_conversation` moves history, files, queue and outbox as one, or nothing; whoever worked on the conversation
///   under its old name has lost the lease. What is unsettled or waits forgets the messages that it answers or edits:
///   their numbers are those of the old name.
/// - Messages of one sender's album that arrive before their turn begins are one turn; each pushes its `ready_at` out.
/// - A lane has one owner at a time; tokens of one lane never repeat and only grow.
/// - Every verb that takes a lease fails with [`LedgerError::LeaseLost`] when a newer one exists.
/// - A lane whose owner is gone can be taken; one whose owner lives and renews can't.
/// - Taking a lane that was not released adds one crash to its oldest incomplete turn.
/// - `take_lane` claims only lanes of the named channels that have a turn ready or a part unsettled.
/// - `next_turn` returns a lane's turns in the order of their first messages, the same one until it is complete.
/// - `next_turn` brings the words of voice notes that `record_heard` stored, and what `set_voice` set last.
/// - `journal_outcome` numbers the outcome's new files; files that it knows keep their number.
/// - `complete_turn` commits consumed messages, history, response and parts together, and only once.
/// - `complete_turn` begins the first part when nothing earlier in the lane is unsettled and it needs no preparation.
/// - When the turn streamed, the plan's first part takes the streamed part's id, target and unanswered doubt.
/// - A planned part that was refused is stored as failed.
/// - `settle_part` settles a part once, puts its children in its place, writes the one closing notice at the end of its
///   response, begins the lane's next part if [`satchel_domain::delivery::next_step`] says so, and releases a lane that
///   has nothing left to do.
/// - Numbers of attachments count from 1 in each conversation and never repeat.
/// - `new_id` never repeats, and later ids of one process sort after earlier ones.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;

    /// A new UUIDv7.
    fn new_id(&self) -> Uuid;

    /// Stores a message and, if asked, claims its lane.
    async fn receive(&self, message: &InboundMessage, claim: Claim) -> Result<Received, LedgerError>;

    /// Keeps an update that can't be read; `false` when its key was known already.
    async fn keep_unreadable(&self, update: &UnreadableUpdate) -> Result<bool, LedgerError>;

    /// Counts the updates that can't be read, by channel.
    async fn unreadable(&self) -> Result<Vec<Unreadable>, LedgerError>;

    /// Lets a conversation go on under another name, unless that has something of its own.
    async fn rename_conversation(&self, from: &ConversationId, to: &ConversationId) -> Result<Renamed, LedgerError>;

    /// Finds or makes the code of somebody unknown; `None` when they get none.
    async fn introduce(&self, stranger: &Stranger, rules: &PairingRules) -> Result<Option<Pairing>, LedgerError>;

    /// Lets the person of a code in, or refuses them.
    async fn judge_pairing(&self, verdict: &Verdict, rules: &PairingRules) -> Result<Judged, LedgerError>;

    /// Reads the codes that can still be used, the oldest first.
    async fn pairings(&self) -> Result<Vec<Pairing>, LedgerError>;

    /// Whether somebody was let in on a channel; `id` is the channel's own.
    async fn is_let_in(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError>;

    /// Reads who was let in, by channel.
    async fn people(&self) -> Result<Vec<Person>, LedgerError>;

    /// Takes back that somebody was let in; `false` when nobody was by that id.
    async fn revoke(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError>;

    /// Claims the lane of one of these channels that has waited longest for work to be done.
    async fn take_lane(&self, channels: &[ChannelName]) -> Result<Option<Lease>, LedgerError>;

    /// Prolongs leases and returns those that are lost.
    async fn renew(&self, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError>;

    /// Gives a lane back; `false` when it has work and was kept.
    async fn release(&self, lease: &Lease, release: Release) -> Result<bool, LedgerError>;

    /// Reads the lane's oldest incomplete turn.
    async fn next_turn(&self, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError>;

    /// Reads the messages that wait behind `turn`, oldest first; of a flood only the first hundreds, and the
    /// commands among the last hundreds.
    async fn waiting_behind(&self, lease: &Lease, turn: TurnId) -> Result<Vec<QueuedMessage>, LedgerError>;

    /// Stores a fetched file as the `index`th of a message and numbers it.
    async fn store_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        attachment: &Attachment,
    ) -> Result<Attachment, LedgerError>;

    /// Records that the `index`th file of a message was not taken.
    async fn refuse_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        refused: &RefusedFile,
    ) -> Result<(), LedgerError>;

    /// Records what became of the words of a voice note, the `index`th file of a message; a later record counts.
    async fn record_heard(&self, lease: &Lease, message: InboxId, index: u32, heard: &Heard)
    -> Result<(), LedgerError>;

    /// Sets whether the replies of a conversation are spoken too; a conversation that isn't known is an error.
    async fn set_voice(&self, conversation: &ConversationId, on: bool) -> Result<(), LedgerError>;

    /// Records a model message that asks for tools, before the calls start, or a person's word about one of them.
    async fn journal_message(&self, lease: &Lease, turn: TurnId, entry: &JournalEntry) -> Result<(), LedgerError>;

    /// Records what a call yielded together with its new files, and returns it with their numbers.
    async fn journal_outcome(
        &self,
        lease: &Lease,
        turn: TurnId,
        ordinal: u32,
        outcome: &ToolOutcome,
    ) -> Result<ToolOutcome, LedgerError>;

    /// Begins the message in which a turn streams; `None` while something earlier in the lane is unsettled.
    async fn begin_stream(
        &self,
        lease: &Lease,
        turn: TurnId,
        reply_to: Option<MessageRef>,
    ) -> Result<Option<Part>, LedgerError>;

    /// Completes a turn and returns its first part, if it was begun.
    async fn complete_turn(&self, lease: &Lease, completed: &CompletedTurn) -> Result<Option<Part>, LedgerError>;

    /// Reads the lane's oldest unsettled part of a completed turn.
    async fn next_part(&self, lease: &Lease) -> Result<Option<Part>, LedgerError>;

    /// Stores an unsettled part as it is now: begun, waiting, in doubt, prepared, with its target.
    async fn save_part(&self, lease: &Lease, part: &Part) -> Result<(), LedgerError>;

    /// Settles a part and begins the next.
    async fn settle_part(&self, lease: &Lease, settlement: &Settlement) -> Result<Settled, LedgerError>;

    /// Gives up an unsettled part that is not being sent, on an operator's word.
    async fn discard_part(&self, part: PartId) -> Result<(), LedgerError>;

    /// Reads a turn.
    async fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, LedgerError>;

    /// Reads the conversations of a channel, the one last used first.
    async fn conversations(&self, channel: &ChannelName, limit: u32) -> Result<Vec<ConversationSummary>, LedgerError>;

    /// Reads turns, oldest first; those whose messages were all injected into another are left out.
    async fn turns(&self, query: &TurnsQuery) -> Result<Vec<TurnRecord>, LedgerError>;

    /// Reads the history since it last began anew: its last `limit` messages, oldest first.
    async fn history(&self, conversation: &ConversationId, limit: u32) -> Result<Vec<Message>, LedgerError>;

    /// Reads one file's record; a foreign file is as unknown as a missing one.
    async fn attachment(
        &self,
        conversation: &ConversationId,
        key: AttachmentKey,
    ) -> Result<Option<Attachment>, LedgerError>;

    /// Reads files' records, newest first.
    async fn attachments(&self, query: &AttachmentQuery) -> Result<Vec<Attachment>, LedgerError>;

    /// Reads parts, newest first unless only those under way are asked for.
    async fn outbox(&self, query: &OutboxQuery) -> Result<Vec<Part>, LedgerError>;

    /// Reads the last message that was sent in the conversation before a part; where a look-up begins.
    async fn sent_before(&self, part: PartId) -> Result<Option<MessageRef>, LedgerError>;

    /// Of these addresses, those that no row references: no file's record, no prepared voice, no message that waits.
    async fn unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError>;
}
