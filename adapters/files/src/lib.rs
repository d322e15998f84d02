//! Files on disk: blobs in a directory, and the workspaces of conversations. Also blobs in memory, which pass the same
//! contract.
//!
//! **Why the directory store is not `object_store`'s.** Satchel's stores beyond one machine are reached through
//! `object_store`; its `LocalFileSystem` was weighed for the directory and doesn't give what the port promises:
//! - The address is known only at the end of the stream. Its staged upload and rename to the address fsync three
//!   directories where one does, on every file.
//! - A staged file of its isn't tied to a living process, so a start can't tell leftovers from an upload beside it.
//! - Collecting garbage needs the publishing rename and the removal under one lock that holds between processes.
//! - It reads in pieces of 8 KiB, a change of thread each.
//!
//! So the directory store works on the disk itself, through the same directory handles and temporary files as the
//! workspace. Everything that blocks runs on tokio's blocking threads, one block at a time: a slow stream holds no
//! thread.

pub mod backup;
pub mod blobs;
pub mod declared_files;
mod directory;
mod memory_blobs;
mod modes;
mod native_runner;
mod reserve;
mod temp;
pub mod workspace;

pub use blobs::DirectoryBlobs;
pub use declared_files::{DirectoryDeclaredFiles, ExcludedPaths, OwnDirectory};
pub use memory_blobs::MemoryBlobs;
pub use modes::close_to_others;
pub use native_runner::NativeRunner;
pub use workspace::DirectoryWorkspace;

/// Why a directory can't be used.
#[derive(Debug, thiserror::Error)]
#[error("failed to {doing} `{}`", path.display())]
pub struct DirectoryOpenError {
    /// What was being done.
    doing: &'static str,
    path: std::path::PathBuf,
    #[source]
    source: std::io::Error,
}
