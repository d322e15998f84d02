//! The channel in both directions: what is sent, edited, looked up and fetched, and what comes in.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{
    ChannelCapabilities, ChannelName, ChannelState, ConversationId, FileReference, InboundMessage, MessageRef, Sender,
    TurnId, UndecodableUpdate, delivery::SendError,
};
use satchel_ports::{
    Activity, Channel, FetchedFile, FileFetchError, Inbound, InboundError, LookupOutcome, LookupRequest, PostRequest,
    PreviewRequest,
};

use serde_json::Value;

use super::{CrashWrapper, between};
use crate::crash::points::CrashPoints;

#[async_trait]
impl Channel for CrashWrapper<Arc<dyn Channel>> {
    fn name(&self) -> ChannelName {
        self.inner.name()
    }

    fn capabilities(&self, conversation: &ConversationId) -> ChannelCapabilities {
        self.inner.capabilities(conversation)
    }

    fn can_write(&self, conversation: &ConversationId, sender: &Sender) -> bool {
        self.inner.can_write(conversation, sender)
    }

    async fn find_parents(&self, conversation: &ConversationId) -> Result<Vec<ConversationId>, SendError> {
        self.inner.find_parents(conversation).await
    }

    fn state(&self) -> ChannelState {
        self.inner.state()
    }

    async fn next_state(&self, state: &ChannelState) -> ChannelState {
        self.inner.next_state(state).await
    }

    async fn post(&self, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        between!(self, "channel.post", self.inner.post(request))
    }

    async fn edit(&self, message: &MessageRef, request: &PostRequest) -> Result<Vec<MessageRef>, SendError> {
        between!(self, "channel.edit", self.inner.edit(message, request))
    }

    async fn delete(&self, conversation: &ConversationId, message: &MessageRef) -> Result<(), SendError> {
        between!(self, "channel.delete", self.inner.delete(conversation, message))
    }

    async fn show_preview(&self, request: &PreviewRequest) -> Result<(), SendError> {
        between!(self, "channel.show_preview", self.inner.show_preview(request))
    }

    async fn find_sent(&self, request: &LookupRequest) -> Result<LookupOutcome, SendError> {
        between!(self, "channel.find_sent", self.inner.find_sent(request))
    }

    async fn probe(&self) -> Result<(), SendError> {
        between!(self, "channel.probe", self.inner.probe())
    }

    async fn show_activity(&self, conversation: &ConversationId, activity: Activity) {
        self.inner.show_activity(conversation, activity).await;
    }

    async fn fetch(&self, reference: &FileReference) -> Result<FetchedFile, FileFetchError> {
        between!(self, "channel.fetch", self.inner.fetch(reference))
    }
}

/// The way in, which [`satchel::build::build`] makes and the channel's inbound side calls.
pub(crate) struct CrashInbound(CrashWrapper<Arc<dyn Inbound>>);

impl CrashInbound {
    pub(crate) fn new(inner: Arc<dyn Inbound>, points: &Arc<CrashPoints>) -> Self {
        Self(CrashWrapper::new(inner, points))
    }
}

#[async_trait]
impl Inbound for CrashInbound {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        let wrapper = &self.0;
        between!(wrapper, "inbound.accept", wrapper.inner.accept(message))
    }

    async fn rename_conversation(&self, from: ConversationId, to: ConversationId) -> Result<(), InboundError> {
        let wrapper = &self.0;
        between!(wrapper, "inbound.conversation_moved", wrapper.inner.rename_conversation(from, to))
    }

    async fn record_undecodable(&self, update: UndecodableUpdate) -> Result<(), InboundError> {
        let wrapper = &self.0;
        between!(wrapper, "inbound.keep_unreadable", wrapper.inner.record_undecodable(update))
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, InboundError> {
        let wrapper = &self.0;
        between!(wrapper, "inbound.bookmark", wrapper.inner.load_checkpoint(channel))
    }

    async fn save_checkpoint(&self, channel: &ChannelName, checkpoint: Value) -> Result<(), InboundError> {
        let wrapper = &self.0;
        between!(wrapper, "inbound.keep_bookmark", wrapper.inner.save_checkpoint(channel, checkpoint))
    }
}
