//! `DeclaredFiles` on the disk: files beneath the configuration's directories, and temporary files within a quota.

mod downloads;
mod listing;
mod opened;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use cap_std::{ambient_authority, fs::Dir};
use satchel_ports::{BlobHint, ByteStream, DeclaredFileError, DeclaredFiles, FileEntry, OpenedFile};

use self::downloads::Downloads;
use crate::DirectoryOpenError;

/// The files that declarations name.
pub struct DirectoryDeclaredFiles {
    downloads: Arc<Downloads>,
}

impl DirectoryDeclaredFiles {
    /// Uses `temp_directory` for downloads, of at most `quota` bytes at a time. What a dead process left there is
    /// removed.
    ///
    /// # Errors
    /// When the directory can't be used.
    pub fn open(temp_directory: &Path, quota: u64) -> Result<Self, DirectoryOpenError> {
        Ok(Self { downloads: Arc::new(Downloads::open(temp_directory, quota)?) })
    }
}

#[async_trait]
impl DeclaredFiles for DirectoryDeclaredFiles {
    async fn list(
        &self,
        root: &Path,
        directory: &str,
        is_recursive: bool,
    ) -> Result<Vec<FileEntry>, DeclaredFileError> {
        let (root, directory) = (root.to_owned(), directory.to_owned());
        run_blocking(move || listing::list(&root, Path::new(&directory), is_recursive)).await
    }

    async fn canonical_path(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        let path = root.join(path);
        run_blocking(move || Ok(path.canonicalize().ok())).await.ok().flatten()
    }

    async fn open(&self, root: &Path, path: &Path) -> Result<OpenedFile, DeclaredFileError> {
        let (root, path) = (root.to_owned(), path.to_owned());
        run_blocking(move || opened::open(&root, &path)).await
    }

    async fn store(&self, content: ByteStream, hint: &BlobHint) -> Result<OpenedFile, DeclaredFileError> {
        downloads::store(&self.downloads, content, hint).await
    }
}

/// A directory beneath which files are, opened, with its path free of links.
struct DeclaredRoot {
    directory: Dir,
    canonical: PathBuf,
}

impl DeclaredRoot {
    fn open(root: &Path) -> Result<Self, DeclaredFileError> {
        let canonical = root.canonicalize().map_err(|error| io_error("open", root, error))?;
        let directory = Dir::open_ambient_dir(&canonical, ambient_authority());
        Ok(Self { directory: directory.map_err(|error| io_error("open", root, error))?, canonical })
    }

    /// The path beneath this root that a path leads to, all links followed.
    fn relative_path(&self, path: &Path) -> Result<PathBuf, DeclaredFileError> {
        let full = self.canonical.join(path);
        let canonical = match full.canonicalize() {
            Ok(canonical) => canonical,
            // Where it would be tells whether it may be named at all.
            Err(error) if is_missing(&error) => match normalize(&full).starts_with(&self.canonical) {
                true => return Err(DeclaredFileError::Missing(path.to_owned())),
                false => return Err(self.outside(path)),
            },
            Err(error) => return Err(io_error("open", path, error)),
        };
        canonical.strip_prefix(&self.canonical).map(Path::to_owned).map_err(|_| self.outside(path))
    }

    fn outside(&self, path: &Path) -> DeclaredFileError {
        DeclaredFileError::Outside { path: path.to_owned(), root: self.canonical.clone() }
    }
}

/// Resolves `.` and `..` by the text of a path alone.
fn normalize(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normalized.pop()),
            Component::CurDir => {}
            other => normalized.push(other),
        }
    }
    normalized
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn io_error(operation: &'static str, path: &Path, source: io::Error) -> DeclaredFileError {
    match is_missing(&source) {
        true => DeclaredFileError::Missing(path.to_owned()),
        false => DeclaredFileError::Io { operation, path: path.to_owned(), source },
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DeclaredFileError> + Send + 'static,
) -> Result<T, DeclaredFileError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        let source = io::Error::other(error);
        Err(DeclaredFileError::Io { operation: "finish the work on", path: PathBuf::new(), source })
    })
}
