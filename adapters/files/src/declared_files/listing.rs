//! Lists the files beneath a directory.

use std::path::{Path, PathBuf};

use satchel_ports::{DeclaredFileError, FileEntry};

use super::{DeclaredRoot, io_error};

/// The most files of one listing.
const MAX_FILES: usize = 100_000;

/// How deep directories are listed.
const MAX_DEPTH: usize = 64;

pub(super) fn list(root: &Path, directory: &Path, is_recursive: bool) -> Result<Vec<FileEntry>, DeclaredFileError> {
    let root = DeclaredRoot::open(root)?;
    let start = match directory.as_os_str().is_empty() {
        true => PathBuf::new(),
        false => match root.relative_path(directory) {
            Ok(_) => directory.to_owned(),
            Err(DeclaredFileError::Missing(_)) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        },
    };
    let mut files = Vec::new();
    let mut waiting = vec![(start, 0)];
    while let Some((directory, depth)) = waiting.pop() {
        for child in list_directory(&root, &directory, &mut files)? {
            if is_recursive && depth < MAX_DEPTH {
                waiting.push((child, depth + 1));
            }
        }
        if files.len() > MAX_FILES {
            return Err(DeclaredFileError::TooMany { directory: root.canonical.join(directory), limit: MAX_FILES });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Adds the files of one directory, and returns its directories. What vanishes meanwhile is left out.
fn list_directory(
    root: &DeclaredRoot,
    directory: &Path,
    files: &mut Vec<FileEntry>,
) -> Result<Vec<PathBuf>, DeclaredFileError> {
    let shown = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let entries = match root.directory.read_dir(shown) {
        Ok(entries) => entries,
        Err(error) if super::is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(io_error("list", &root.canonical.join(directory), error)),
    };
    let mut directories = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| io_error("list", &root.canonical.join(directory), error))?;
        let path = directory.join(entry.file_name());
        // A name that is no text can be matched by no glob.
        let Some(text) = path.to_str().map(str::to_owned) else { continue };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => directories.push(path),
            Ok(kind) if kind.is_file() => files.push(FileEntry { path: text, canonical: root.canonical.join(&path) }),
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
