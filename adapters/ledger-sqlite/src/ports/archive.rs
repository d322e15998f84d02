//! The port `Archive`: what is stored, for readers.

use async_trait::async_trait;
use satchel_domain::{Attachment, ConversationId, HistoryMessage, Part, TurnId};
use satchel_ports::ledger::{
    Archive, AttachmentKey, AttachmentQuery, LedgerError, OutboxQuery, TurnQuery, TurnRecord, UndecodableCount,
};

use crate::{SqliteLedger, database::Database, history, lanes, queries, records, undecodable};

#[async_trait]
impl Archive for SqliteLedger {
    async fn ping(&self) -> Result<(), LedgerError> {
        self.read("checking the database", queries::ping).await
    }

    async fn count_processes(&self) -> Result<usize, LedgerError> {
        self.read("counting the processes", |db| Ok(db.process.owners.living()?)).await
    }

    async fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, LedgerError> {
        self.read("reading a turn", move |db| records::turn(db, turn)).await
    }

    async fn turns(&self, query: &TurnQuery) -> Result<Vec<TurnRecord>, LedgerError> {
        let query = query.clone();
        self.read("reading turns", move |db| records::turns(db, &query)).await
    }

    async fn history(&self, conversation: &ConversationId, limit: u32) -> Result<Vec<HistoryMessage>, LedgerError> {
        let conversation = conversation.clone();
        let read = move |db: &Database| match lanes::find_id(db, &conversation)? {
            Some(lane) => history::read(db, lane, limit),
            None => Ok(Vec::new()),
        };
        self.read("reading the history", read).await
    }

    async fn attachment(
        &self,
        conversation: &ConversationId,
        key: AttachmentKey,
    ) -> Result<Option<Attachment>, LedgerError> {
        let conversation = conversation.clone();
        self.read("reading a file's record", move |db| queries::attachment(db, &conversation, key)).await
    }

    async fn attachments(&self, query: &AttachmentQuery) -> Result<Vec<Attachment>, LedgerError> {
        let query = query.clone();
        self.read("reading files' records", move |db| queries::attachments(db, &query)).await
    }

    async fn parts(&self, query: &OutboxQuery) -> Result<Vec<Part>, LedgerError> {
        let query = query.clone();
        self.read("reading the outbox", move |db| queries::outbox(db, &query)).await
    }

    async fn count_undecodable(&self) -> Result<Vec<UndecodableCount>, LedgerError> {
        self.read("counting undecodable updates", |db| undecodable::count(db)).await
    }
}
