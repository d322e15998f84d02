//! Counts those who were turned away at the door.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UnreadableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde_json::Value;

use super::{Figures, OfChannel};

/// A door that counts.
pub struct MeasuredInbound {
    inner: Arc<dyn Inbound>,
    figures: Arc<Figures>,
}

impl MeasuredInbound {
    /// Counts what goes through `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Inbound>, figures: Arc<Figures>) -> Self {
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
            self.figures.turned_away.get_or_create(&OfChannel { channel }).inc();
        }
        Ok(taken)
    }

    async fn conversation_moved(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        self.inner.conversation_moved(from, to).await
    }

    async fn keep_unreadable(&self, update: UnreadableUpdate) -> Result<(), InboundError> {
        self.inner.keep_unreadable(update).await
    }

    async fn bookmark(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        self.inner.bookmark(channel).await
    }

    async fn keep_bookmark(&self, channel: &ChannelName, bookmark: Value) -> Result<(), InboundError> {
        self.inner.keep_bookmark(channel, bookmark).await
    }
}
