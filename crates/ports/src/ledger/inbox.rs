//! The inbox: everything that comes in, stored before it is acknowledged.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use serde_json::Value;

use super::{ClaimMode, ClaimedLane, LedgerError};

/// The store of everything that comes in.
///
/// # Contract
/// Besides that of [all ports](super):
/// - `receive` stores a key once per channel and returns the same turn for a redelivered message.
/// - `receive` of an edit whose original was never received stores it as the message itself, under its own key and the
///   original's.
/// - `receive` of an edit replaces its original while no turn has started with it or consumed it.
///   The same holds for an earlier edit of it. One that comes too late is a message of its own, with what it corrects as its
///   [`earlier_text`](satchel_domain::InboundMessage::earlier_text).
/// - `receive` of an edit that changes neither text nor files is a duplicate of the newest version, and so is one with the same
///   [`content_digest`](satchel_domain::InboundMessage::content_digest).
/// - `receive` puts the [`opening`](satchel_domain::InboundMessage::opening) of a message before its text if it is the first of
///   its conversation that brings one, and before each edit of it. It is dropped from all others, also after the conversation
///   was forgotten.
/// - A file that its channel can't read is refused from the start.
/// - Messages of one sender's album that arrive before their turn starts are one turn; each postpones its `ready_at`.
/// - `record_undecodable` stores an update unchanged, once per channel and key; of each channel, the newest thousand.
/// - A channel has one checkpoint, the last one that was saved.
/// - `rename_conversation` moves history, files, queue and outbox together, or nothing, and revokes the lease under the
///   old name. Queued turns and unsettled parts lose their references to platform messages, whose numbers belong to the
///   old name; `list_recorded_messages` returns none of the old name for the new.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Stores a message and claims its lane if `claim` says so. In a process that works on its own turns only, a message fails
    /// with [`LedgerError::LaneHeld`] while another process holds the lane, unless it is about the turn that runs
    /// ([`ClaimMode::IfFreeOrQueue`]).
    async fn receive(&self, message: &InboundMessage, claim: ClaimMode) -> Result<ReceiveOutcome, LedgerError>;

    /// Stores an update that could not be decoded. Returns `false` if its key is stored already.
    async fn record_undecodable(&self, update: &UndecodableUpdate) -> Result<bool, LedgerError>;

    /// Renames a conversation, unless the new name has data of its own.
    async fn rename_conversation(
        &self,
        from: &ConversationId,
        to: &ConversationId,
    ) -> Result<RenameOutcome, LedgerError>;

    /// Returns a channel's checkpoint, in its adapter's form.
    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, LedgerError>;

    /// Replaces a channel's checkpoint.
    async fn save_checkpoint(&self, channel: &ChannelName, checkpoint: &Value) -> Result<(), LedgerError>;
}

/// The result of receiving a message.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiveOutcome {
    /// The message's turn.
    pub turn: TurnId,
    /// Whether the key was stored already, so that nothing changed.
    pub duplicate: bool,
    /// The message's lane, if a claim was requested and the lane was free.
    pub claimed: Option<ClaimedLane>,
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
