//! What must be done now and then: removing what nobody needs any more.

use std::{sync::Arc, time::Duration};

use satchel_files::DirectoryWorkspace;
use satchel_ports::{Blobs, Ledger};
use tokio_util::sync::CancellationToken;

/// How long bytes that nothing refers to are left alone: a file is stored before the row that names it.
pub const GRACE: Duration = Duration::from_secs(60 * 60);

/// How often it is done.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// For how long a conversation must have been idle before its `/tmp` is emptied.
const IDLE: Duration = Duration::from_secs(24 * 60 * 60);

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

/// What is kept in order.
#[derive(Clone)]
pub struct Upkeep {
    /// Knows what is referred to.
    pub ledger: Arc<dyn Ledger>,
    /// Keeps the bytes.
    pub blobs: Arc<dyn Blobs>,
    /// Keeps the conversations' own files.
    pub workspace: DirectoryWorkspace,
}

/// Removes at once what dead processes left in the workspaces, then tidies up every hour until `stop` is cancelled.
pub async fn run(upkeep: Upkeep, stop: CancellationToken) {
    report("what dead processes left in workspaces", upkeep.workspace.remove_leftovers().await);
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        let collected = collect(&*upkeep.ledger, &*upkeep.blobs).await;
        report("bytes that nothing refers to", collected.map(|collected| collected.freed));
        report("the /tmp of idle conversations", upkeep.workspace.sweep_tmp(IDLE).await);
    }
}

fn report(what: &str, removed: Result<u64, impl std::fmt::Display>) {
    match removed {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed {what}"),
        Err(error) => tracing::warn!(error = format!("{error:#}"), "failed to remove {what}"),
    }
}
