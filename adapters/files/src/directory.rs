//! Directories by handle: opened, created durably, walked.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, DirEntry},
};
use satchel_ports::FileAccess;

use crate::{DirectoryOpenError, modes};

/// Opens the directory, which is created if missing.
pub(crate) fn open_root(path: &Path, access: FileAccess) -> Result<Dir, DirectoryOpenError> {
    let open_error = |doing| move |source| DirectoryOpenError { doing, path: path.to_owned(), source };
    let missing: Vec<&Path> = path.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(access.directory_mode());
    match builder.create(path) {
        // If a file is in its place, opening it below gives the clearer error.
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(open_error("make the directory")(error)),
    }
    for parent in missing.into_iter().filter_map(Path::parent) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(open_error("sync the directory"))?;
    }
    Dir::open_ambient_dir(path, ambient_authority()).map_err(open_error("open the directory"))
}

/// Makes the names in a directory durable.
pub(crate) fn sync(directory: &Dir) -> io::Result<()> {
    directory.open(".")?.sync_all()
}

/// Opens the directory at `path` beneath `root`; missing parents are created, and durable on return.
///
/// Callers hold a lock, so that no one takes a directory for durable while another creates it.
pub(crate) fn ensure(root: &Dir, path: &Path, access: FileAccess) -> io::Result<Dir> {
    match open(root, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let mut prefix = PathBuf::new();
    for component in path.components() {
        let parent = prefix.clone();
        prefix.push(component);
        match modes::create_dir(root, &prefix, access) {
            Ok(()) => sync(&open(root, &parent)?)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    open(root, path)
}

/// Opens the directory at `path` beneath `root`; the empty path is the root itself.
pub(crate) fn open(root: &Dir, path: &Path) -> io::Result<Dir> {
    match path.as_os_str().is_empty() {
        true => root.try_clone(),
        false => root.open_dir(path),
    }
}

/// Visits every entry beneath `root` that is not a directory. Links are visited, never followed.
pub(crate) fn walk(root: &Dir, mut visit: impl FnMut(&Dir, &DirEntry) -> io::Result<()>) -> io::Result<()> {
    walk_all(root, |directory, entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => Ok(()),
        _ => visit(directory, entry),
    })
}

/// Visits every entry beneath `root`, a directory before its entries. Links are visited, never followed.
///
/// Only one directory is open at a time, so that neither handles nor the stack limit how deep a tree can be.
pub(crate) fn walk_all(root: &Dir, mut visit: impl FnMut(&Dir, &DirEntry) -> io::Result<()>) -> io::Result<()> {
    let mut pending = vec![PathBuf::new()];
    while let Some(path) = pending.pop() {
        let directory = match open(root, &path) {
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        for entry in directory.entries()? {
            let entry = entry?;
            match entry.file_type() {
                Ok(kind) => {
                    visit(&directory, &entry)?;
                    if kind.is_dir() {
                        pending.push(path.join(entry.file_name()));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
