//! The port `Inbox`: what comes in.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, UndecodableUpdate};
use satchel_ports::ledger::{ClaimMode, Inbox, LedgerError, ReceiveOutcome, RenameOutcome};
use serde_json::Value;

use crate::{PostgresLedger, checkpoints, receive, rename, undecodable};

#[async_trait]
impl Inbox for PostgresLedger {
    async fn receive(&self, message: &InboundMessage, claim: ClaimMode) -> Result<ReceiveOutcome, LedgerError> {
        self.write("receiving a message", |db| async move { receive::receive(&db, message, claim).await }).await
    }

    async fn record_undecodable(&self, update: &UndecodableUpdate) -> Result<bool, LedgerError> {
        self.write("storing an undecodable update", |db| async move { undecodable::record(&db, update).await }).await
    }

    async fn rename_conversation(
        &self,
        from: &ConversationId,
        to: &ConversationId,
    ) -> Result<RenameOutcome, LedgerError> {
        self.write("renaming a conversation", |db| async move { rename::rename(&db, from, to).await }).await
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, LedgerError> {
        self.read("loading a checkpoint", |db| async move { checkpoints::load(&db, channel).await }).await
    }

    async fn save_checkpoint(&self, channel: &ChannelName, checkpoint: &Value) -> Result<(), LedgerError> {
        self.write("saving a checkpoint", |db| async move { checkpoints::save(&db, channel, checkpoint).await }).await
    }
}
