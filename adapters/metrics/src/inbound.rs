//! Counts the messages from people who are not allowed.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde_json::Value;

use super::{ChannelLabels, Metrics};

/// An inbound port that counts.
pub struct MeasuredInbound {
    inner: Arc<dyn Inbound>,
    metrics: Arc<Metrics>,
}

impl MeasuredInbound {
    /// Counts the messages that `inner` refuses.
    #[must_use]
    pub fn new(inner: Arc<dyn Inbound>, metrics: Arc<Metrics>) -> Self {
        Self { inner, metrics }
    }
}

#[async_trait]
#[warn(clippy::missing_trait_methods)]
impl Inbound for MeasuredInbound {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        let channel = self.metrics.channel_label(message.conversation.channel().as_str());
        let turn = self.inner.accept(message).await?;
        if turn.is_none() {
            self.metrics.refused.get_or_create(&ChannelLabels { channel }).inc();
        }
        Ok(turn)
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

    async fn save_checkpoint(&self, channel: &ChannelName, checkpoint: Value) -> Result<(), InboundError> {
        self.inner.save_checkpoint(channel, checkpoint).await
    }
}
