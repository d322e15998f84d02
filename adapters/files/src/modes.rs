//! File modes: Satchel's own data is readable by its owner only, shared directories follow the umask.
//!
//! Modes are set explicitly, so that no umask exposes private data. What earlier versions left open is closed at the
//! start: a directory after everything beneath it, so that a closed one is never entered again, and closing continues
//! after a crash where it stopped.

use std::{
    io,
    path::{Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, DirBuilder, DirBuilderExt, MetadataExt},
};
use rustix::fs::{Mode, OFlags, fchmod, fstat, openat};
use satchel_ports::FileAccess;

use crate::directory;

/// The permission bits of other users.
const OTHERS_MASK: u32 = 0o077;

/// The largest mode of a private directory.
const DIRECTORY_MODE: Mode = Mode::RWXU;

/// The largest mode of a private file.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Creates a directory with the mode of this access.
pub(crate) fn create_dir(root: &Dir, path: &Path, access: FileAccess) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(access.directory_mode());
    root.create_dir_with(path, &builder)
}

/// Removes other users' access to Satchel's data in a directory: its own entries with everything beneath them, and the
/// directory itself when it holds nothing else. Links are not followed.
///
/// It reads one level of what is closed already. Entries that can't be closed, because another user owns them, are
/// logged and stay.
///
/// # Errors
/// When the directory can't be read.
pub fn close_to_others(path: &Path, is_own: impl Fn(&str) -> bool) -> io::Result<()> {
    close_entries(&Dir::open_ambient_dir(path, ambient_authority())?, path, is_own)
}

/// Does the same with a directory that is open.
pub(crate) fn close_entries(root: &Dir, path: &Path, is_own: impl Fn(&str) -> bool) -> io::Result<()> {
    let entries: Vec<_> = root.entries()?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    let (own, foreign): (Vec<_>, Vec<_>) = entries.into_iter().partition(|name| name.to_str().is_some_and(&is_own));
    if foreign.is_empty() {
        // First: then no one reaches what is still open beneath it.
        close_directory(root, path);
    }
    for name in own {
        if let Err(error) = close_if_open(root, Path::new(&name)) {
            warn_not_closed(&path.join(&name), &error);
        }
    }
    Ok(())
}

/// Closes a directory, but not its entries.
pub(crate) fn close_directory(directory: &Dir, path: &Path) {
    let current = Path::new(".");
    let closed = is_open_to_others(directory, current).and_then(|is_open| match is_open {
        true => restrict(directory, current, DIRECTORY_MODE),
        false => Ok(()),
    });
    if let Err(error) = closed {
        warn_not_closed(path, &error);
    }
}

/// Closes an entry of a directory, with everything beneath it, if it is open to others; returns whether it was.
pub(crate) fn close_if_open(root: &Dir, name: &Path) -> io::Result<bool> {
    match is_open_to_others(root, name) {
        Ok(true) => close_tree(root, name).map(|()| true),
        // Removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        closed => closed,
    }
}

/// Closes a file, or a directory after everything beneath it. Continues after entries that can't be closed, and returns
/// the first error.
///
/// Only one directory is open at a time, so that neither handles nor the stack limit how deep a tree can be.
fn close_tree(root: &Dir, path: &Path) -> io::Result<()> {
    if root.symlink_metadata(path)?.is_file() {
        return restrict(root, path, FILE_MODE);
    }
    let mut first_error = Ok(());
    let mut record_error = |result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound && first_error.is_ok() => first_error = Err(error),
        _ => {}
    };
    let (mut visited, mut pending) = (Vec::new(), vec![path.to_owned()]);
    while let Some(path) = pending.pop() {
        record_error(close_files(root, &path, &mut pending));
        visited.push(path);
    }
    // Parents were visited before their entries, so in reverse each comes after everything beneath it.
    for path in visited.iter().rev() {
        record_error(restrict(root, path, DIRECTORY_MODE));
    }
    first_error
}

/// Closes the files of a directory, and adds its directories that are open to `waiting`.
fn close_files(root: &Dir, path: &Path, pending: &mut Vec<PathBuf>) -> io::Result<()> {
    let directory = directory::open(root, path)?;
    for entry in directory.entries()? {
        let name = entry?.file_name();
        let name = Path::new(&name);
        match directory.symlink_metadata(name) {
            Ok(metadata) if metadata.mode() & OTHERS_MASK == 0 => {}
            Ok(metadata) if metadata.is_dir() => pending.push(path.join(name)),
            Ok(metadata) if metadata.is_file() => restrict(&directory, name, FILE_MODE)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether other users have any access; never for a link, which has no mode of its own.
fn is_open_to_others(root: &Dir, path: &Path) -> io::Result<bool> {
    let metadata = root.symlink_metadata(path)?;
    Ok(!metadata.is_symlink() && metadata.mode() & OTHERS_MASK != 0)
}

/// Restricts the mode of a file or directory to `max_mode`, without granting anything. A link is not followed, even if
/// one replaces the entry meanwhile.
fn restrict(directory: &Dir, name: &Path, max_mode: Mode) -> io::Result<()> {
    // Whatever the entry has become, opening it neither blocks nor changes it.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty())?;
    let mode = Mode::from_raw_mode(fstat(&file)?.st_mode) & max_mode;
    Ok(fchmod(file, mode)?)
}

fn warn_not_closed(path: &Path, error: &io::Error) {
    tracing::warn!(path = %path.display(), %error, "failed to remove other users' access to stored data");
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    /// A directory as an earlier version left it: `own/deep/file` and `own.db`, all open.
    fn earlier() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("own/deep")).unwrap();
        for file in ["own/deep/file", "own.db"] {
            fs::write(root.path().join(file), "words").unwrap();
            set(&root.path().join(file), 0o644);
        }
        for directory in ["own/deep", "own", ""] {
            set(&root.path().join(directory), 0o755);
        }
        root
    }

    fn modes(root: &Path) -> [u32; 5] {
        ["", "own", "own/deep", "own/deep/file", "own.db"].map(|path| mode(&root.join(path)))
    }

    #[test]
    fn what_an_earlier_version_left_open_is_closed() {
        let root = earlier();
        close_to_others(root.path(), |name| name.starts_with("own")).unwrap();
        assert_eq!(modes(root.path()), [0o700, 0o700, 0o700, 0o600, 0o600]);
    }

    #[test]
    fn directory_with_foreign_files_keeps_its_mode() {
        let root = earlier();
        let letter = root.path().join("letter.txt");
        fs::write(&letter, "words").unwrap();
        set(&letter, 0o644);
        close_to_others(root.path(), |name| name.starts_with("own")).unwrap();
        assert_eq!(modes(root.path()), [0o755, 0o700, 0o700, 0o600, 0o600]);
        assert_eq!(mode(&letter), 0o644);
    }

    #[test]
    fn what_its_owner_may_not_write_stays_so() {
        let root = earlier();
        set(&root.path().join("own"), 0o555);
        set(&root.path().join("own.db"), 0o444);
        close_to_others(root.path(), |name| name.starts_with("own")).unwrap();
        assert_eq!(modes(root.path()), [0o700, 0o500, 0o700, 0o600, 0o400]);
    }

    #[test]
    fn closed_directory_is_not_entered_again() {
        let root = earlier();
        let inside = root.path().join("own/deep/file");
        set(&root.path().join("own"), 0o700);
        close_to_others(root.path(), |name| name.starts_with("own")).unwrap();
        assert_eq!(mode(&inside), 0o644, "nobody can reach it, and looking for it would cost every start");
    }

    #[test]
    fn links_lead_nowhere() {
        let (root, elsewhere) = (earlier(), earlier());
        std::os::unix::fs::symlink(elsewhere.path(), root.path().join("own/link")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join("own.db"), root.path().join("own-link")).unwrap();
        close_to_others(root.path(), |name| name.starts_with("own")).unwrap();
        assert_eq!(modes(elsewhere.path()), [0o755, 0o755, 0o755, 0o644, 0o644]);
        assert_eq!(mode(&root.path().join("own")), 0o700);
        let directory = Dir::open_ambient_dir(root.path(), ambient_authority()).unwrap();
        assert!(restrict(&directory, Path::new("own-link"), FILE_MODE).is_err(), "one that was put there meanwhile");
    }
}
