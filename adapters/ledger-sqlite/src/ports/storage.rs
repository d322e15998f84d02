//! The port `Storage`: quotas, forgetting and the audit log.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{ConversationId, Sha256, Timestamp};
use satchel_ports::{
    AuditQuery, AuditRecord,
    ledger::{ForgetOutcome, ForgetRequest, LedgerError, Storage, Usage, UsageQuery},
};

use super::read;
use crate::{SqliteLedger, audit, forget, queries, records, usage, workspace_usage};

#[async_trait]
impl Storage for SqliteLedger {
    async fn usages(&self, query: &UsageQuery) -> Result<Vec<Usage>, LedgerError> {
        read!(self, "reading storage usage", usage::usages, query)
    }

    async fn reserve_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        let (process, conversation) = (Arc::clone(&self.process), conversation.clone());
        self.writer
            .write("reserving workspace bytes", move |s| {
                Box::pin(
                    async move { workspace_usage::reserve(s, &process.settings.quotas, &conversation, bytes).await },
                )
            })
            .await
    }

    async fn record_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        let conversation = conversation.clone();
        self.writer
            .write("recording a workspace's size", move |s| {
                Box::pin(async move { workspace_usage::record(s, &conversation, bytes).await })
            })
            .await
    }

    async fn forget_file(&self, forget: &ForgetRequest) -> Result<ForgetOutcome, LedgerError> {
        let (process, file) = (Arc::clone(&self.process), forget.clone());
        let forgotten = self
            .writer
            .write("forgetting a file", move |s| Box::pin(async move { forget::forget_file(s, &process, &file).await }))
            .await;
        self.held.evict(&forget.conversation);
        forgotten
    }

    async fn find_unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError> {
        read!(self, "finding unreferenced blobs", queries::unreferenced, blobs)
    }

    async fn active_conversations(&self, since: Timestamp) -> Result<Vec<ConversationId>, LedgerError> {
        read!(self, "reading which conversations are active", records::active_conversations, since)
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, LedgerError> {
        read!(self, "reading the audit log", audit::list, query)
    }

    async fn prune_audit(&self, before: Timestamp) -> Result<u64, LedgerError> {
        self.writer.write("pruning the audit log", move |s| Box::pin(audit::prune(s, before))).await
    }
}
