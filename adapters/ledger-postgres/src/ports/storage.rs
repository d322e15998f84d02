//! The port `Storage`: quotas, forgetting and the audit log.

use async_trait::async_trait;
use satchel_domain::{ConversationId, Sha256, Timestamp};
use satchel_ports::{
    AuditQuery, AuditRecord,
    ledger::{ForgetOutcome, ForgetRequest, LedgerError, Storage, Usage, UsageQuery},
};

use crate::{PostgresLedger, audit, forget, queries, records, usage, workspace_usage};

#[async_trait]
impl Storage for PostgresLedger {
    async fn usages(&self, query: &UsageQuery) -> Result<Vec<Usage>, LedgerError> {
        self.read("reading storage usage", |db| async move { usage::usages(&db, query).await }).await
    }

    async fn reserve_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        self.write(
            "reserving workspace bytes",
            |db| async move { workspace_usage::reserve(&db, conversation, bytes).await },
        )
        .await
    }

    async fn record_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        self.write("recording a workspace's size", |db| async move {
            workspace_usage::record(&db, conversation, bytes).await
        })
        .await
    }

    async fn forget_file(&self, forget: &ForgetRequest) -> Result<ForgetOutcome, LedgerError> {
        self.write("forgetting a file", |db| async move { forget::forget_file(&db, forget).await }).await
    }

    async fn find_unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError> {
        self.read("finding unreferenced blobs", |db| async move { queries::unreferenced(&db, blobs).await }).await
    }

    async fn active_conversations(&self, since: Timestamp) -> Result<Vec<ConversationId>, LedgerError> {
        self.read("reading which conversations are active", |db| async move {
            records::active_conversations(&db, since).await
        })
        .await
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, LedgerError> {
        self.read("reading the audit log", |db| async move { audit::list(&db, query).await }).await
    }

    async fn prune_audit(&self, before: Timestamp) -> Result<u64, LedgerError> {
        self.write("pruning the audit log", |db| async move { audit::prune(&db, before).await }).await
    }
}
