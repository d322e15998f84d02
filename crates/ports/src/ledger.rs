//! The durable store of input, turns, history and deliveries.
//!
//! The database is the only queue (ADR 0003). Each verb is one atomic, durable commit; each query is a read.

pub mod people;
mod records;
pub mod usage;

use async_trait::async_trait;
use satchel_domain::{
    Attachment, ChannelName, ConversationId, HistoryMessage, InboundMessage, InboxId, MessageRef, Part, PartId,
    RefusedFile, Sha256, Timestamp, ToolOutcome, TurnId, UndecodableUpdate,
};
use serde_json::Value;

pub use self::records::{
    AttachmentKey, AttachmentOrder, AttachmentQuery, ClaimMode, CompletedTurn, ConversationSummary, HistoryChange,
    HolderId, ImmediateReply, InboundFileState, JournalEntry, Lease, OutboxQuery, QueuedMessage, QueuedTurn,
    ReceiveOutcome, RecordedMessage, RecordedMessages, ReleaseMode, RenameOutcome, SettleOutcome, Settlement,
    SteeringMessage, SteeringRequests, ToolDecision, Transcription, TurnQuery, TurnRecord, UndecodableCount,
};
use self::{
    people::{Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Person},
    usage::{ForgetOutcome, ForgetRequest, QuotaExceeded, Usage, UsageQuery},
};
use crate::audit::{AuditQuery, AuditRecord, FileChange};

/// Why a verb failed. Nothing of a failed verb is committed.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// Another process holds the lane now; the caller must stop working on it at once.
    #[error("the lane of {0} has another holder")]
    LeaseLost(ConversationId),
    /// The part has already been settled, for example by an operator who discarded it.
    #[error("part {0} is already settled")]
    AlreadySettled(PartId),
    /// The conversation has nothing of that name.
    #[error("unknown {item}")]
    Unknown {
        /// The thing that was looked up.
        item: String,
    },
    /// A quota leaves no room for a file; a retry may help after files are forgotten.
    #[error("{0}")]
    QuotaExceeded(QuotaExceeded),
    /// The disk is full; a retry may help once there is free space.
    #[error("no space is left for the database")]
    Full,
    /// The store failed.
    #[error("the database failed: {operation}")]
    Store {
        /// The operation that failed.
        operation: &'static str,
        /// The database's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The store of everything that must outlive a process.
///
/// # Contract
/// - A verb that returned `Ok` is durable: it survives power loss. A verb that returned an error changed nothing.
/// - `receive` stores a key once per channel and returns the same turn for a redelivered message.
/// - `receive` of an edit whose original was never received stores it as the message itself, under its own key and the
///   original's.
/// - `receive` of an edit replaces its original while no turn has started with it or consumed it.
/// - `record_undecodable` stores an update unchanged, once per channel and key; of each channel, the newest thousand.
/// - A channel has one checkpoint, the last one that was saved.
/// - `issue_pairing_code` returns the same code for a stranger until it expires, issues no more open codes on a channel
///   than the rules allow, and none to a person who was refused recently.
/// - `decide_pairing` accepts a code once, until it expires, from a decider for its channel who isn't locked out.
///   An approval also queues [`satchel_domain::SystemTask::ConfirmPairing`] for the person.
/// - An approved person is allowed on that channel until the approval is revoked; another id with the same name isn't.
/// - `rename_conversation` moves history, files, queue and outbox together, or nothing, and revokes the lease under the
///   old name. Queued turns and unsettled parts lose their references to platform messages, whose numbers belong to the
///   old name; `list_recorded_messages` returns none of the old name for the new.
/// - Messages of one sender's album that arrive before their turn starts are one turn; each postpones its `ready_at`.
/// - A lane has one holder at a time; its fencing tokens grow with each claim and never repeat.
/// - Every verb that takes a lease fails with [`LedgerError::LeaseLost`] if a newer one exists. `next_turn` and
///   `history` may use a cache of a lane that the process holds until its lease expires.
/// - A lane whose holder has exited can be claimed; one whose holder renews its lease can't.
/// - Claiming a lane that was not released adds one crash to its oldest incomplete turn.
/// - `claim_lane` claims only lanes of the named channels that have a turn ready or a part unsettled.
/// - `next_turn` returns a lane's turns in the order of their first messages, the same one until it is completed.
/// - `next_turn` returns the transcriptions that `record_transcription` stored, the latest `set_voice_replies` and the latest
///   `set_agent`.
/// - `journal_outcome` numbers the outcome's new files; stored files keep their number.
/// - The changes given to `journal_outcome` and `complete_turn` become lines of the audit log in the same commit, in their
///   order.
/// - `register_files` numbers new files as `journal_outcome` does, before the outcome exists; they can be read by id
///   from then on, however the turn ends.
/// - `complete_turn` commits consumed messages, history, response and parts together, and only once.
/// - `complete_turn` starts the first part if it needs no preparation and no earlier part of the lane is unsettled.
/// - If the turn streamed, the plan's first part takes the streamed part's id, target and doubt.
/// - A planned part that was refused is stored as failed.
/// - `settle_part` settles a part once, puts its children in its place, writes the one closing notice at the end of its
///   response, starts the lane's next part if [`satchel_domain::delivery::next_step`] says so, and releases an idle
///   lane.
/// - `list_recorded_messages` returns the bot's newest thousands of messages in the part's chat, with questions and
///   streamed ones, and whether another send there is in doubt or was left in doubt within two days.
/// - `begin_question` commits before the question is sent, so that a question may be in doubt as a part may.
/// - `active_conversations` returns each conversation with a turn that is incomplete, or was completed at `since` or later.
/// - `store_file`, `journal_outcome` and `register_files` fail with [`LedgerError::QuotaExceeded`] if a new file would
///   take its conversation, or the turn's requester, beyond a quota. Owners have no quota, and a turn without a
///   requester counts for its conversation alone. Quotas never keep a turn from completing or a part from settling.
/// - `reserve_workspace` applies the same quotas. A workspace counts for its conversation and, outside groups, for the
///   person who writes there.
/// - Forgetting a file removes its name and its address from every row in one commit; its number stays, and
///   `attachment` returns the tombstone. A file that an unsettled part or an incomplete turn needs can't be forgotten.
/// - Numbers of attachments count from 1 in each conversation and never repeat.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Checks that the store responds, by its smallest query.
    async fn ping(&self) -> Result<(), LedgerError>;

    /// Stores a message and claims its lane if `claim` says so.
    async fn receive(&self, message: &InboundMessage, claim: ClaimMode) -> Result<ReceiveOutcome, LedgerError>;

    /// Stores an update that could not be decoded. Returns `false` if its key is stored already.
    async fn record_undecodable(&self, update: &UndecodableUpdate) -> Result<bool, LedgerError>;

    /// Returns a channel's checkpoint, in its adapter's form.
    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, LedgerError>;

    /// Replaces a channel's checkpoint.
    async fn save_checkpoint(&self, channel: &ChannelName, checkpoint: &Value) -> Result<(), LedgerError>;

    /// Counts the undecodable updates of each channel.
    async fn count_undecodable(&self) -> Result<Vec<UndecodableCount>, LedgerError>;

    /// Renames a conversation, unless the new name has data of its own.
    async fn rename_conversation(
        &self,
        from: &ConversationId,
        to: &ConversationId,
    ) -> Result<RenameOutcome, LedgerError>;

    /// Returns a stranger's open code or issues one; `None` if they get none.
    async fn issue_pairing_code(
        &self,
        stranger: &PairingRequest,
        rules: &PairingRules,
    ) -> Result<Option<Pairing>, LedgerError>;

    /// Approves or refuses the person of a code.
    async fn decide_pairing(
        &self,
        decision: &PairingDecision,
        rules: &PairingRules,
    ) -> Result<PairingOutcome, LedgerError>;

    /// Returns the open codes, oldest first.
    async fn list_pairings(&self) -> Result<Vec<Pairing>, LedgerError>;

    /// Returns whether a person is approved on a channel; `id` is the channel's own.
    async fn is_approved(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError>;

    /// Returns the approved people, by channel.
    async fn list_people(&self) -> Result<Vec<Person>, LedgerError>;

    /// Revokes an approval. Returns `false` if no approval exists for this id.
    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError>;

    /// Claims the lane that has waited longest for work, among those of these channels.
    async fn claim_lane(&self, channels: &[ChannelName]) -> Result<Option<Lease>, LedgerError>;

    /// Renews leases and returns those that are lost.
    async fn renew(&self, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError>;

    /// Releases a lane. Returns `false` if it still has work and stays claimed.
    async fn release(&self, lease: &Lease, release: ReleaseMode) -> Result<bool, LedgerError>;

    /// Reads the lane's oldest incomplete turn.
    async fn next_turn(&self, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError>;

    /// Returns the messages queued behind `turn`, oldest first; of a flood, the first hundreds and the commands among
    /// the last hundreds.
    async fn list_queued_behind(&self, lease: &Lease, turn: TurnId) -> Result<Vec<QueuedMessage>, LedgerError>;

    /// Stores a fetched file as the `index`th of a message and numbers it.
    async fn store_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        attachment: &Attachment,
    ) -> Result<Attachment, LedgerError>;

    /// Records that the `index`th file of a message was refused.
    async fn refuse_file(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        refused: &RefusedFile,
    ) -> Result<(), LedgerError>;

    /// Records the transcription of a voice note, the `index`th file of a message, in place of an earlier one.
    async fn record_transcription(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        transcription: &Transcription,
    ) -> Result<(), LedgerError>;

    /// Turns voice replies of a conversation on or off; an unknown conversation is an error.
    async fn set_voice_replies(&self, conversation: &ConversationId, on: bool) -> Result<(), LedgerError>;

    /// Stores the name of the agent that was chosen for a conversation; `None` withdraws the choice. An unknown conversation
    /// is an error, an unknown agent isn't: the ledger knows no agents.
    async fn set_agent(&self, conversation: &ConversationId, agent: Option<String>) -> Result<(), LedgerError>;

    /// Records a model message with tool calls, before they start, or a person's decision about one of them.
    async fn journal_message(&self, lease: &Lease, turn: TurnId, entry: &JournalEntry) -> Result<(), LedgerError>;

    /// Records a call's outcome together with its new files and the changes that it made, and returns it with the files'
    /// numbers.
    async fn journal_outcome(
        &self,
        lease: &Lease,
        turn: TurnId,
        ordinal: u32,
        outcome: &ToolOutcome,
        changes: &[FileChange],
    ) -> Result<ToolOutcome, LedgerError>;

    /// Records files that a running call of a turn has made, all or none, and returns them with their numbers.
    async fn register_files(&self, turn: TurnId, files: &[Attachment]) -> Result<Vec<Attachment>, LedgerError>;

    /// Starts the message in which a turn streams; `None` while an earlier part of the lane is unsettled.
    async fn begin_stream(
        &self,
        lease: &Lease,
        turn: TurnId,
        reply_to: Option<MessageRef>,
    ) -> Result<Option<Part>, LedgerError>;

    /// Completes a turn and returns its first part, if that was started.
    async fn complete_turn(&self, lease: &Lease, completed: &CompletedTurn) -> Result<Option<Part>, LedgerError>;

    /// Reads the lane's oldest unsettled part of a completed turn.
    async fn next_part(&self, lease: &Lease) -> Result<Option<Part>, LedgerError>;

    /// Stores the current form of an unsettled part: sending, waiting, in doubt, prepared, with its target.
    async fn save_part(&self, lease: &Lease, part: &Part) -> Result<(), LedgerError>;

    /// Settles a part and starts the next.
    async fn settle_part(&self, lease: &Lease, settlement: &Settlement) -> Result<SettleOutcome, LedgerError>;

    /// Discards an unsettled part that is not being sent, for an operator.
    async fn discard_part(&self, part: PartId) -> Result<(), LedgerError>;

    /// Reads a turn.
    async fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, LedgerError>;

    /// Returns the conversations of a channel, the last used first.
    async fn conversations(&self, channel: &ChannelName, limit: u32) -> Result<Vec<ConversationSummary>, LedgerError>;

    /// Returns the conversations with activity since then.
    async fn active_conversations(&self, since: Timestamp) -> Result<Vec<ConversationId>, LedgerError>;

    /// Returns turns, oldest first, without those whose messages were all injected into another.
    async fn turns(&self, query: &TurnQuery) -> Result<Vec<TurnRecord>, LedgerError>;

    /// Returns the last `limit` messages of the history since its last reset, oldest first.
    async fn history(&self, conversation: &ConversationId, limit: u32) -> Result<Vec<HistoryMessage>, LedgerError>;

    /// Returns one file's record, or a forgotten one's tombstone; `None` for another conversation's file.
    async fn attachment(
        &self,
        conversation: &ConversationId,
        key: AttachmentKey,
    ) -> Result<Option<Attachment>, LedgerError>;

    /// Returns files' records, without forgotten ones.
    async fn attachments(&self, query: &AttachmentQuery) -> Result<Vec<Attachment>, LedgerError>;

    /// Returns the bytes that files take up.
    async fn usages(&self, query: &UsageQuery) -> Result<Vec<Usage>, LedgerError>;

    /// Reserves bytes for a write to a workspace, until `record_workspace` records its result.
    async fn reserve_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError>;

    /// Records the bytes of a workspace, with those reserved for running writes.
    async fn record_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError>;

    /// Forgets a file. Its bytes become unreferenced, unless another file has the same.
    async fn forget_file(&self, forget: &ForgetRequest) -> Result<ForgetOutcome, LedgerError>;

    /// Returns parts, newest first, or oldest first if the query is for unsettled ones only.
    async fn outbox(&self, query: &OutboxQuery) -> Result<Vec<Part>, LedgerError>;

    /// Returns the last message sent in the conversation before a part, where a look-up starts.
    async fn last_sent_before(&self, part: PartId) -> Result<Option<MessageRef>, LedgerError>;

    /// Returns the recorded messages among which a part of `conversation` is looked up that was first started at `since`.
    async fn list_recorded_messages(
        &self,
        conversation: &ConversationId,
        part: PartId,
        since: Timestamp,
    ) -> Result<RecordedMessages, LedgerError>;

    /// Records that a running turn is about to post a question.
    async fn begin_question(&self, lease: &Lease, question: PartId, turn: TurnId) -> Result<(), LedgerError>;

    /// Records the message as which a question arrived; `None` if it certainly did not.
    async fn settle_question(&self, question: PartId, message: Option<MessageRef>) -> Result<(), LedgerError>;

    /// Returns lines of the audit log, newest first.
    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, LedgerError>;

    /// Removes the lines of the audit log that were committed before this time, and returns how many there were.
    async fn prune_audit(&self, before: Timestamp) -> Result<u64, LedgerError>;

    /// Returns those of the addresses that no row references: no file's record, prepared voice or queued message.
    async fn find_unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError>;
}
