//! The store in memory keeps the promises of the one on a disk.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use satchel_contracts::blobs::BlobsFixture;
use satchel_domain::Sha256;
use satchel_files::MemoryBlobs;
use satchel_ports::Blobs;

struct Fixture(MemoryBlobs);

impl Fixture {
    async fn content(&self, sha256: &Sha256) -> Vec<u8> {
        let content = self.0.open(sha256, Some(0..u64::MAX)).await.unwrap();
        content.map_ok(|chunk| chunk.to_vec()).try_concat().await.unwrap()
    }
}

#[async_trait]
impl BlobsFixture for Fixture {
    async fn new() -> Result<Self, String> {
        Ok(Self(MemoryBlobs::default()))
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(self.0.clone())
    }

    async fn restart(self) -> Self {
        // There is nothing but the process: it lasts as long.
        self
    }

    async fn count_leftovers(&self) -> usize {
        0
    }

    async fn damage(&self, sha256: &Sha256) {
        let mut content = self.content(sha256).await;
        content[1] ^= 1;
        self.0.damage(sha256, content);
    }

    async fn truncate(&self, sha256: &Sha256) {
        let mut content = self.content(sha256).await;
        content.pop();
        self.0.damage(sha256, content);
    }
}

satchel_contracts::blobs_contract!(Fixture);
