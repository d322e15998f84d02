//! The contract of all stores.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use satchel_blobs_s3::S3Blobs;
use satchel_contracts::blobs::BlobsFixture;
use satchel_domain::Sha256;
use satchel_ports::Blobs;
use satchel_wait::wait_until_async;
use tokio::{runtime::Handle, task::block_in_place};

use crate::stage::{PREFIX, Stage, open};

#[async_trait]
impl BlobsFixture for Stage {
    async fn new() -> Result<Self, String> {
        Self::start().await
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::<S3Blobs>::clone(&self.blobs)
    }

    /// The times of objects are those of HTTP.
    fn time_resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn restart(self) -> Self {
        // What a dropped put has left is removed beside the process's other work.
        let wait = wait_until_async("nothing is left", async || self.bucket.count_leftovers().await == 0);
        // The wait borrows what it looks at, which a future that changes threads may not.
        block_in_place(|| Handle::current().block_on(wait));
        let blobs = Arc::new(open(&self.server.url(PREFIX)));
        Self { blobs, ..self }
    }

    async fn count_leftovers(&self) -> usize {
        self.bucket.count_leftovers().await
    }

    async fn damage(&self, sha256: &Sha256) {
        self.bucket.change(sha256, |content| content[1] ^= 1).await;
    }

    async fn truncate(&self, sha256: &Sha256) {
        self.bucket.change(sha256, |content| content.truncate(content.len() - 1)).await;
    }
}

satchel_contracts::blobs_contract!(Stage);
