//! The one durable truth: what came in, what is being worked on, what was said, what goes out.
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
use uuid::Uuid;

pub use self::records::{
    AttachmentKey, AttachmentOrder, AttachmentQuery, ClaimMode, CompletedTurn, ConversationSummary, Explained,
    HistoryChange, HolderId, InboundFileState, JournalEntry, Lease, OutboxQuery, QueuedMessage, QueuedTurn,
    ReceiveOutcome, RecordedMessage, RecordedMessages, ReleaseMode, RenameOutcome, SettleOutcome, Settlement,
    SteeringMessage, SteeringRequests, ToolDecision, Transcription, TurnQuery, TurnRecord, UndecodableCount,
};
use self::{
    people::{Pairing, PairingDecision, PairingOutcome, PairingRequest, PairingRules, Person},
    usage::{ForgetFile, Forgotten, QuotaExceeded, Usage, UsageQuery},
};

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
    /// A quota leaves no room for a file; trying again helps once files were forgotten.
    #[error("{0}")]
    QuotaExceeded(QuotaExceeded),
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
/// - `receive` of an edit whose original was never received stores it as the message itself: its key and the original's
///   are known from then on.
/// - `receive` of an edit whose original no completed turn has consumed and no owner has taken up replaces it.
/// - `record_undecodable` keeps an update once per channel and key, as it is given; of each channel the newest thousand.
/// - A channel has one bookmark, the last one that was kept.
/// - `introduce` gives a stranger the same code while it lives, to no more strangers of a channel at once than the rules
///   allow, and none to somebody who was refused not long ago.
/// - `decide_pairing` lets a code count once, only while it lives, only to those who decide about its channel, and to
///   nobody who said too many wrong ones. Letting somebody in also queues [`satchel_domain::SystemTask::ConfirmPairing`] for them.
/// - Somebody who was let in may talk on that channel until they are revoked, and nobody else for having their name.
/// - `rename_conversation` moves history, files, queue and outbox as one, or nothing; whoever worked on the conversation
///   under its old name has lost the lease. What is unsettled or waits forgets the messages that it answers or edits:
///   their numbers are those of the old name. No message of the old name is among the known ones of the new.
/// - Messages of one sender's album that arrive before their turn begins are one turn; each pushes its `ready_at` out.
/// - A lane has one owner at a time; tokens of one lane never repeat and only grow.
/// - Every verb that takes a lease fails with [`LedgerError::LeaseLost`] when a newer one exists. `next_turn` and `history`
///   may go by what a process remembers of a lane that it holds, for as long as its lease has not run out.
/// - A lane whose owner is gone can be taken; one whose owner lives and renews can't.
/// - Taking a lane that was not released adds one crash to its oldest incomplete turn.
/// - `claim_lane` claims only lanes of the named channels that have a turn ready or a part unsettled.
/// - `next_turn` returns a lane's turns in the order of their first messages, the same one until it is complete.
/// - `next_turn` brings the words of voice notes that `record_transcription` stored, and what `set_voice` set last.
/// - `journal_outcome` numbers the outcome's new files; files that it knows keep their number.
/// - `register_files` numbers new files as `journal_outcome` does, before there is an outcome; they are found by their ids
///   from then on, whatever becomes of the turn.
/// - `complete_turn` commits consumed messages, history, response and parts together, and only once.
/// - `complete_turn` begins the first part when nothing earlier in the lane is unsettled and it needs no preparation.
/// - When the turn streamed, the plan's first part takes the streamed part's id, target and unanswered doubt.
/// - A planned part that was refused is stored as failed.
/// - `settle_part` settles a part once, puts its children in its place, writes the one closing notice at the end of its
///   response, begins the lane's next part if [`satchel_domain::delivery::next_step`] says so, and releases a lane that
///   has nothing left to do.
/// - `list_recorded_messages` has every message of ours in the part's chat among the newest thousands, questions and
///   streamed ones included, and tells whether another send there is in doubt, or was left in doubt within two days.
/// - `begin_question` is durable before the question is sent, so that one of which nobody knows whether it arrived is a
///   doubt like that of a part.
/// - `active_conversations` names each conversation with a turn that is incomplete, or was completed at `since` or later.
/// - `store_file`, `journal_outcome` and `register_files` fail with [`LedgerError::QuotaExceeded`] where a new file takes
///   its conversation, or the person whose turn it is, beyond a quota. Owners are bound by neither, and a turn that no
///   person asked for counts for its conversation alone. Whatever the quotas, a turn can be completed and a part settled.
/// - `reserve_workspace` keeps to the same quotas. A workspace counts for its conversation and, where that is no group, for
///   the person who writes there.
/// - A file that is forgotten loses its name and its address in every row, at once or not at all; its number stays, and
///   `attachment` answers with the tombstone. Nothing is forgotten that an unsettled part or an incomplete turn needs.
/// - Numbers of attachments count from 1 in each conversation and never repeat.
/// - `new_id` never repeats, and later ids of one process sort after earlier ones.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;

    /// A new UUIDv7.
    fn new_id(&self) -> Uuid;

    /// Makes the smallest query there is, to tell whether the store answers.
    async fn ping(&self) -> Result<(), LedgerError>;

    /// Stores a message and, if asked, claims its lane.
    async fn receive(&self, message: &InboundMessage, claim: ClaimMode) -> Result<ReceiveOutcome, LedgerError>;

    /// Keeps an update that can't be read; `false` when its key was known already.
    async fn record_undecodable(&self, update: &UndecodableUpdate) -> Result<bool, LedgerError>;

    /// Reads how far a channel's stream had been taken in, in the words of its adapter.
    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, LedgerError>;

    /// Keeps how far a channel's stream has been taken in, in place of what was kept before.
    async fn save_checkpoint(&self, channel: &ChannelName, bookmark: &Value) -> Result<(), LedgerError>;

    /// Counts the updates that can't be read, by channel.
    async fn count_undecodable(&self) -> Result<Vec<UndecodableCount>, LedgerError>;

    /// Lets a conversation go on under another name, unless that has something of its own.
    async fn rename_conversation(
        &self,
        from: &ConversationId,
        to: &ConversationId,
    ) -> Result<RenameOutcome, LedgerError>;

    /// Finds or makes the code of somebody unknown; `None` when they get none.
    async fn issue_pairing_code(
        &self,
        stranger: &PairingRequest,
        rules: &PairingRules,
    ) -> Result<Option<Pairing>, LedgerError>;

    /// Lets the person of a code in, or refuses them.
    async fn decide_pairing(
        &self,
        verdict: &PairingDecision,
        rules: &PairingRules,
    ) -> Result<PairingOutcome, LedgerError>;

    /// Reads the codes that can still be used, the oldest first.
    async fn list_pairings(&self) -> Result<Vec<Pairing>, LedgerError>;

    /// Whether somebody was let in on a channel; `id` is the channel's own.
    async fn is_approved(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError>;

    /// Reads who was let in, by channel.
    async fn list_people(&self) -> Result<Vec<Person>, LedgerError>;

    /// Takes back that somebody was let in; `false` when nobody was by that id.
    async fn revoke_person(&self, channel: &ChannelName, id: &str) -> Result<bool, LedgerError>;

    /// Claims the lane of one of these channels that has waited longest for work to be done.
    async fn claim_lane(&self, channels: &[ChannelName]) -> Result<Option<Lease>, LedgerError>;

    /// Prolongs leases and returns those that are lost.
    async fn renew(&self, leases: &[Lease]) -> Result<Vec<Lease>, LedgerError>;

    /// Gives a lane back; `false` when it has work and was kept.
    async fn release(&self, lease: &Lease, release: ReleaseMode) -> Result<bool, LedgerError>;

    /// Reads the lane's oldest incomplete turn.
    async fn next_turn(&self, lease: &Lease) -> Result<Option<QueuedTurn>, LedgerError>;

    /// Reads the messages that wait behind `turn`, oldest first; of a flood only the first hundreds, and the
    /// commands among the last hundreds.
    async fn list_queued_behind(&self, lease: &Lease, turn: TurnId) -> Result<Vec<QueuedMessage>, LedgerError>;

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
    async fn record_transcription(
        &self,
        lease: &Lease,
        message: InboxId,
        index: u32,
        heard: &Transcription,
    ) -> Result<(), LedgerError>;

    /// Sets whether the replies of a conversation are spoken too; a conversation that isn't known is an error.
    async fn set_voice_replies(&self, conversation: &ConversationId, on: bool) -> Result<(), LedgerError>;

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

    /// Records files that a running call of a turn has made, all or none, and returns them with their numbers.
    async fn register_files(&self, turn: TurnId, files: &[Attachment]) -> Result<Vec<Attachment>, LedgerError>;

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
    async fn settle_part(&self, lease: &Lease, settlement: &Settlement) -> Result<SettleOutcome, LedgerError>;

    /// Gives up an unsettled part that is not being sent, on an operator's word.
    async fn discard_part(&self, part: PartId) -> Result<(), LedgerError>;

    /// Reads a turn.
    async fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, LedgerError>;

    /// Reads the conversations of a channel, the one last used first.
    async fn conversations(&self, channel: &ChannelName, limit: u32) -> Result<Vec<ConversationSummary>, LedgerError>;

    /// Reads the conversations that have not been idle since then.
    async fn active_conversations(&self, since: Timestamp) -> Result<Vec<ConversationId>, LedgerError>;

    /// Reads turns, oldest first; those whose messages were all injected into another are left out.
    async fn turns(&self, query: &TurnQuery) -> Result<Vec<TurnRecord>, LedgerError>;

    /// Reads the history since it last began anew: its last `limit` messages, oldest first.
    async fn history(&self, conversation: &ConversationId, limit: u32) -> Result<Vec<HistoryMessage>, LedgerError>;

    /// Reads one file's record, or what is left of a forgotten one; a foreign file is as unknown as a missing one.
    async fn attachment(
        &self,
        conversation: &ConversationId,
        key: AttachmentKey,
    ) -> Result<Option<Attachment>, LedgerError>;

    /// Reads files' records, without forgotten ones.
    async fn attachments(&self, query: &AttachmentQuery) -> Result<Vec<Attachment>, LedgerError>;

    /// Reads what files take up.
    async fn usages(&self, query: &UsageQuery) -> Result<Vec<Usage>, LedgerError>;

    /// Sets bytes aside for a write to a workspace, until `record_workspace` says what came of it.
    async fn reserve_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError>;

    /// Records how many bytes a workspace holds, with what is set aside for writes that run.
    async fn record_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError>;

    /// Forgets a file. Its bytes are nobody's from then on, unless another file has the same.
    async fn forget_file(&self, forget: &ForgetFile) -> Result<Forgotten, LedgerError>;

    /// Reads parts, newest first unless only those under way are asked for.
    async fn outbox(&self, query: &OutboxQuery) -> Result<Vec<Part>, LedgerError>;

    /// Reads the last message that was sent in the conversation before a part; where a look-up begins.
    async fn last_sent_before(&self, part: PartId) -> Result<Option<MessageRef>, LedgerError>;

    /// Reads what is known of the messages of a channel, where a part of `conversation` is looked for that was first begun
    /// at `since`.
    async fn list_recorded_messages(
        &self,
        conversation: &ConversationId,
        part: PartId,
        since: Timestamp,
    ) -> Result<RecordedMessages, LedgerError>;

    /// Records that a running turn is about to put a question.
    async fn begin_question(&self, lease: &Lease, question: PartId, turn: TurnId) -> Result<(), LedgerError>;

    /// Records as which message a question arrived; `None` when it certainly did not.
    async fn settle_question(&self, question: PartId, message: Option<MessageRef>) -> Result<(), LedgerError>;

    /// Of these addresses, those that no row references: no file's record, no prepared voice, no message that waits.
    async fn find_unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError>;
}
