//! What must be done now and then: removing bytes that nothing refers to any more.

use std::{sync::Arc, time::Duration};

use satchel_domain::size;
use satchel_ports::{Blobs, Ledger};
use tokio_util::sync::CancellationToken;

/// How long bytes that nothing refers to are left alone: a file is stored before the row that names it.
pub const GRACE: Duration = Duration::from_secs(60 * 60);

/// How often it is done.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// What a collection found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// How many blobs were old enough to be looked at.
    pub looked_at: usize,
    /// How many of them nothing refers to; those are marked.
    pub unreferenced: usize,
    /// How many bytes were removed.
    pub freed: u64,
}

/// Marks the bytes that nothing refers to and removes those that are marked.
///
/// # Errors
/// When the store or the ledger fails; nothing that is referred to is ever removed.
pub async fn collect(ledger: &dyn Ledger, blobs: &dyn Blobs) -> anyhow::Result<Collected> {
    let stale = blobs.stale(GRACE).await?;
    let unreferenced = ledger.unreferenced(&stale).await?;
    blobs.mark(&unreferenced).await?;
    let freed = blobs.sweep().await?;
    Ok(Collected { looked_at: stale.len(), unreferenced: unreferenced.len(), freed })
}

/// Collects every hour until `stop` is cancelled.
pub async fn run(ledger: Arc<dyn Ledger>, blobs: Arc<dyn Blobs>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        match collect(&*ledger, &*blobs).await {
            Ok(Collected { freed: 0, .. }) => {}
            Ok(collected) => {
                tracing::info!(freed = size::human(collected.freed), "removed bytes that nothing refers to")
            }
            Err(error) => tracing::warn!(error = format!("{error:#}"), "bytes that nothing refers to were not removed"),
        }
    }
}
