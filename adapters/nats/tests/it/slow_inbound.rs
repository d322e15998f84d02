//! An intake that stores what one sender writes only once it is released.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, TurnId, UndecodableUpdate};
use satchel_ports::{Inbound, InboundError};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::harness::{TIMEOUT, turn};

pub(crate) struct SlowInbound {
    slow_sender: &'static str,
    busy: CancellationToken,
    released: CancellationToken,
}

impl SlowInbound {
    pub(crate) fn new(slow_sender: &'static str) -> Self {
        Self { slow_sender, busy: CancellationToken::new(), released: CancellationToken::new() }
    }

    /// Waits until a message of the slow sender is being stored.
    pub(crate) async fn wait_until_busy(&self) {
        timeout(TIMEOUT, self.busy.cancelled()).await.expect("a message of the slow sender comes");
    }

    /// Stores what waits, and from now on everything at once.
    pub(crate) fn release(&self) {
        self.released.cancel();
    }
}

#[async_trait]
impl Inbound for SlowInbound {
    async fn accept(&self, message: InboundMessage) -> Result<Option<TurnId>, InboundError> {
        if message.sender.id == self.slow_sender {
            self.busy.cancel();
            self.released.cancelled().await;
        }
        Ok(Some(turn(7)))
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
