//! The files on the disk after a process died at any call of its runner, and after the next start.

use std::{cell::Cell, fs, path::Path, sync::Arc};

use satchel_ports::{Workspace, WorkspaceError, WriteMode};
use tempfile::TempDir;
use uuid::Uuid;

use super::{
    super::{main_conversation, path},
    Files, WorkspaceStart, describe_files, long_content, read_files, restore, save, trash,
};
use crate::faulty_runner::{FaultyRunner, RunnerKill};

/// A workspace after a kill and the next start.
struct KilledWorkspace<'a> {
    directory: TempDir,
    next: Arc<dyn Workspace>,
    /// The kill, in words.
    kill: String,
    /// The files before the operation.
    before: &'a Files,
    /// The files after an undisturbed operation.
    after: &'a Files,
}

impl KilledWorkspace<'_> {
    fn files(&self) -> Files {
        read_files(self.directory.path())
    }

    /// Asserts that no file was lost, doubled or cut, wherever they lie; all have different bytes.
    fn assert_nothing_lost(&self) {
        let contents = |files: &Files| {
            let mut contents: Vec<Vec<u8>> = files.values().cloned().collect();
            contents.sort();
            contents
        };
        let files = self.files();
        assert!(contents(&files) == contents(self.before), "{}: {}", self.kill, describe_files(&files));
    }

    /// Whether the operation is done, as the files say: all of them are as before it, or all as after it.
    fn is_done(&self) -> bool {
        let files = self.files();
        assert!(files == *self.before || files == *self.after, "{}: {}", self.kill, describe_files(&files));
        files == *self.after
    }
}

/// What happened at all kills of an operation.
struct KillRuns {
    /// The names of the calls of an undisturbed operation.
    calls: Vec<&'static str>,
    /// How many leftovers the next starts removed.
    leftovers: u64,
}

impl KillRuns {
    /// The calls that change something or wait for the disk, each named once in a row.
    fn steps(&self) -> Vec<&'static str> {
        let mut steps = self.calls.clone();
        steps.retain(|call| *call != "stat");
        steps.dedup();
        steps
    }
}

/// Performs an operation once undisturbed and once for each kill that can hit it. `check` judges what each kill left,
/// after the next start.
async fn kill_everywhere<S: WorkspaceStart>(
    prepare: impl AsyncFn(&dyn Workspace),
    operation: impl AsyncFn(&dyn Workspace) -> Result<(), WorkspaceError>,
    check: impl AsyncFn(KilledWorkspace<'_>),
) -> KillRuns {
    let runner = S::runner();
    let start = |directory: &Path| S::open(directory, Arc::clone(&runner));
    let prepared = tempfile::tempdir().unwrap();
    prepare(&*start(prepared.path())).await;
    let before = read_files(prepared.path());
    let directory = tempfile::tempdir().unwrap();
    copy_directory(prepared.path(), directory.path());
    let recording = FaultyRunner::recording(Arc::clone(&runner));
    operation(&*S::open(directory.path(), recording.clone())).await.unwrap();
    let after = read_files(directory.path());

    let calls = recording.calls();
    let mut runs = KillRuns { calls: calls.iter().map(|call| call.name).collect(), leftovers: 0 };
    for kill in RunnerKill::all(&calls) {
        let directory = tempfile::tempdir().unwrap();
        copy_directory(prepared.path(), directory.path());
        let dying = FaultyRunner::killed(Arc::clone(&runner), kill);
        // Nobody reads what a dead process answers.
        let _unread = operation(&*S::open(directory.path(), dying.clone())).await;
        let kill = format!("{:?} {} of {:?}", kill.progress, kill.call, runs.calls);
        assert!(dying.is_dead(), "{kill} is not reached");
        let next = start(directory.path());
        runs.leftovers += next.remove_leftovers().await.unwrap();
        check(KilledWorkspace { directory, next, kill, before: &before, after: &after }).await;
    }
    runs
}

fn copy_directory(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            fs::create_dir(&to).unwrap();
            copy_directory(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

/// Mutations: a file gets its name before all its bytes; its temporary file stays; an old file is written over in its
/// place.
pub async fn killed_save_leaves_old_file_or_new<S: WorkspaceStart>() {
    const NAME: &str = "/shared/new/directory/file.bin";
    for (mode, publishing) in [(WriteMode::CreateNew, &["link", "remove_file"][..]), (WriteMode::Replace, &["rename"])]
    {
        let prepare = async |workspace: &dyn Workspace| {
            if mode == WriteMode::Replace {
                save(workspace, NAME, &long_content(1), WriteMode::CreateNew).await.unwrap();
            }
        };
        let operation = async |workspace: &dyn Workspace| save(workspace, NAME, &long_content(2), mode).await;
        let (old_count, new_count) = (Cell::new(0), Cell::new(0));
        let runs = kill_everywhere::<S>(prepare, operation, async |killed| {
            let is_done = killed.is_done();
            let count = if is_done { &new_count } else { &old_count };
            count.set(count.get() + 1);
            match operation(&*killed.next).await {
                Err(WorkspaceError::Exists(_)) if is_done && mode == WriteMode::CreateNew => {}
                repeated => repeated.unwrap(),
            }
            assert!(killed.is_done(), "{} prevents a repeat", killed.kill);
        })
        .await;
        let steps = [&["create_dirs", "enter", "create", "write", "sync"], publishing, &["sync_dir"]].concat();
        assert_eq!(runs.steps(), steps, "{mode:?}");
        assert!(runs.calls.iter().filter(|call| **call == "write").count() >= 3, "{:?}", runs.calls);
        assert!(old_count.get() > 0 && new_count.get() > 0 && runs.leftovers > 0, "{mode:?}: kills were missed");
    }
}

/// Mutations: a file is in neither place; a deletion that was cut off hides the one before it from the person.
pub async fn killed_deletion_hides_no_older_one<S: WorkspaceStart>() {
    const OLDER: &str = "/shared/dir/older";
    const NAME: &str = "/shared/dir/sub/file";
    let prepare = async |workspace: &dyn Workspace| {
        for (name, content) in [(OLDER, "older"), (NAME, "file")] {
            save(workspace, name, content.as_bytes(), WriteMode::CreateNew).await.unwrap();
        }
        trash(workspace, OLDER, 1).await.unwrap();
    };
    let (kept_count, moved_count) = (Cell::new(0), Cell::new(0));
    let runs = kill_everywhere::<S>(
        prepare,
        async |workspace| trash(workspace, NAME, 2).await,
        async |killed| {
            killed.assert_nothing_lost();
            let next = &*killed.next;
            let is_moved =
                matches!(next.read(&main_conversation(), &path(NAME)).await, Err(WorkspaceError::NotFound(_)));
            let count = if is_moved { &moved_count } else { &kept_count };
            count.set(count.get() + 1);
            let newest = if is_moved { NAME } else { OLDER };
            assert_eq!(restore(next, 1).await.restored, [path(newest)], "{}", killed.kill);
            trash(next, NAME, 3).await.unwrap();
            assert_eq!(restore(next, 2).await.restored, [path(NAME)], "{}", killed.kill);
            killed.assert_nothing_lost();
        },
    )
    .await;
    assert_eq!(runs.steps(), ["create_dirs", "rename_new", "sync_dir"]);
    assert!(kept_count.get() > 0 && moved_count.get() > 0, "kills were missed");
}

/// Mutations: a repeat takes the deletion before; what was restored by half is nowhere or twice; the rest of it is never
/// offered again.
pub async fn killed_restore_is_finished_by_next<S: WorkspaceStart>() {
    let prepare = async |workspace: &dyn Workspace| {
        for name in ["/shared/older", "/shared/dir/stays", "/shared/dir/a", "/shared/dir/sub/b"] {
            save(workspace, name, name.as_bytes(), WriteMode::CreateNew).await.unwrap();
        }
        trash(workspace, "/shared/older", 1).await.unwrap();
        for name in ["/shared/dir/a", "/shared/dir/sub/b"] {
            trash(workspace, name, 2).await.unwrap();
        }
    };
    for request in [1, 2] {
        let operation = async |workspace: &dyn Workspace| {
            workspace.restore(&main_conversation(), Uuid::from_u128(1)).await.map(drop)
        };
        let runs = kill_everywhere::<S>(prepare, operation, async |killed| {
            killed.assert_nothing_lost();
            let was_done = killed.files() == *killed.after;
            let restored = restore(&*killed.next, request).await.restored;
            match was_done && request == 2 {
                true => assert_eq!(restored, [path("/shared/older")], "{}", killed.kill),
                false => assert!(killed.is_done(), "{} prevents a repeat", killed.kill),
            }
        })
        .await;
        assert_eq!(runs.steps().iter().filter(|step| **step == "rename_new").count(), 5, "{:?}", runs.calls);
        assert!(runs.calls.contains(&"remove_dir") && runs.calls.contains(&"sync_dir"), "{:?}", runs.calls);
    }
}
