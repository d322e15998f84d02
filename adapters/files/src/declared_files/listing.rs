//! Lists the files beneath a directory.

use std::{
    fs,
    path::{Path, PathBuf},
};

use satchel_ports::{DeclaredFileError, FileEntry};

use super::{DeclaredRoot, io_error, is_hidden};

/// The most files of one listing.
const MAX_FILES: usize = 100_000;

/// How deep directories are listed.
const MAX_DEPTH: usize = 64;

pub(super) fn list(
    root: &DeclaredRoot,
    directory: &Path,
    is_recursive: bool,
) -> Result<Vec<FileEntry>, DeclaredFileError> {
    // Links are followed here and nowhere beneath.
    let start = match root.relative_path(directory) {
        Ok(start) => start,
        Err(DeclaredFileError::Missing(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    let mut waiting = vec![(ListedDirectory { shown: directory.to_owned(), path: start }, 0)];
    while let Some((directory, depth)) = waiting.pop() {
        for child in list_directory(root, &directory, &mut files)? {
            if is_recursive && depth < MAX_DEPTH {
                waiting.push((child, depth + 1));
            }
        }
        if files.len() > MAX_FILES {
            return Err(DeclaredFileError::TooMany {
                directory: root.canonical.join(directory.path),
                limit: MAX_FILES,
            });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// A directory beneath a root.
struct ListedDirectory {
    /// Its path as a glob names it.
    shown: PathBuf,
    /// Its path without links.
    path: PathBuf,
}

/// Adds the files of one directory, and returns its directories. What vanishes meanwhile is left out, and what is hidden or
/// excluded, by whatever name.
fn list_directory(
    root: &DeclaredRoot,
    directory: &ListedDirectory,
    files: &mut Vec<FileEntry>,
) -> Result<Vec<ListedDirectory>, DeclaredFileError> {
    let opened = if directory.path.as_os_str().is_empty() { Path::new(".") } else { &directory.path };
    let canonical = root.canonical.join(&directory.path);
    let failed = |error| io_error("list", &canonical, error);
    let entries = match root.directory.read_dir(opened) {
        Ok(entries) => entries,
        Err(error) if super::is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut directories = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if is_hidden(&name) || root.exclusions.has_name(&canonical, &name) {
            continue;
        }
        let (path, shown) = (directory.path.join(&name), directory.shown.join(&name));
        // A name that is no text can be matched by no glob.
        let Some(text) = shown.to_str().map(str::to_owned) else { continue };
        let full = canonical.join(&name);
        let is_allowed = || fs::symlink_metadata(&full).is_ok_and(|found| !root.exclusions.is_excluded(&found));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                if is_allowed() {
                    directories.push(ListedDirectory { shown, path });
                }
            }
            Ok(kind) if kind.is_file() => {
                if is_allowed() {
                    files.push(FileEntry { path: text, canonical: full });
                }
            }
            Ok(kind) if kind.is_symlink() => {
                if let Ok(target) = root.relative_path(&path)
                    && root.directory.symlink_metadata(&target).is_ok_and(|target| target.is_file())
                {
                    files.push(FileEntry { path: text, canonical: root.canonical.join(target) });
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(directories)
}
