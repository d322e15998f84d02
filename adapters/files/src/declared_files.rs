//! `DeclaredFiles` on the disk: files beneath the configuration's directories, and temporary files within a quota.

mod downloads;
mod exclusions;
mod listing;
mod opened;
#[cfg(test)]
mod tests;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use cap_std::{ambient_authority, fs::Dir};
use satchel_ports::{BlobHint, ByteStream, DeclaredFileError, DeclaredFiles, FileEntry, OpenedFile};

pub use self::exclusions::{ExcludedPaths, OwnDirectory};
use self::{
    downloads::Downloads,
    exclusions::{Exclusions, is_hidden, resolve_existing},
};
use crate::DirectoryOpenError;

/// The files that declarations name.
pub struct DirectoryDeclaredFiles {
    downloads: Arc<Downloads>,
    excluded: Arc<ExcludedPaths>,
}

impl DirectoryDeclaredFiles {
    /// Uses `temp_directory` for downloads, of at most `quota` bytes at a time. What a dead process left there is
    /// removed. Neither that directory nor what is excluded is ever listed or opened.
    ///
    /// # Errors
    /// When the directory can't be used.
    pub fn open(temp_directory: &Path, quota: u64, mut excluded: ExcludedPaths) -> Result<Self, DirectoryOpenError> {
        excluded.paths.push(temp_directory.to_owned());
        Ok(Self { downloads: Arc::new(Downloads::open(temp_directory, quota)?), excluded: Arc::new(excluded) })
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
        let (root, directory, excluded) = (root.to_owned(), directory.to_owned(), Arc::clone(&self.excluded));
        run_blocking(move || {
            let root = DeclaredRoot::open(&root, &excluded)?;
            listing::list(&root, Path::new(&directory), is_recursive)
        })
        .await
    }

    async fn canonical_path(&self, root: &Path, path: &Path) -> Option<PathBuf> {
        let path = root.join(path);
        run_blocking(move || Ok(path.canonicalize().ok())).await.ok().flatten()
    }

    async fn open(&self, root: &Path, path: &Path) -> Result<OpenedFile, DeclaredFileError> {
        let (root, path, excluded) = (root.to_owned(), path.to_owned(), Arc::clone(&self.excluded));
        run_blocking(move || opened::open(&DeclaredRoot::open(&root, &excluded)?, &path)).await
    }

    async fn store(&self, content: ByteStream, hint: &BlobHint) -> Result<OpenedFile, DeclaredFileError> {
        downloads::store(&self.downloads, content, hint).await
    }
}

/// A directory beneath which files are, opened, with its path free of links.
struct DeclaredRoot {
    directory: Dir,
    canonical: PathBuf,
    exclusions: Exclusions,
}

impl DeclaredRoot {
    fn open(root: &Path, excluded: &ExcludedPaths) -> Result<Self, DeclaredFileError> {
        let canonical = root.canonicalize().map_err(|error| io_error("open", root, error))?;
        let exclusions = excluded.read_exclusions(&canonical)?;
        if exclusions.has_root() {
            return Err(own_file_error(root));
        }
        let directory = Dir::open_ambient_dir(&canonical, ambient_authority());
        Ok(Self { directory: directory.map_err(|error| io_error("open", root, error))?, canonical, exclusions })
    }

    /// The path beneath this root that a path leads to, all links followed. What is excluded is refused whether it exists
    /// or not, so that nobody learns that from the error.
    fn relative_path(&self, path: &Path) -> Result<PathBuf, DeclaredFileError> {
        let full = self.canonical.join(path);
        let (resolved, exists) = match full.canonicalize() {
            Ok(canonical) => (canonical, true),
            // Where it would be tells whether it may be named at all.
            Err(error) if is_missing(&error) => (resolve_existing(&full), false),
            Err(error) => return Err(io_error("open", path, error)),
        };
        let relative = resolved.strip_prefix(&self.canonical).map_err(|_| self.outside(path))?;
        self.check_exclusions(path, relative)?;
        match exists {
            true => Ok(relative.to_owned()),
            false => Err(DeclaredFileError::Missing(path.to_owned())),
        }
    }

    /// Refuses a path without links if one of its directories, or what it leads to, is hidden or excluded.
    fn check_exclusions(&self, given: &Path, relative: &Path) -> Result<(), DeclaredFileError> {
        if relative.iter().any(is_hidden) {
            let reason = "hidden files can't be attached";
            return Err(DeclaredFileError::Excluded { path: given.to_owned(), reason });
        }
        let mut path = self.canonical.clone();
        for name in relative {
            let has_own_name = self.exclusions.has_name(&path, name);
            path.push(name);
            // What is missing is none of the excluded files.
            let found = fs::symlink_metadata(&path);
            if has_own_name || found.is_ok_and(|found| self.exclusions.is_excluded(&found)) {
                return Err(own_file_error(given));
            }
        }
        Ok(())
    }

    fn outside(&self, path: &Path) -> DeclaredFileError {
        DeclaredFileError::Outside { path: path.to_owned(), root: self.canonical.clone() }
    }
}

fn own_file_error(path: &Path) -> DeclaredFileError {
    let reason = "Satchel's data and configuration can't be attached";
    DeclaredFileError::Excluded { path: path.to_owned(), reason }
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
