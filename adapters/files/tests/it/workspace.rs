//! The workspace on a disk: its contract, leftovers, idle `/tmp`, the operator's own directory, and swapped links.

use std::{
    fs::{self, File, TryLockError},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_contracts::workspace::{QUOTA, WorkspaceFixture, count_temp_files};
use satchel_domain::{ConversationId, DiskReserve, Timestamp, WorkspacePath, path::Mount};
use satchel_files::{DirectoryWorkspace, NativeRunner};
use satchel_ports::{ByteStream, FileRunner, Workspace, WorkspaceError, WriteMode, workspace::TrashBatch};
use satchel_requirements::{obey_file_permissions, required};
use tempfile::TempDir;
use uuid::Uuid;

struct Fixture {
    directory: TempDir,
    workspace: Arc<DirectoryWorkspace>,
}

#[async_trait]
impl WorkspaceFixture for Fixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Arc::new(DirectoryWorkspace::open(directory.path(), None, QUOTA, native()).unwrap());
        Self { directory, workspace }
    }

    fn workspace(&self) -> Arc<dyn Workspace> {
        Arc::clone(&self.workspace) as Arc<dyn Workspace>
    }

    fn host_path(&self, conversation: &ConversationId, path: &WorkspacePath) -> PathBuf {
        self.workspace.host_directory(conversation, path.mount()).join(path.relative())
    }

    async fn count_leftovers(&self) -> usize {
        count_temp_files(self.directory.path())
    }
}

satchel_contracts::workspace_contract!(Fixture);

fn native() -> Arc<dyn FileRunner> {
    Arc::new(NativeRunner)
}

fn here() -> ConversationId {
    "console:main".parse().unwrap()
}

fn path(text: &str) -> WorkspacePath {
    text.parse().unwrap()
}

fn bytes(content: &'static [u8]) -> ByteStream {
    stream::iter([Ok(Bytes::from_static(content))]).boxed()
}

async fn write(workspace: &DirectoryWorkspace, name: &str) -> Result<u64, WorkspaceError> {
    workspace.write(&here(), &path(name), bytes(b"12345"), WriteMode::Replace, 100).await
}

/// The parent turns from a directory into a link that leads out and back, as fast as the disk can, while we write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parent_swapped_for_symlink_leaks_nothing() {
    let fixture = Fixture::new().await;
    write(&fixture.workspace, "/shared/dir/first").await.unwrap();
    let shared = fixture.workspace.host_directory(&here(), Mount::Shared);
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path(), shared.join("trap")).unwrap();
    let (dir, trap, kept) = (shared.join("dir"), shared.join("trap"), shared.join("kept"));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let swapping = tokio::task::spawn_blocking(move || {
        while !stopped.load(Ordering::Relaxed) {
            fs::rename(&dir, &kept).unwrap();
            fs::rename(&trap, &dir).unwrap();
            fs::rename(&dir, &trap).unwrap();
            fs::rename(&kept, &dir).unwrap();
        }
    });
    let (mut written, mut refused) = (0, 0);
    for _ in 0..150 {
        let name = path("/shared/dir/file");
        match fixture.workspace.write(&here(), &name, bytes(b"ours"), WriteMode::Replace, 100).await {
            Ok(_) => written += 1,
            Err(_) => refused += 1,
        }
        if let Ok(file) = fixture.workspace.read(&here(), &name).await {
            let read: Vec<_> = file.content.collect().await;
            assert!(read.iter().all(|bytes| bytes.as_ref().unwrap() != "secret"), "the file outside was read");
        }
    }
    stop.store(true, Ordering::Relaxed);
    // A write may have made `dir` anew between two renames, which ends the swapping early.
    let _ = swapping.await;
    assert!(written + refused == 150);
    assert_eq!(fs::read(outside.path().join("file")).unwrap(), b"secret");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "nothing was written outside");
}

fn has_locked_temp_file(directory: &Path) -> bool {
    let is_locked = |file: File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "part"))
        .any(|path| File::open(path).is_ok_and(is_locked))
}

#[tokio::test]
async fn leftovers_of_the_dead_are_hidden_then_removed() {
    let fixture = Fixture::new().await;
    write(&fixture.workspace, "/shared/dir/a").await.unwrap();
    let dir = fixture.workspace.host_directory(&here(), Mount::Shared).join("dir");
    fs::write(dir.join(".satchel-1-0.part"), "half").unwrap();
    let listed = fixture.workspace.list(&here(), &path("/shared/dir")).await.unwrap();
    assert_eq!(listed.len(), 1);
    let (sender, receiver) = futures::channel::mpsc::unbounded();
    let (here, b) = (here(), path("/shared/dir/b"));
    let slow = fixture.workspace.write(&here, &b, receiver.boxed(), WriteMode::CreateNew, 100);
    let beside = async {
        // A file without a lock is removed as a leftover, and its writer makes another one.
        while !has_locked_temp_file(&dir) {
            tokio::task::yield_now().await;
        }
        assert_eq!(fixture.workspace.remove_leftovers().await.unwrap(), 1);
        assert_eq!(count_temp_files(&dir), 1, "the one that is being written stays");
        sender.unbounded_send(Ok(Bytes::from_static(b"whole"))).unwrap();
        drop(sender);
    };
    let (written, ()) = tokio::join!(slow, beside);
    assert_eq!((written.unwrap(), count_temp_files(&dir)), (5, 0));
}

/// Mutation: the cleaning ends at the first leftover that can't be removed.
#[test]
fn other_leftovers_go_despite_one_that_stays() {
    let Some(()) = required(obey_file_permissions()) else { return };
    // Its threads inherit the permissions.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let fixture = Fixture::new().await;
        let shared = fixture.workspace.host_directory(&here(), Mount::Shared);
        for name in ["a", "b", "c"] {
            write(&fixture.workspace, &format!("/shared/{name}/file")).await.unwrap();
            fs::write(shared.join(name).join(".satchel-1-0.part"), "half").unwrap();
        }
        // The cleaning takes the directory that is listed last first.
        let directories: Vec<_> = fs::read_dir(&shared).unwrap().map(|entry| entry.unwrap().path()).collect();
        let unreadable = directories[2].join(".satchel-1-0.part");
        fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).unwrap();
        let error = fixture.workspace.remove_leftovers().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        let left: Vec<usize> = directories.iter().map(|directory| count_temp_files(directory)).collect();
        assert_eq!(left, [0, 0, 1]);
    });
}

#[tokio::test]
async fn names_of_temporary_files_are_refused() {
    let fixture = Fixture::new().await;
    let refused = write(&fixture.workspace, "/shared/.satchel-1-0.part").await;
    assert!(matches!(refused, Err(WorkspaceError::Failed { .. })), "{refused:?}");
}

#[tokio::test]
async fn only_tmp_of_idle_conversations_is_emptied() {
    let fixture = Fixture::new().await;
    for name in ["/tmp/a", "/tmp/deep/er/b", "/shared/stays"] {
        write(&fixture.workspace, name).await.unwrap();
    }
    // As if a year had passed: what counts is the conversation, not how old a file is.
    let tmp = fixture.workspace.host_directory(&here(), Mount::Tmp);
    let a_year_ago = SystemTime::now() - Duration::from_secs(365 * 24 * 3600);
    for old in ["a", "deep/er/b", ""] {
        File::open(tmp.join(old)).unwrap().set_modified(a_year_ago).unwrap();
    }
    assert_eq!(fixture.workspace.sweep_tmp(&[here()], far_ahead()).await.unwrap(), 0);
    let other = "web:other".parse().unwrap();
    assert_eq!(fixture.workspace.sweep_tmp(&[other], far_ahead()).await.unwrap(), 10 + 2 * 4096);
    assert_eq!(fixture.workspace.list(&here(), &path("/tmp")).await.unwrap(), []);
    assert_eq!(fixture.workspace.list(&here(), &path("/shared")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn tmp_changed_since_the_look_stays() {
    let fixture = Fixture::new().await;
    let read_at = SystemTime::now();
    write(&fixture.workspace, "/tmp/of-a-new-turn").await.unwrap();
    let tmp = fixture.workspace.host_directory(&here(), Mount::Tmp);
    for forged in ["of-a-new-turn", ""] {
        File::open(tmp.join(forged)).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    assert_eq!(fixture.workspace.sweep_tmp(&[], read_at).await.unwrap(), 0);
    assert_eq!(fixture.workspace.sweep_tmp(&[], far_ahead()).await.unwrap(), 5);
}

/// Later than any change that a test makes.
fn far_ahead() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3600)
}

#[tokio::test]
async fn operators_shared_directory_is_common_and_uncounted() {
    let (root, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(shared.path().join("large"), vec![0; 1000]).unwrap();
    let workspace = DirectoryWorkspace::open(root.path(), Some(shared.path()), 100, native()).unwrap();
    write(&workspace, "/shared/mine").await.unwrap();
    let other = "web:other".parse().unwrap();
    assert_eq!(workspace.read(&other, &path("/shared/mine")).await.unwrap().bytes, 5);
    write(&workspace, "/tmp/mine").await.unwrap();
    assert!(matches!(workspace.read(&other, &path("/tmp/mine")).await.err(), Some(WorkspaceError::NotFound(_))));
    let large = stream::iter([Ok(Bytes::from(vec![0; 101]))]).boxed();
    let refused = workspace.write(&here(), &path("/tmp/large"), large, WriteMode::CreateNew, 1000).await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded { quota: 100 })), "{refused:?}");
}

/// Mutation: a shared directory has one trash, from which anyone restores what others deleted.
#[tokio::test]
async fn conversations_share_no_trash_in_operators_directory() {
    let (root, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let workspace = DirectoryWorkspace::open(root.path(), Some(shared.path()), 1 << 20, native()).unwrap();
    let other: ConversationId = "web:other".parse().unwrap();
    let batch = |number| TrashBatch { deleted_at: Timestamp(number), id: Uuid::nil() };
    for (conversation, name, number) in [(&here(), "/shared/mine", 1), (&other, "/shared/theirs", 2)] {
        write(&workspace, name).await.unwrap();
        workspace.trash(conversation, &path(name), batch(number), false).await.unwrap();
    }
    assert_eq!(workspace.list(&here(), &path("/shared")).await.unwrap(), []);
    let mine = here();
    let restored = async |conversation| workspace.restore(conversation, Uuid::nil()).await.unwrap().restored;
    assert_eq!(restored(&mine).await, [path("/shared/mine")]);
    assert_eq!(workspace.sweep_trash(Timestamp(2)).await.unwrap(), 4096, "the directory of what was restored");
    assert_eq!(restored(&other).await, [path("/shared/theirs")]);
    workspace.trash(&here(), &path("/shared/mine"), batch(3), false).await.unwrap();
    assert_eq!(workspace.sweep_trash(Timestamp(3)).await.unwrap(), 4096);
    assert_eq!(workspace.sweep_trash(Timestamp(4)).await.unwrap(), 4096 + 5);
}

#[tokio::test]
async fn existing_files_count_for_quota_after_restart() {
    let fixture = Fixture::new().await;
    write(&fixture.workspace, "/shared/a").await.unwrap();
    let restarted = DirectoryWorkspace::open(fixture.directory.path(), None, 9, native()).unwrap();
    let refused = write(&restarted, "/shared/b").await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded { quota: 9 })), "{refused:?}");
}

#[tokio::test]
async fn workspace_over_quota_refuses_even_empty_files() {
    let fixture = Fixture::new().await;
    write(&fixture.workspace, "/shared/a").await.unwrap();
    let restarted = DirectoryWorkspace::open(fixture.directory.path(), None, 1, native()).unwrap();
    let nothing = stream::empty().boxed();
    let refused = restarted.write(&here(), &path("/shared/b"), nothing, WriteMode::CreateNew, 100).await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded { quota: 1 })), "{refused:?}");
}

#[tokio::test]
async fn directories_and_empty_files_take_room() {
    let directory = tempfile::tempdir().unwrap();
    let quota = 4 * 4096;
    let workspace = DirectoryWorkspace::open(directory.path(), None, quota, native()).unwrap();
    let empty = async |workspace: &DirectoryWorkspace, name: &str| {
        workspace.write(&here(), &path(name), stream::empty().boxed(), WriteMode::Replace, 100).await
    };
    empty(&workspace, "/shared/a/b/empty").await.unwrap();
    for too_much in ["/shared/c/d/e", "/tmp/c/d/e"] {
        let refused = empty(&workspace, too_much).await;
        assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded { .. })), "{too_much}: {refused:?}");
    }
    empty(&workspace, "/shared/a/b/empty").await.unwrap();
    empty(&workspace, "/shared/last").await.unwrap();
    let restarted = DirectoryWorkspace::open(directory.path(), None, quota, native()).unwrap();
    for workspace in [&workspace, &restarted] {
        assert!(matches!(empty(workspace, "/shared/more").await, Err(WorkspaceError::QuotaExceeded { .. })));
        assert!(matches!(write(workspace, "/shared/more").await, Err(WorkspaceError::QuotaExceeded { .. })));
    }
    for gone in ["/shared/a/b/empty", "/shared/a/b"] {
        workspace.remove(&here(), &path(gone)).await.unwrap();
    }
    empty(&workspace, "/shared/c/now it fits").await.unwrap();
}

#[tokio::test]
async fn a_path_beyond_the_depth_is_refused() {
    let fixture = Fixture::new().await;
    let deep = |names: usize| format!("/shared/{}", vec!["d"; names].join("/"));
    write(&fixture.workspace, &deep(32)).await.unwrap();
    let refused = write(&fixture.workspace, &deep(33)).await.unwrap_err().to_string();
    assert!(refused.contains("may have 32 names"), "{refused}");
}

#[tokio::test]
async fn a_planted_device_is_not_listed() {
    let fixture = Fixture::new().await;
    write(&fixture.workspace, "/shared/a").await.unwrap();
    let shared = fixture.workspace.host_directory(&here(), Mount::Shared);
    let socket = std::os::unix::net::UnixListener::bind(shared.join("socket")).unwrap();
    fs::write(shared.join("what no path names: a colon"), "").unwrap();
    assert_eq!(fixture.workspace.list(&here(), &path("/shared")).await.unwrap().len(), 1);
    assert!(matches!(
        fixture.workspace.read(&here(), &path("/shared/socket")).await.err(),
        Some(WorkspaceError::NotAFile(_))
    ));
    drop(socket);
}

#[test]
fn a_root_that_is_a_file_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = DirectoryWorkspace::open(&file, None, 1, native()).err().unwrap();
    assert_eq!(error.to_string(), format!("failed to open the directory `{}`", file.display()));
}

#[tokio::test]
async fn write_into_disk_reserve_is_refused_with_figures() {
    let directory = tempfile::tempdir().unwrap();
    let open =
        |reserve| DirectoryWorkspace::open(directory.path(), None, QUOTA, native()).unwrap().with_reserve(reserve);
    let (conversation, path) = ("console:main".parse().unwrap(), "/shared/a/b".parse().unwrap());
    let write = async |reserve| {
        let content = stream::iter([Ok(Bytes::from_static(b"12345"))]).boxed();
        open(reserve).write(&conversation, &path, content, WriteMode::CreateNew, 100).await
    };
    let refused = write(DiskReserve::Bytes(1 << 62)).await.unwrap_err().to_string();
    assert!(refused.starts_with("`/shared/a/b` failed: the disk is nearly full: "), "{refused}");
    assert!(
        refused.ends_with(" free, 4611686 TB is kept free for the database; ask the person who runs this bot"),
        "{refused}"
    );
    assert!(!refused.contains(&directory.path().display().to_string()), "{refused}");
    assert!(open(DiskReserve::NONE).list(&conversation, &"/shared".parse().unwrap()).await.unwrap().is_empty());
    assert_eq!(write(DiskReserve::NONE).await.unwrap(), 5);
}
