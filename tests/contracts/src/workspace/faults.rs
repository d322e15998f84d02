//! The promises of a workspace whose process dies or whose disk fails, one function each;
//! [`workspace_fault_contract!`](crate::workspace_fault_contract) runs them all on a [`FileRunner`].

mod disks;
mod kills;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_ports::{ByteStream, FileRunner, Workspace, WorkspaceError, WriteMode, workspace::RestoredFiles};
use uuid::Uuid;

use super::{QUOTA, main_conversation, path, trash::batch};

pub use self::{disks::*, kills::*};

/// How a process opens its workspaces when it starts.
pub trait WorkspaceStart {
    /// Makes what reads and changes the files.
    fn runner() -> Arc<dyn FileRunner>;

    /// Opens the workspaces beneath `root`, each with [`QUOTA`] bytes of room, on a disk without a reserve.
    fn open(root: &Path, runner: Arc<dyn FileRunner>) -> Arc<dyn Workspace>;
}

/// Runs every promise against a [`WorkspaceStart`].
#[macro_export]
macro_rules! workspace_fault_contract {
    ($start:ty) => {
        $crate::workspace_fault_contract!(@each $start:
            killed_save_leaves_old_file_or_new
            killed_deletion_hides_no_older_one
            killed_restore_is_finished_by_next
            failed_save_keeps_old_file
            unremovable_temporary_file_goes_at_next_start
            unconfirmed_save_is_reported_as_saved
            unconfirmed_removal_is_reported_as_removed
            tmp_swept_during_save_leaves_nothing_half
            full_disk_keeps_old_file
            read_only_disk_is_named_and_unchanged
        );
    };
    (@each $start:ty: $($promise:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $crate::workspace::faults::$promise::<$start>().await;
            }
        )*
    };
}

/// The files beneath a directory with their bytes, by their path in it.
type Files = BTreeMap<PathBuf, Vec<u8>>;

fn read_files(root: &Path) -> Files {
    let (mut files, mut pending) = (Files::new(), vec![root.to_owned()]);
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                files.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Names the files with their sizes, for the message of a test that fails.
fn describe_files(files: &Files) -> String {
    let describe = |(path, bytes): (&PathBuf, &Vec<u8>)| format!("{} ({} bytes)", path.display(), bytes.len());
    files.iter().map(describe).collect::<Vec<_>>().join(", ")
}

/// The bytes of a file that takes several writes.
fn long_content(seed: u8) -> Vec<u8> {
    (0..700_000_usize).map(|at| seed ^ (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn to_stream(content: &[u8]) -> ByteStream {
    let chunks: Vec<_> = content.chunks(100_000).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks).boxed()
}

async fn save(workspace: &dyn Workspace, name: &str, content: &[u8], mode: WriteMode) -> Result<(), WorkspaceError> {
    workspace.write(&main_conversation(), &path(name), to_stream(content), mode, QUOTA).await.map(drop)
}

async fn trash(workspace: &dyn Workspace, name: &str, number: u32) -> Result<(), WorkspaceError> {
    workspace.trash(&main_conversation(), &path(name), batch(number), false).await.map(drop)
}

async fn restore(workspace: &dyn Workspace, request: u128) -> RestoredFiles {
    workspace.restore(&main_conversation(), Uuid::from_u128(request)).await.unwrap()
}
