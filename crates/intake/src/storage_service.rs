//! The storage of a ledger with the bytes of its files: one that is forgotten takes its bytes along.

use std::sync::Arc;

use async_trait::async_trait;
use satchel_domain::{AttachmentId, ConversationId, LinkRevocation, Sha256, Timestamp};
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

    async fn revoke_links(&self, attachment: AttachmentId) -> Result<Option<LinkRevocation>, LedgerError> {
        self.storage.revoke_links(attachment).await
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
    use std::num::NonZeroU64;

    use satchel_domain::{Attachment, AttachmentSource, Filename, MediaInfo, Visibility};
    use satchel_ports::{MockBlobs, MockStorage};
    use uuid::Uuid;

    use super::*;

    fn request() -> ForgetRequest {
        ForgetRequest { conversation: "web:a".parse().unwrap(), number: 1, restricted_to: None }
    }

    #[tokio::test]
    async fn file_in_use_keeps_its_bytes() {
        let mut storage = MockStorage::new();
        storage.expect_forget_file().once().returning(|_| Ok(ForgetOutcome::InUse));
        // Nothing else is called.
        let service = StorageService { storage: Arc::new(storage), blobs: Arc::new(MockBlobs::new()) };
        assert_eq!(service.forget_file(&request()).await.unwrap(), ForgetOutcome::InUse);
    }

    #[tokio::test]
    async fn bytes_go_with_the_last_file_that_names_them() {
        for is_last in [true, false] {
            let (mut storage, mut blobs) = (MockStorage::new(), MockBlobs::new());
            let file = Box::new(Attachment {
                id: AttachmentId(Uuid::from_u128(1)),
                number: NonZeroU64::MIN,
                conversation: request().conversation,
                source: AttachmentSource::User,
                filename: Filename::from_untrusted("a.jpg"),
                mime: "image/jpeg".to_owned(),
                bytes: 5,
                sha256: Sha256([1; 32]),
                media: MediaInfo::default(),
                description: String::new(),
                created_at: Timestamp(0),
                visibility: Visibility::Deliver,
                link_revocation: None,
            });
            storage.expect_forget_file().once().returning(move |_| Ok(ForgetOutcome::Forgotten(file.clone())));
            storage
                .expect_find_unreferenced()
                .once()
                .returning(move |asked| Ok(if is_last { asked.to_vec() } else { Vec::new() }));
            let times = usize::from(is_last);
            blobs.expect_mark().times(times).withf(|marked, _| marked == [Sha256([1; 32])]).returning(|_, _| Ok(()));
            blobs.expect_sweep().times(times).returning(|| Ok(1));
            let service = StorageService { storage: Arc::new(storage), blobs: Arc::new(blobs) };
            assert!(matches!(service.forget_file(&request()).await.unwrap(), ForgetOutcome::Forgotten(_)));
        }
    }
}
