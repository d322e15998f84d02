//! The files of this machine that the operator's configuration names, and temporary files for what it downloads.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use satchel_domain::{MediaInfo, Sha256, size};

use crate::{BlobHint, ByteStream};

/// A file of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Its path beneath the root, with slashes and no leading `./`.
    pub path: String,
    /// Where it is, all links followed.
    pub canonical: PathBuf,
}

/// A file whose bytes were checked, and which can be read as long as this handle lives.
#[derive(Debug, Clone)]
pub struct OpenedFile {
    /// The type, detected from the bytes.
    pub mime: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The digest of the bytes.
    pub sha256: Sha256,
    /// Dimensions and the like, as far as the header tells.
    pub media: MediaInfo,
    /// The bytes.
    pub content: Arc<dyn ReadableFile>,
}

/// The bytes of an opened file. A temporary file is removed when the last handle is dropped.
pub trait ReadableFile: fmt::Debug + Send + Sync {
    /// Where it is on this machine; `None` for a file of a conversation.
    fn path(&self) -> Option<&Path>;

    /// Reads it from its beginning; may be called again.
    fn read(&self) -> ByteStream;
}

/// Why a file can't be listed, opened or stored.
#[derive(Debug, thiserror::Error)]
pub enum DeclaredFileError {
    /// There is no such file or directory.
    #[error("there is no file {}", .0.display())]
    Missing(PathBuf),
    /// The path, or a link in it, leads out of the root.
    #[error("{} leads out of {}", path.display(), root.display())]
    Outside {
        /// The path.
        path: PathBuf,
        /// The directory beneath which it has to be.
        root: PathBuf,
    },
    /// It is hidden, or Satchel's own.
    #[error("{} is not allowed: {reason}", path.display())]
    Excluded {
        /// The path.
        path: PathBuf,
        /// Why it is excluded.
        reason: &'static str,
    },
    /// It is a directory, a device, a pipe or a socket.
    #[error("{} is no regular file", .0.display())]
    NotRegular(PathBuf),
    /// There are too many files beneath a directory.
    #[error("there are more than {limit} files beneath {}", directory.display())]
    TooMany {
        /// The directory.
        directory: PathBuf,
        /// The most files that are listed.
        limit: usize,
    },
    /// The temporary files take up all the room that they may; a retry may help.
    #[error("temporary files take up {}, and more is not allowed (`attachments.temp_dir_quota_bytes`)", size::format_bytes(*limit))]
    QuotaExceeded {
        /// The room in bytes.
        limit: u64,
    },
    /// The bytes that were to be stored broke off, or were too many.
    #[error("{0}")]
    Source(io::Error),
    /// The disk failed.
    #[error("failed to {operation} {}", path.display())]
    Io {
        /// What was being done.
        operation: &'static str,
        /// To what.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
}

/// Reads what declarations name on this machine, and stores what they download while it is needed.
///
/// # Contract
/// - A path that leads out of its root is refused, by links of the path and of the root, also when it is swapped between
///   check and use.
/// - Satchel's own data and configuration, and what is hidden beneath the root, are neither opened nor listed. That is
///   decided by what a path leads to, also when it is swapped between check and use, and is the same for what is missing.
/// - Only regular files are opened and listed; a pipe makes nobody wait.
/// - A listing doesn't follow links to directories, and leaves out links to files outside of the root.
/// - The type of a file is detected from its bytes.
/// - A stored file is gone when its last handle is dropped, also when storing it fails or is cancelled.
/// - A full quota of temporary files is an error at once.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait DeclaredFiles: Send + Sync {
    /// Lists the files in a directory beneath a root, sorted by path; with `is_recursive` those of its subdirectories,
    /// too. A missing directory has none.
    async fn list(&self, root: &Path, directory: &str, is_recursive: bool)
    -> Result<Vec<FileEntry>, DeclaredFileError>;

    /// Returns where a path leads, all links followed; `None` if there is nothing.
    async fn canonical_path(&self, root: &Path, path: &Path) -> Option<PathBuf>;

    /// Opens a file beneath a root, by a relative path or an absolute one.
    async fn open(&self, root: &Path, path: &Path) -> Result<OpenedFile, DeclaredFileError>;

    /// Stores a stream in a temporary file.
    async fn store(&self, content: ByteStream, hint: &BlobHint) -> Result<OpenedFile, DeclaredFileError>;
}
