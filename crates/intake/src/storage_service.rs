//! The storage of a ledger with the bytes of its files: one that is forgotten takes its bytes along.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{ConversationId, Sha256, Timestamp};
use satchel_ports::{
    AuditQuery, AuditRecord, Blobs, LedgerError, Storage,
    ledger::{ForgetOutcome, ForgetRequest, Usage, UsageQuery},
};

use crate::forget::forget_file;

/// The storage of a ledger, and where the bytes of its files are.
#[derive(Clone)]
pub struct StorageService {
    /// Where they are recorded.
    pub storage: Arc<dyn Storage>,
    pub blobs: Arc<dyn Blobs>,
}

#[async_trait]
impl Storage for StorageService {
    /// Forgets the file as `/forget` does. A caller that stops waiting doesn't stop it.
    async fn forget_file(&self, forget: &ForgetRequest) -> Result<ForgetOutcome, LedgerError> {
        let (whole, forget) = (self.clone(), forget.clone());
        let forget = tokio::spawn(async move { forget_file(&*whole.storage, &*whole.blobs, &forget).await });
        let failed = |error| LedgerError::Store { operation: "forgetting a file", source: Box::new(error) };
        forget.await.map_err(failed)?
    }

    async fn usages(&self, query: &UsageQuery) -> Result<Vec<Usage>, LedgerError> {
        self.storage.usages(query).await
    }

    async fn reserve_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        self.storage.reserve_workspace(conversation, bytes).await
    }

    async fn record_workspace(&self, conversation: &ConversationId, bytes: u64) -> Result<(), LedgerError> {
        self.storage.record_workspace(conversation, bytes).await
    }

    async fn find_unreferenced(&self, blobs: &[Sha256]) -> Result<Vec<Sha256>, LedgerError> {
        self.storage.find_unreferenced(blobs).await
    }

    async fn active_conversations(&self, since: Timestamp) -> Result<Vec<ConversationId>, LedgerError> {
        self.storage.active_conversations(since).await
    }

    async fn audit(&self, query: &AuditQuery) -> Result<Vec<AuditRecord>, LedgerError> {
        self.storage.audit(query).await
    }

    async fn prune_audit(&self, before: Timestamp) -> Result<u64, LedgerError> {
        self.storage.prune_audit(before).await
    }
}

#[cfg(test)]
mod tests {
    use satchel_ports::{MockBlobs, MockStorage};

    use super::*;

    #[tokio::test]
    async fn kept_file_keeps_its_bytes() {
        let mut storage = MockStorage::new();
        storage.expect_forget_file().once().returning(|_| Ok(ForgetOutcome::InUse));
        // Nothing else is called.
        let service = StorageService { storage: Arc::new(storage), blobs: Arc::new(MockBlobs::new()) };
        let conversation = "web:a".parse().unwrap();
        let request = ForgetRequest { conversation, number: 1, restricted_to: None };
        assert_eq!(service.forget_file(&request).await.unwrap(), ForgetOutcome::InUse);
    }
}
