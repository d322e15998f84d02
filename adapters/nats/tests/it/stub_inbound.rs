//! An intake that a test writes as a function.

use async_trait::async_trait;
use futures::{FutureExt, future::BoxFuture};
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde_json::Value;

pub(crate) type AcceptResult = Result<Option<TurnId>, InboundError>;

pub(crate) struct StubInbound(Box<dyn Fn(InboundMessage) -> BoxFuture<'static, AcceptResult> + Send + Sync>);

impl StubInbound {
    pub(crate) fn new<A>(accept: impl Fn(InboundMessage) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = AcceptResult> + Send + 'static,
    {
        Self(Box::new(move |message| accept(message).boxed()))
    }
}

#[async_trait]
impl Inbound for StubInbound {
    async fn accept(&self, message: InboundMessage) -> AcceptResult {
        (self.0)(message).await
    }

    async fn rename_conversation(&self, _: ConversationId, _: ConversationId) -> Result<(), InboundError> {
        unreachable!("no request renames a conversation")
    }

    async fn record_undecodable(&self, _: UndecodableUpdate) -> Result<(), InboundError> {
        unreachable!("a request is stored or rejected")
    }

    async fn load_checkpoint(&self, _: &ChannelName) -> Result<Option<Value>, InboundError> {
        unreachable!("requests have no checkpoint")
    }

    async fn save_checkpoint(&self, _: &ChannelName, _: Value) -> Result<(), InboundError> {
        unreachable!("requests have no checkpoint")
    }
}
