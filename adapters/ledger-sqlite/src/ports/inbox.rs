//! The port `Inbox`: what comes in.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, UndecodableUpdate};
use satchel_ports::ledger::{ClaimMode, Inbox, LedgerError, ReceiveOutcome, RenameOutcome};
use serde_json::Value;

use super::read;
use crate::{SqliteLedger, checkpoints, receive, rename, undecodable};

#[async_trait]
impl Inbox for SqliteLedger {
    async fn receive(&self, message: &InboundMessage, claim: ClaimMode) -> Result<ReceiveOutcome, LedgerError> {
        let (process, conversation) = (Arc::clone(&self.process), &message.conversation);
        let (message, until) = (message.clone(), self.lease_end());
        let received = self
            .writer
            .write("receiving a message", move |s| {
                Box::pin(async move { receive::receive(s, &process, &message, claim).await })
            })
            .await?;
        match &received.claimed {
            Some(claimed) => self.held.claimed(&claimed.lease, until),
            None => self.held.expect_more(conversation),
        }
        Ok(received)
    }

    async fn record_undecodable(&self, update: &UndecodableUpdate) -> Result<bool, LedgerError> {
        let (process, update) = (Arc::clone(&self.process), update.clone());
        self.writer
            .write("storing an undecodable update", move |s| {
                Box::pin(async move { undecodable::keep(s, &process, &update).await })
            })
            .await
    }

    async fn rename_conversation(
        &self,
        from: &ConversationId,
        to: &ConversationId,
    ) -> Result<RenameOutcome, LedgerError> {
        let (from, to) = (from.clone(), to.clone());
        let names = [from.clone(), to.clone()];
        let renamed = self
            .writer
            .write("renaming a conversation", move |s| Box::pin(async move { rename::rename(s, &from, &to).await }))
            .await;
        names.iter().for_each(|name| self.held.evict(name));
        renamed
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, LedgerError> {
        read!(self, "loading a checkpoint", checkpoints::read, channel)
    }

    async fn save_checkpoint(&self, channel: &ChannelName, bookmark: &Value) -> Result<(), LedgerError> {
        let (channel, bookmark) = (channel.clone(), bookmark.clone());
        self.writer
            .write("saving a checkpoint", move |s| {
                Box::pin(async move { checkpoints::keep(s, &channel, &bookmark).await })
            })
            .await
    }
}
