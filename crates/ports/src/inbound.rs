//! The way in: what channel adapters hand their messages to.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use serde_json::Value;

/// Why a message was not taken. The adapter must not tell its platform that it was.
#[derive(Debug, thiserror::Error)]
#[error("the message could not be stored")]
pub struct InboundError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Takes messages in. Implemented by `intake`, called by every channel adapter.
///
/// # Contract
/// - `accept` returns `Ok` only after the message is durable; only then may the platform hear of it.
/// - A message whose key is known already is taken as the one that it repeats.
/// - A message for a channel that isn't hosted is an error, and nothing of it is stored.
/// - Markers in a message's words and captions are plain text; its typed `references` become the one block behind its
///   words, where tools and models find them.
/// - Of a message whose sender may not talk nothing is kept; `Ok(None)` says so, and the platform may hear that it came.
/// - `rename_conversation` returns `Ok` only after all that the conversation has is under its new name. Where something is
///   there already both stay as they are: that is told to the operator, and no error.
/// - `record_undecodable` returns `Ok` only after the update is durable; one whose key is known already is kept once. Where
///   its sender may not talk, or nobody knows who it is, it is counted and nothing of its content is kept.
/// - `bookmark` reads what `save_checkpoint` stored last for the channel; what was stored survives the process.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Inbound: Send + Sync {
    /// Stores a message and wakes whoever works on its conversation. Returns the turn that it became part of; `None`
    /// when its sender may not talk.
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError>;

    /// Lets a conversation go on under another name that the platform has given it.
    async fn rename_conversation(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError>;

    /// Keeps an update that the adapter can't read, so that nothing is skipped silently.
    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError>;

    /// Reads how far a platform's stream had been taken in; `None` when nothing was kept. Only the adapter that wrote it
    /// knows what it means.
    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError>;

    /// Keeps how far a platform's stream has been taken in. What it says is taken must have been accepted before.
    async fn save_checkpoint(&self, channel: &ChannelName, bookmark: Value) -> Result<(), InboundError>;
}
