//! What must be done now and then: removing what nobody needs any more.

mod retention;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use satchel_domain::Timestamp;
use satchel_files::DirectoryWorkspace;
use satchel_intake::forget::BLOB_GRACE;
use satchel_ports::{Blobs, Ledger};
use tokio_util::sync::CancellationToken;

use crate::metered_workspace::MeteredWorkspace;

pub use self::retention::RetentionTask;

/// How often it is done.
const EVERY: Duration = Duration::from_secs(60 * 60);

/// For how long a conversation must have been idle before its `/tmp` is emptied.
const TMP_TTL: Duration = Duration::from_secs(24 * 60 * 60);

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
    let stale = blobs.list_stale(BLOB_GRACE).await?;
    let unreferenced = ledger.find_unreferenced(&stale).await?;
    blobs.mark(&unreferenced, BLOB_GRACE).await?;
    let freed = blobs.sweep().await?;
    Ok(Collected { looked_at: stale.len(), unreferenced: unreferenced.len(), freed })
}

/// Empties `/tmp` of every conversation that has had no turn for a day; returns the bytes freed.
///
/// `now` is the disk's time: what is written after it belongs to a turn of which the ledger may know nothing yet.
///
/// # Errors
/// When the ledger or the disk fails; `/tmp` of a conversation that is active is never touched.
pub async fn empty_tmp(ledger: &dyn Ledger, workspace: &DirectoryWorkspace, now: SystemTime) -> anyhow::Result<u64> {
    let day = i64::try_from(TMP_TTL.as_millis()).unwrap_or(i64::MAX);
    let since = Timestamp(ledger.now().0.saturating_sub(day));
    let active = ledger.active_conversations(since).await?;
    Ok(workspace.sweep_tmp(&active, now).await?)
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
    /// The same, as they count for the quotas.
    pub metered: Arc<MeteredWorkspace>,
}

/// Closes the workspaces of earlier versions and removes at once what dead processes left in them, then tidies up every
/// hour until `stop` is cancelled. `retention` removes old files, where that is this process's to do.
pub async fn run(upkeep: Upkeep, retention: Option<RetentionTask>, stop: CancellationToken) {
    match upkeep.workspace.close_to_others().await {
        Ok(0) => {}
        Ok(workspaces) => tracing::info!(workspaces, "removed other users' access to data of an earlier version"),
        Err(error) => tracing::warn!(%error, "failed to remove other users' access to all workspaces"),
    }
    report("leftovers of dead processes in workspaces", upkeep.workspace.remove_leftovers().await);
    record_workspaces(&upkeep).await;
    loop {
        if let Some(retention) = &retention {
            report("files beyond the retention", retention.run().await);
        }
        if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
            return;
        }
        let collected = collect(&*upkeep.ledger, &*upkeep.blobs).await;
        report("unused stored bytes", collected.map(|collected| collected.freed));
        let emptied = empty_tmp(&*upkeep.ledger, &upkeep.workspace, SystemTime::now()).await;
        report("the /tmp of idle conversations", emptied);
        record_workspaces(&upkeep).await;
    }
}

/// What was removed without the tools counts no longer.
async fn record_workspaces(upkeep: &Upkeep) {
    if let Err(error) = upkeep.metered.record_all().await {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(error, "recording the workspaces' sizes failed");
    }
}

fn report(what: &str, removed: Result<u64, impl std::fmt::Display>) {
    match removed {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed {what}"),
        Err(error) => tracing::warn!(error = format!("{error:#}"), "failed to remove {what}"),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use satchel_domain::ConversationId;
    use satchel_ports::{Workspace, WriteMode, ledger::MockLedger};

    use super::*;

    #[tokio::test]
    async fn tmp_stays_until_its_conversation_is_idle() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = DirectoryWorkspace::open(directory.path(), None, 1 << 20).unwrap();
        let conversation: ConversationId = "console:main".parse().unwrap();
        let content = stream::iter([Ok(Bytes::from_static(b"12345"))]).boxed();
        let path = "/tmp/a".parse().unwrap();
        workspace.write(&conversation, &path, content, WriteMode::CreateNew, 100).await.unwrap();
        let day = 24 * 60 * 60 * 1000;
        for (now, freed) in [(1_000 + day, 0), (1_001 + day, 5)] {
            let mut ledger = MockLedger::new();
            ledger.expect_now().return_const(Timestamp(now));
            let last_turn = conversation.clone();
            ledger
                .expect_active_conversations()
                .returning(move |since| Ok(if since <= Timestamp(1_000) { vec![last_turn.clone()] } else { vec![] }));
            let later = SystemTime::now() + Duration::from_secs(60);
            assert_eq!(empty_tmp(&ledger, &workspace, later).await.unwrap(), freed, "{now}");
        }
    }
}
