//! The port `Archive`: what is stored, for readers.

use async_trait::async_trait;
use satchel_domain::{Attachment, ConversationId, HistoryMessage, Part, TurnId};
use satchel_ports::ledger::{
    Archive, AttachmentKey, AttachmentQuery, LedgerError, OutboxQuery, TurnQuery, TurnRecord, UndecodableCount,
};

use crate::{PostgresLedger, history, lanes, queries, records, undecodable};

#[async_trait]
impl Archive for PostgresLedger {
    async fn ping(&self) -> Result<(), LedgerError> {
        self.read("checking the database", |db| async move { queries::ping(&db).await }).await
    }

    async fn count_processes(&self) -> Result<usize, LedgerError> {
        self.read("counting the processes", |db| async move { queries::count_processes(&db).await }).await
    }

    async fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, LedgerError> {
        self.read("reading a turn", |db| async move { records::turn(&db, turn).await }).await
    }

    async fn turns(&self, query: &TurnQuery) -> Result<Vec<TurnRecord>, LedgerError> {
        self.read("reading turns", |db| async move { records::turns(&db, query).await }).await
    }

    async fn history(&self, conversation: &ConversationId, limit: u32) -> Result<Vec<HistoryMessage>, LedgerError> {
        self.read("reading the history", |db| async move {
            match lanes::find_id(&db, conversation).await? {
                Some(lane) => history::read(&db, lane, limit).await,
                None => Ok(Vec::new()),
            }
        })
        .await
    }

    async fn attachment(
        &self,
        conversation: &ConversationId,
        key: AttachmentKey,
    ) -> Result<Option<Attachment>, LedgerError> {
        self.read("reading a file's record", |db| async move { queries::attachment(&db, conversation, key).await })
            .await
    }

    async fn attachments(&self, query: &AttachmentQuery) -> Result<Vec<Attachment>, LedgerError> {
        self.read("reading files' records", |db| async move { queries::attachments(&db, query).await }).await
    }

    async fn parts(&self, query: &OutboxQuery) -> Result<Vec<Part>, LedgerError> {
        self.read("reading the outbox", |db| async move { queries::outbox(&db, query).await }).await
    }

    async fn count_undecodable(&self) -> Result<Vec<UndecodableCount>, LedgerError> {
        self.read("counting undecodable updates", |db| async move { undecodable::count(&db).await }).await
    }
}
