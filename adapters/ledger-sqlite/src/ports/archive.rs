//! The port `Archive`: what is stored, for readers.

use async_trait::async_trait;
use satchel_domain::{Attachment, ChannelName, ConversationId, HistoryMessage, Part, TurnId};
use satchel_ports::ledger::{
    Archive, AttachmentKey, AttachmentQuery, ConversationSummary, LedgerError, OutboxQuery, TurnQuery, TurnRecord,
    UndecodableCount,
};

use super::read;
use crate::{SqliteLedger, held::CachedHistory, queries, records, undecodable};

#[async_trait]
impl Archive for SqliteLedger {
    async fn ping(&self) -> Result<(), LedgerError> {
        read!(self, "checking the database", queries::ping)
    }

    async fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, LedgerError> {
        read!(self, "reading a turn", records::turn, turn)
    }

    async fn turns(&self, query: &TurnQuery) -> Result<Vec<TurnRecord>, LedgerError> {
        read!(self, "reading turns", records::turns, query)
    }

    async fn conversations(&self, channel: &ChannelName, limit: u32) -> Result<Vec<ConversationSummary>, LedgerError> {
        read!(self, "reading the conversations", records::conversations, channel, limit)
    }

    async fn history(&self, conversation: &ConversationId, limit: u32) -> Result<Vec<HistoryMessage>, LedgerError> {
        match self.held.history(conversation, limit) {
            CachedHistory::Messages(messages) => Ok(messages),
            CachedHistory::Nothing(reading) => {
                let read = read!(self, "reading the history", queries::history, conversation, limit)?;
                if let Some(reading) = reading {
                    self.held.learn(conversation, reading, &read, limit);
                }
                Ok(read)
            }
        }
    }

    async fn attachment(
        &self,
        conversation: &ConversationId,
        key: AttachmentKey,
    ) -> Result<Option<Attachment>, LedgerError> {
        read!(self, "reading a file's record", queries::attachment, conversation, key)
    }

    async fn attachments(&self, query: &AttachmentQuery) -> Result<Vec<Attachment>, LedgerError> {
        read!(self, "reading files' records", queries::attachments, query)
    }

    async fn parts(&self, query: &OutboxQuery) -> Result<Vec<Part>, LedgerError> {
        read!(self, "reading the outbox", queries::outbox, query)
    }

    async fn count_undecodable(&self) -> Result<Vec<UndecodableCount>, LedgerError> {
        read!(self, "counting undecodable updates", undecodable::counts)
    }
}
