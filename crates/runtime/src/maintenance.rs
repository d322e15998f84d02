//! Periodic maintenance: indexes what was said, and removes unreferenced bytes, leftovers of dead processes and old
//! temporary files.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use satchel_domain::{Timestamp, error_chain};
use satchel_intake::forget::{BLOB_GRACE, remove_forgotten_workspaces};
use satchel_ports::{BlobError, Blobs, Clock, Conversations, LedgerError, Storage, Workspace};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const INTERVAL: Duration = Duration::from_secs(60 * 60);

/// For how long a conversation must have been idle before its `/tmp` is emptied.
const TMP_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// For how long a deleted file can be restored.
const TRASH_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// For how long a line of the audit log is kept.
const AUDIT_TTL: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// How many turns are indexed in one commit, for which others that write wait: about 5 ms, and a tenth of a second where
/// each has a long text.
const INDEXED_TOGETHER: u32 = 40;

/// The pause between two such commits.
const INDEXING_PAUSE: Duration = Duration::from_millis(10);

/// Why the stores could not be cleaned.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Blobs(#[from] BlobError),
    #[error(transparent)]
    Workspace(#[from] std::io::Error),
}

/// The result of a garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcReport {
    /// How many blobs were old enough to be checked.
    pub checked: usize,
    /// How many of them are unreferenced and marked.
    pub unreferenced: usize,
    /// How many bytes were removed.
    pub freed_bytes: u64,
}

/// Marks the unreferenced blobs and removes those that were marked before.
///
/// # Errors
/// When the store or the ledger fails; a referenced blob is never removed.
pub async fn collect_garbage(storage: &dyn Storage, blobs: &dyn Blobs) -> Result<GcReport, MaintenanceError> {
    let stale = blobs.list_stale(BLOB_GRACE).await?;
    let unreferenced = storage.find_unreferenced(&stale).await?;
    blobs.mark(&unreferenced, BLOB_GRACE).await?;
    let freed = blobs.sweep().await?;
    Ok(GcReport { checked: stale.len(), unreferenced: unreferenced.len(), freed_bytes: freed })
}

/// Empties `/tmp` of every conversation that has had no turn for a day; returns the bytes freed.
///
/// Keeps files written after `disk_now`, the disk's time: they may belong to a turn that the ledger does not have yet.
///
/// # Errors
/// When the ledger or the disk fails; `/tmp` of a conversation that is active is never touched.
pub async fn empty_tmp(
    storage: &dyn Storage,
    workspace: &dyn Workspace,
    now: Timestamp,
    disk_now: SystemTime,
) -> Result<u64, MaintenanceError> {
    let active = storage.active_conversations(before(now, TMP_TTL)).await?;
    Ok(workspace.sweep_tmp(&active, disk_now).await?)
}

/// Removes for good what tools deleted at least a day ago; returns the bytes freed.
///
/// # Errors
/// When the disk fails.
pub async fn empty_trash(workspace: &dyn Workspace, now: Timestamp) -> std::io::Result<u64> {
    workspace.sweep_trash(before(now, TRASH_TTL)).await
}

/// Removes the lines of the audit log that are 90 days old, and returns how many there were.
///
/// # Errors
/// When the ledger fails.
pub async fn prune_audit(storage: &dyn Storage, now: Timestamp) -> Result<u64, LedgerError> {
    storage.prune_audit(before(now, AUDIT_TTL)).await
}

/// Indexes all completed turns for searches, those of an earlier version too, until `stop` is cancelled.
///
/// # Errors
/// When the ledger fails.
pub async fn index_turns(conversations: &dyn Conversations, stop: &CancellationToken) -> Result<(), LedgerError> {
    while conversations.index_turns(INDEXED_TOGETHER).await? > 0 {
        if stop.run_until_cancelled(tokio::time::sleep(INDEXING_PAUSE)).await.is_none() {
            break;
        }
    }
    Ok(())
}

/// The time that lies this long before another.
fn before(now: Timestamp, duration: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
}

/// The time that files written now carry.
fn disk_time(clock: &dyn Clock) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(clock.wall().0).unwrap_or(0))
}

/// Cleans up the stores while the lanes are worked.
pub struct Maintenance {
    /// Where the references to blobs are.
    pub storage: Arc<dyn Storage>,
    /// Where turns are indexed, and what is left of forgotten conversations is known.
    pub conversations: Arc<dyn Conversations>,
    pub clock: Arc<dyn Clock>,
    /// The bytes of files, of which unreferenced ones are removed.
    pub blobs: Arc<dyn Blobs>,
    /// The directories whose `/tmp` and trash are emptied.
    pub workspace: Arc<dyn Workspace>,
}

impl Maintenance {
    /// Goes on with what a crash has cut short of forgetting conversations.
    async fn remove_forgotten_workspaces(&self) {
        let removed = remove_forgotten_workspaces(&*self.conversations, &*self.workspace).await;
        log_report("workspaces of forgotten conversations", removed);
    }

    /// Removes the leftovers of dead processes at once, then collects garbage every hour until `stop` is cancelled. Lanes may
    /// be worked once `prepared` is sent or dropped: until then the old files of a forgotten conversation may be there.
    pub async fn run(self, prepared: oneshot::Sender<()>, stop: CancellationToken) {
        self.remove_forgotten_workspaces().await;
        // Who waited may have gone away.
        let _ = prepared.send(());
        log_report("leftovers of dead processes in workspaces", self.workspace.remove_leftovers().await);
        self.index_turns(&stop).await;
        while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            let result = collect_garbage(&*self.storage, &*self.blobs).await;
            log_report("unused stored bytes", result.map(|report| report.freed_bytes));
            let now = self.clock.now();
            let result = empty_tmp(&*self.storage, &*self.workspace, now, disk_time(&*self.clock)).await;
            log_report("the /tmp of idle conversations", result);
            log_report("files deleted a day ago", empty_trash(&*self.workspace, now).await);
            log_report("lines of the audit log that are 90 days old", prune_audit(&*self.storage, now).await);
            self.remove_forgotten_workspaces().await;
            self.index_turns(&stop).await;
        }
    }

    async fn index_turns(&self, stop: &CancellationToken) {
        if let Err(error) = index_turns(&*self.conversations, stop).await {
            tracing::warn!(error = error_chain(&error), "failed to index turns for searches");
        }
    }
}

pub(crate) fn log_report(subject: &str, result: Result<u64, impl std::error::Error + 'static>) {
    match result {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed {subject}"),
        Err(error) => tracing::warn!(error = error_chain(&error), "failed to remove {subject}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use futures::{StreamExt, stream};
    use satchel_domain::ConversationId;
    use satchel_files::{DirectoryWorkspace, NativeRunner};
    use satchel_ports::{
        ManualClock, MockBlobs, MockWorkspace, WriteMode,
        ledger::{MockConversations, MockStorage},
    };

    use super::*;

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "files carry the machine's time")]
    async fn tmp_stays_until_its_conversation_is_idle() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = DirectoryWorkspace::open(directory.path(), None, 1 << 20, Arc::new(NativeRunner)).unwrap();
        let conversation: ConversationId = "console:main".parse().unwrap();
        let content = stream::iter([Ok(Bytes::from_static(b"12345"))]).boxed();
        let path = "/tmp/a".parse().unwrap();
        workspace.write(&conversation, &path, content, WriteMode::CreateNew, 100).await.unwrap();
        let day = 24 * 60 * 60 * 1000;
        for (now, freed) in [(1_000 + day, 0), (1_001 + day, 5)] {
            let mut ledger = MockStorage::new();
            let last_turn = conversation.clone();
            ledger
                .expect_active_conversations()
                .returning(move |since| Ok(if since <= Timestamp(1_000) { vec![last_turn.clone()] } else { vec![] }));
            let later = SystemTime::now() + Duration::from_secs(60);
            assert_eq!(empty_tmp(&ledger, &workspace, Timestamp(now), later).await.unwrap(), freed, "{now}");
        }
    }

    /// Programs that embed Satchel run only what `build` returns.
    #[tokio::test(start_paused = true)]
    async fn stores_are_cleaned_every_hour() {
        let (mut ledger, mut blobs, mut workspace) = (MockStorage::new(), MockBlobs::new(), MockWorkspace::new());
        let stop = CancellationToken::new();
        workspace.expect_remove_leftovers().once().returning(|| Ok(0));
        blobs.expect_list_stale().times(2).returning(|_| Ok(Vec::new()));
        ledger.expect_find_unreferenced().times(2).returning(|_| Ok(Vec::new()));
        blobs.expect_mark().times(2).returning(|_, _| Ok(()));
        blobs.expect_sweep().times(2).returning(|| Ok(7));
        ledger.expect_active_conversations().times(2).returning(|_| Ok(Vec::new()));
        workspace.expect_sweep_trash().times(2).returning(|_| Ok(3));
        let is_90_days_ago = |before: &Timestamp| before.0 == 5_000 - 90 * 24 * 60 * 60 * 1000;
        ledger.expect_prune_audit().times(2).withf(is_90_days_ago).returning(|_| Ok(3));
        let (swept, stopping) = (AtomicUsize::new(0), stop.clone());
        let is_wall_time = |read_at: &SystemTime| *read_at == UNIX_EPOCH + Duration::from_secs(5);
        workspace.expect_sweep_tmp().times(2).withf(move |_, read_at| is_wall_time(read_at)).returning(move |_, _| {
            if swept.fetch_add(1, Ordering::SeqCst) == 1 {
                stopping.cancel();
            }
            Ok(0)
        });
        let mut conversations = MockConversations::new();
        let forgotten: ConversationId = "web:gone".parse().unwrap();
        let left = forgotten.clone();
        conversations.expect_list_forgotten_workspaces().once().returning(move || Ok(vec![left.clone()]));
        conversations.expect_record_workspace_removed().once().returning(|_| Ok(()));
        conversations.expect_list_forgotten_workspaces().times(2).returning(|| Ok(Vec::new()));
        let is_forgotten = move |conversation: &ConversationId| *conversation == forgotten;
        workspace.expect_remove_conversation().once().withf(is_forgotten).returning(|_| Ok(()));
        let backlog = AtomicUsize::new(2);
        conversations.expect_index_turns().times(4).returning(move |_| {
            let left = backlog.load(Ordering::SeqCst).saturating_sub(1);
            backlog.store(left, Ordering::SeqCst);
            Ok(left as u64)
        });
        let conversations = Arc::new(conversations);
        let start = tokio::time::Instant::now();
        let (storage, clock) = (Arc::new(ledger), Arc::new(ManualClock::at(Timestamp(5_000))));
        let (blobs, workspace) = (Arc::new(blobs), Arc::new(workspace));
        let maintenance = Maintenance { storage, conversations, clock, blobs, workspace };
        let (prepared, ready) = oneshot::channel();
        maintenance.run(prepared, stop).await;
        assert_eq!(ready.await, Ok(()));
        assert_eq!(start.elapsed().as_secs() / 3600, 2);
    }
}
