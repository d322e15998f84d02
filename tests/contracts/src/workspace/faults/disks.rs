//! The errors, and the files that stay, when the disk fails during an operation.

use std::{
    fs,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures::{StreamExt, channel::mpsc};
use rustix::io::Errno;
use satchel_ports::{FileRunner, Workspace, WorkspaceError, WriteMode};
use satchel_requirements::required;
use tempfile::TempDir;

use super::{
    super::{count_temp_files, main_conversation, path},
    Files, WorkspaceStart, describe_files, long_content, read_files, save, trash,
};
use crate::{faulty_runner::FaultyRunner, private_disk::PrivateDisk};

/// How the two modes give a file its name.
const MODES: [(WriteMode, &str); 2] = [(WriteMode::CreateNew, "link"), (WriteMode::Replace, "rename")];

/// The file that these tests save.
const NAME: &str = "/tmp/dir/file.bin";

/// A directory with the old file, if the mode replaces one.
async fn prepare<S: WorkspaceStart>(runner: &Arc<dyn FileRunner>, mode: WriteMode) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    save_old_file(&*S::open(directory.path(), Arc::clone(runner)), mode).await;
    directory
}

async fn save_old_file(workspace: &dyn Workspace, mode: WriteMode) {
    if mode == WriteMode::Replace {
        save(workspace, NAME, &long_content(1), WriteMode::CreateNew).await.unwrap();
    }
}

async fn save_new_file(workspace: &dyn Workspace, mode: WriteMode) -> Result<(), WorkspaceError> {
    save(workspace, NAME, &long_content(2), mode).await
}

#[track_caller]
fn assert_new_file_alone(files: &Files) {
    assert!(files.len() == 1 && files.values().all(|bytes| *bytes == long_content(2)), "{}", describe_files(files));
}

/// Mutations: the temporary file stays; the old file goes before the new one is complete; the reason is a number.
pub async fn failed_save_keeps_old_file<S: WorkspaceStart>() {
    let runner = S::runner();
    for (errno, reason) in [
        (Errno::NOSPC, "no space is left on the disk; ask the person who runs this bot"),
        (Errno::DQUOT, "the disk quota of the user that Satchel runs as is used up; ask the person who runs this bot"),
        (Errno::ROFS, "the disk is read-only; ask the person who runs this bot"),
        (Errno::IO, "Input/output error"),
    ] {
        for (mode, publish) in MODES {
            for (call, nth) in
                [("create_dirs", 1), ("create", 1), ("write", 2), ("write", 3), ("sync", 1), (publish, 1)]
            {
                let directory = prepare::<S>(&runner, mode).await;
                let before = read_files(directory.path());
                let failing = FaultyRunner::failing(Arc::clone(&runner), call, nth, errno);
                let failed = save_new_file(&*S::open(directory.path(), failing), mode).await;
                let case = format!("{errno:?} at {call} {nth}, {mode:?}");
                let Err(WorkspaceError::Failed { reason: given, .. }) = failed else { panic!("{case}: {failed:?}") };
                assert!(given.contains(reason), "{case}: {given}");
                let files = read_files(directory.path());
                assert!(files == before, "{case}: {}", describe_files(&files));
                save_new_file(&*S::open(directory.path(), Arc::clone(&runner)), mode).await.unwrap();
                assert_new_file_alone(&read_files(directory.path()));
            }
        }
    }
}

/// Mutation: what is in its place with all its bytes is reported as not saved.
pub async fn unconfirmed_save_is_reported_as_saved<S: WorkspaceStart>() {
    let runner = S::runner();
    for (mode, _) in MODES {
        let directory = prepare::<S>(&runner, mode).await;
        let failing = FaultyRunner::failing(Arc::clone(&runner), "sync_dir", 1, Errno::IO);
        let saved = save_new_file(&*S::open(directory.path(), failing), mode).await;
        assert!(matches!(saved, Err(WorkspaceError::Unconfirmed { .. })), "{saved:?}");
        assert_new_file_alone(&read_files(directory.path()));
    }
}

/// Mutation: the next start takes a second name of a file that was saved for one in use.
pub async fn unremovable_temporary_file_goes_at_next_start<S: WorkspaceStart>() {
    let runner = S::runner();
    let directory = prepare::<S>(&runner, WriteMode::CreateNew).await;
    let failing = FaultyRunner::failing(Arc::clone(&runner), "remove_file", 1, Errno::IO);
    save_new_file(&*S::open(directory.path(), failing), WriteMode::CreateNew).await.unwrap();
    assert_eq!(count_temp_files(directory.path()), 1);
    let next = S::open(directory.path(), runner);
    assert_eq!(next.remove_leftovers().await.unwrap(), 1);
    assert_new_file_alone(&read_files(directory.path()));
}

/// Mutation: a file that is gone is reported as not removed.
pub async fn unconfirmed_removal_is_reported_as_removed<S: WorkspaceStart>() {
    let runner = S::runner();
    let directory = prepare::<S>(&runner, WriteMode::Replace).await;
    let failing = FaultyRunner::failing(Arc::clone(&runner), "sync_dir", 1, Errno::IO);
    let workspace = S::open(directory.path(), failing);
    for name in [NAME, "/tmp/dir"] {
        let removed = workspace.remove(&main_conversation(), &path(name)).await;
        assert!(matches!(removed, Err(WorkspaceError::RemovalUnconfirmed { .. })), "{name}: {removed:?}");
        let repeated = workspace.remove(&main_conversation(), &path(name)).await;
        assert!(matches!(repeated, Err(WorkspaceError::NotFound(_))), "{name}: {repeated:?}");
    }
}

/// Mutation: the file is published under its name although the temporary one is gone, or half of it.
pub async fn tmp_swept_during_save_leaves_nothing_half<S: WorkspaceStart>() {
    let runner = S::runner();
    let far_ahead = SystemTime::now() + Duration::from_secs(3600);
    for (mode, _) in MODES {
        let directory = prepare::<S>(&runner, mode).await;
        let workspace = S::open(directory.path(), Arc::clone(&runner));
        let (sender, receiver) = mpsc::unbounded();
        let (conversation, path) = (main_conversation(), path(NAME));
        let content = long_content(2);
        let (first, rest) = content.split_at(600_000);
        let saving = workspace.write(&conversation, &path, receiver.boxed(), mode, u64::MAX);
        let sweeping = async {
            sender.unbounded_send(Ok(Bytes::copy_from_slice(first))).unwrap();
            let is_half = |files: &Files| files.values().any(|bytes| !bytes.is_empty() && *bytes != long_content(1));
            while count_temp_files(directory.path()) == 0 || !is_half(&read_files(directory.path())) {
                tokio::task::yield_now().await;
            }
            workspace.sweep_tmp(&[], far_ahead).await.unwrap();
            assert!(read_files(directory.path()).is_empty(), "the sweep removed everything");
            sender.unbounded_send(Ok(Bytes::copy_from_slice(rest))).unwrap();
            drop(sender);
        };
        let (saved, ()) = tokio::join!(saving, sweeping);
        let Err(WorkspaceError::Failed { reason, .. }) = saved else { panic!("{mode:?}: {saved:?}") };
        assert!(reason.contains("emptied or removed during the write; write it again"), "{reason}");
        let files = read_files(directory.path());
        assert!(files.is_empty(), "{}", describe_files(&files));
        save_new_file(&*workspace, mode).await.unwrap();
        assert_new_file_alone(&read_files(directory.path()));
    }
}

/// Mutation: the temporary file stays on the full disk.
pub async fn full_disk_keeps_old_file<S: WorkspaceStart>() {
    let Some(disk) = required(PrivateDisk::mount(2)) else { return };
    let filler = disk.path().join("filler");
    for (mode, _) in MODES {
        let root = disk.path().join(format!("{mode:?}"));
        let workspace = S::open(&root, S::runner());
        save_old_file(&*workspace, mode).await;
        let before = read_files(&root);
        // It ends at the disk's last byte, so as much as the file lacks is freed again.
        let _full = fs::write(&filler, vec![0; 4 << 20]).unwrap_err();
        let size = fs::metadata(&filler).unwrap().len();
        fs::File::options().write(true).open(&filler).unwrap().set_len(size - 300_000).unwrap();
        let failed = save_new_file(&*workspace, mode).await;
        let Err(WorkspaceError::Failed { reason, .. }) = failed else { panic!("{mode:?}: {failed:?}") };
        assert!(reason.starts_with("no space is left on the disk"), "{reason}");
        let files = read_files(&root);
        assert!(files == before, "{}", describe_files(&files));
        fs::remove_file(&filler).unwrap();
        save_new_file(&*workspace, mode).await.unwrap();
        assert_new_file_alone(&read_files(&root));
        fs::remove_dir_all(&root).unwrap();
    }
}

/// Mutations: a read-only disk is reported as missing, or by the system's number alone.
pub async fn read_only_disk_is_named_and_unchanged<S: WorkspaceStart>() {
    let Some(mut disk) = required(PrivateDisk::mount(4)) else { return };
    let root = disk.path().join("workspaces");
    save_old_file(&*S::open(&root, S::runner()), WriteMode::Replace).await;
    let before = read_files(&root);
    disk.make_read_only();
    let workspace = S::open(&root, S::runner());
    let workspace = &*workspace;
    for failed in [
        save_new_file(workspace, WriteMode::Replace).await,
        save(workspace, "/tmp/other/file", b"new", WriteMode::CreateNew).await,
        save(workspace, "/shared/file", b"new", WriteMode::CreateNew).await,
        workspace.remove(&main_conversation(), &path(NAME)).await.map(drop),
        trash(workspace, NAME, 1).await,
    ] {
        let Err(WorkspaceError::Failed { reason, .. }) = failed else { panic!("{failed:?}") };
        assert_eq!(reason, "the disk is read-only; ask the person who runs this bot");
    }
    assert_eq!(workspace.remove_leftovers().await.unwrap(), 0);
    let files = read_files(&root);
    assert!(files == before, "{}", describe_files(&files));
    disk.make_writable();
    save_new_file(workspace, WriteMode::Replace).await.unwrap();
    assert_new_file_alone(&read_files(&root));
}
