//! The port `Inbox`: what comes in.

use async_trait::async_trait;
use satchel_domain::{ChannelName, ConversationId, InboundMessage, UndecodableUpdate};
use satchel_ports::ledger::{ClaimMode, Inbox, LedgerError, ReceiveOutcome, RenameOutcome};
use serde_json::Value;

use crate::{SqliteLedger, checkpoints, receive, rename, undecodable};

#[async_trait]
impl Inbox for SqliteLedger {
    async fn receive(&self, message: &InboundMessage, claim: ClaimMode) -> Result<ReceiveOutcome, LedgerError> {
        let message = message.clone();
        self.writer.run("receiving a message", move |db| receive::receive(db, &message, claim)).await
    }

    async fn record_undecodable(&self, update: &UndecodableUpdate) -> Result<bool, LedgerError> {
        let update = update.clone();
        self.writer.run("storing an undecodable update", move |db| undecodable::record(db, &update)).await
    }

    async fn rename_conversation(
        &self,
        from: &ConversationId,
        to: &ConversationId,
    ) -> Result<RenameOutcome, LedgerError> {
        let (from, to) = (from.clone(), to.clone());
        self.writer.run("renaming a conversation", move |db| rename::rename(db, &from, &to)).await
    }

    async fn load_checkpoint(&self, channel: &ChannelName) -> Result<Option<Value>, LedgerError> {
        let channel = channel.clone();
        self.read("loading a checkpoint", move |db| checkpoints::load(db, &channel)).await
    }

    async fn save_checkpoint(&self, channel: &ChannelName, checkpoint: &Value) -> Result<(), LedgerError> {
        let (channel, checkpoint) = (channel.clone(), checkpoint.clone());
        self.writer.run("saving a checkpoint", move |db| checkpoints::save(db, &channel, &checkpoint)).await
    }
}
