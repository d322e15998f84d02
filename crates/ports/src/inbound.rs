//! The port through which channel adapters pass messages in.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use serde_json::Value;

/// Why a message was not stored. The adapter must not acknowledge it to its platform.
#[derive(Debug, thiserror::Error)]
#[error("the message could not be stored")]
pub struct InboundError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Accepts messages. Implemented by `intake`, called by every channel adapter.
///
/// # Contract
/// - `accept` returns `Ok` only after the message is durable; only then may the adapter acknowledge it.
/// - A message whose dedup key is stored already is a redelivery: it returns the stored message's turn.
/// - A message for a channel that isn't hosted is an error; nothing of it is stored.
/// - Markers in a message's text and captions stay plain text; its typed `references` become the one block after its
///   text, where tools and models find them.
/// - A message from a sender who isn't allowed is not stored; the result is `Ok(None)`, and the adapter may acknowledge
///   it.
/// - Of a person who isn't allowed nothing is stored either where somebody else quotes or names them: the
///   [redacted form](satchel_domain::RedactedForm) takes the message's place.
/// - `rename_conversation` returns `Ok` only after all data of the conversation has the new name. If the new name has
///   data already, both stay as they are; the operator is informed, and it is no error.
/// - `record_undecodable` returns `Ok` only after the update is durable; a repeated key is stored once. If its sender
///   isn't allowed or is unknown, the update is counted and its content is not stored.
/// - `load_checkpoint` returns what `save_checkpoint` stored last for the channel, also after a restart.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Inbound: Send + Sync {
    /// Stores a message and wakes its conversation's worker. Returns its turn, or `None` if its sender isn't allowed.
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError>;

    /// Renames a conversation, as its platform has done.
    async fn rename_conversation(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError>;

    /// Stores an update that the adapter can't decode, so that nothing is skipped silently.
    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError>;

    /// Returns the channel's checkpoint, if there is one. Its form is the adapter's own.
    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError>;

    /// Saves the channel's checkpoint. Everything up to it must have been accepted before.
    async fn save_checkpoint(&self, channel: &ChannelName, checkpoint: Value) -> Result<(), InboundError>;
}
