//! Counts those who were turned away at the door.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde_json::Value;

use super::{ChannelLabels, Metrics};

/// A door that counts.
pub struct MeasuredInbound {
    inner: Arc<dyn Inbound>,
    figures: Arc<Metrics>,
}

impl MeasuredInbound {
    /// Counts what goes through `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Inbound>, figures: Arc<Metrics>) -> Self {
        Self { inner, figures }
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl Inbound for MeasuredInbound {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        let channel = self.figures.channel(message.conversation.channel().as_str());
        let taken = self.inner.accept(message).await?;
        if taken.is_none() {
            self.figures.turned_away.get_or_create(&ChannelLabels { channel }).inc();
        }
        Ok(taken)
    }

    async fn rename_conversation(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        self.inner.rename_conversation(from, to).await
    }

    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError> {
        self.inner.record_undecodable(update).await
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        self.inner.load_checkpoint(channel).await
    }

    async fn save_checkpoint(&self, channel: &ChannelName, bookmark: Value) -> Result<(), InboundError> {
        self.inner.save_checkpoint(channel, bookmark).await
    }
}
