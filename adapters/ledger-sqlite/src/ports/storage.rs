//! The port `Storage`: quotas, forgetting and the audit log.

use async_trait::async_trait;
use satchel_domain::{ConversationId, Sha256, Timestamp};
use satchel_ports::{
    AuditQuery, AuditRecord,
    ledger::{ForgetOutcome, ForgetRequest, LedgerError, Storage, Usage, UsageQuery},
};

use crate::{SqliteLedger, audit, forget, queries, records, usage, workspace_usage};

#[async_trait]
impl Storage for SqliteLedger {
    async fn usages(&self, query: &UsageQuery) -> Result<Vec<Usage>, LedgerError> {
        let query = query.clone();
        self.read("reading storage usage", move |db| usage::usages(db, &query)).await
    }

    async fn reserve_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        let conversation = conversation.clone();
        self.writer.run("reserving workspace bytes", move |db| workspace_usage::reserve(db, &conversation, bytes)).await
    }

    async fn record_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        let conversation = conversation.clone();
        self.writer
            .run("recording a workspace's size", move |db| workspace_usage::record(db, &conversation, bytes))
            .await
    }

    async fn forget_file(&self, forget: &ForgetRequest) -> Result<ForgetOutcome, LedgerError> {
        let forget = forget.clone();
        self.writer.run("forgetting a file", move |db| forget::forget_file(db, &forget)).await
    }

    async fn find_unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError> {
        let blobs = blobs.to_vec();
        self.read("finding unreferenced blobs", move |db| queries::unreferenced(db, &blobs)).await
    }

    async fn active_conversations(&self, since: Timestamp) -> Result<Vec<ConversationId>, LedgerError> {
        self.read("reading which conversations are active", move |db| records::active_conversations(db, since)).await
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, LedgerError> {
        let query = query.clone();
        self.read("reading the audit log", move |db| audit::list(db, &query)).await
    }

    async fn prune_audit(&self, before: Timestamp) -> Result<u64, LedgerError> {
        self.writer.run("pruning the audit log", move |db| audit::prune(db, before)).await
    }
}
