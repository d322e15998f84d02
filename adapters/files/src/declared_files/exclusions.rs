//! What declarations never reach: hidden files, and what Satchel itself keeps.
//!
//! Files are compared by their identity on the disk and not only by their paths, so that a second name, another mount or
//! a spelling in another case leads to nothing more than the path that the configuration names.

use std::{
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{self, Component, Path, PathBuf},
};

use satchel_ports::DeclaredFileError;

use super::io_error;

/// A directory of Satchel's own, in which there may be other files, too.
#[derive(Debug, Clone)]
pub struct OwnDirectory {
    pub path: PathBuf,
    /// Whether an entry of that name belongs to Satchel.
    pub is_own: fn(&str) -> bool,
}

/// What declarations never reach, besides hidden files.
#[derive(Debug, Clone, Default)]
pub struct ExcludedPaths {
    /// Directories with everything in them. Where the declarations are in such a directory themselves, only Satchel's own
    /// entries are excluded.
    pub own_directories: Vec<OwnDirectory>,
    /// Files, and directories with everything in them. With a file goes its copy, such as `satchel.yaml.bak`.
    pub paths: Vec<PathBuf>,
}

impl ExcludedPaths {
    /// The first of them that a directory holds or is in.
    #[must_use]
    pub fn find_overlap(&self, directory: &Path) -> Option<&Path> {
        let directory = resolve_existing(directory);
        let is_shared = |path: &&PathBuf| {
            let path = resolve_existing(path);
            strip_directory(&path, &directory).is_some() || strip_directory(&directory, &path).is_some()
        };
        let own = self.own_directories.iter().find(|own| own.has_overlap(&directory)).map(|own| &own.path);
        own.or_else(|| self.paths.iter().find(is_shared)).map(PathBuf::as_path)
    }

    /// Reads what they are on the disk now, for the declarations in a directory.
    pub(super) fn read_exclusions(&self, root: &Path) -> Result<Exclusions, DeclaredFileError> {
        let mut exclusions = Exclusions::default();
        let above: Vec<FileIdentity> = root.ancestors().filter_map(find_identity).collect();
        for OwnDirectory { path, is_own } in &self.own_directories {
            let Some(identity) = find_identity(path) else { continue };
            let is_above = above.contains(&identity);
            if !is_above {
                exclusions.identities.insert(identity);
            }
            let entries = match fs::read_dir(path) {
                Ok(entries) => entries,
                // It is excluded as a whole; other names of its entries stay unknown.
                Err(error) if !is_above && is_unlistable(&error) => continue,
                Err(error) => return Err(io_error("list", path, error)),
            };
            for entry in entries {
                let entry = entry.map_err(|error| io_error("list", path, error))?;
                let is_own = entry.file_name().to_str().is_some_and(is_own);
                // Also where the whole directory is excluded: a link leads elsewhere, a file may have a second name elsewhere,
                // and a directory may be mounted elsewhere.
                if is_own {
                    exclusions.add(&entry.path());
                }
            }
        }
        for path in &self.paths {
            exclusions.add(path);
        }
        exclusions.has_root = above.iter().any(|ancestor| exclusions.identities.contains(ancestor));
        Ok(exclusions)
    }
}

impl OwnDirectory {
    /// Whether a directory holds this one, or is in an entry that belongs to Satchel.
    fn has_overlap(&self, directory: &Path) -> bool {
        let path = resolve_existing(&self.path);
        let entry = strip_directory(directory, &path).and_then(|rest| rest.iter().next().map(OsStr::to_owned));
        strip_directory(&path, directory).is_some()
            || entry.is_some_and(|entry| entry.to_str().is_some_and(self.is_own))
    }
}

/// What is excluded, as it is on the disk.
#[derive(Debug, Default)]
pub(super) struct Exclusions {
    identities: HashSet<FileIdentity>,
    /// The names of excluded files, by their directories.
    names: HashMap<PathBuf, Vec<OsString>>,
    has_root: bool,
}

impl Exclusions {
    /// Whether the declarations themselves are in an excluded directory.
    pub(super) fn has_root(&self) -> bool {
        self.has_root
    }

    /// Whether a file or directory is one of them, whatever path leads to it.
    pub(super) fn is_excluded(&self, found: &Metadata) -> bool {
        self.identities.contains(&FileIdentity::from(found))
    }

    /// Whether a name in a directory, whose path is free of links, is that of an excluded file or of its copy.
    pub(super) fn has_name(&self, directory: &Path, name: &OsStr) -> bool {
        self.names.get(directory).is_some_and(|names| names.iter().any(|own| is_name_or_copy(name, own)))
    }

    fn add(&mut self, path: &Path) {
        let Ok(found) = fs::metadata(path) else { return };
        self.identities.insert(FileIdentity::from(&found));
        if found.is_file() {
            // Copies lie beside the file, or beside the link that the configuration names.
            let beside_link = path.parent().and_then(|directory| directory.canonicalize().ok());
            self.add_name(path.canonicalize().ok());
            self.add_name(beside_link.zip(path.file_name()).map(|(directory, name)| directory.join(name)));
        }
    }

    fn add_name(&mut self, path: Option<PathBuf>) {
        if let Some(path) = path
            && let (Some(directory), Some(name)) = (path.parent(), path.file_name())
        {
            self.names.entry(directory.to_owned()).or_default().push(name.to_owned());
        }
    }
}

/// What a file or directory is on this machine, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl From<&Metadata> for FileIdentity {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Whether a name makes a file hidden.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Whether a name is that of a file, or of a copy that an editor or a person leaves beside it.
fn is_name_or_copy(name: &OsStr, file: &OsStr) -> bool {
    match name.as_encoded_bytes().strip_prefix(file.as_encoded_bytes()) {
        Some([]) => true,
        // `token.png` is no copy of `token`.
        Some([b'.' | b'~' | b'-', ..]) => file.as_encoded_bytes().contains(&b'.'),
        _ => false,
    }
}

/// Follows the links of what exists of a path, and resolves `.` and `..` in the rest by the text.
pub(super) fn resolve_existing(path: &Path) -> PathBuf {
    let absolute = path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = absolute.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    let joined = existing.and_then(|(ancestor, canonical)| Some(canonical.join(absolute.strip_prefix(ancestor).ok()?)));
    normalize(&joined.unwrap_or(absolute))
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

/// The rest of a path in a directory; `None` if it is elsewhere. Both are resolved.
fn strip_directory<'a>(path: &'a Path, directory: &Path) -> Option<&'a Path> {
    let identity = find_identity(directory);
    let is_directory =
        |ancestor: &&Path| *ancestor == directory || identity.is_some() && find_identity(ancestor) == identity;
    let ancestor = path.ancestors().find(is_directory)?;
    path.strip_prefix(ancestor).ok()
}

/// Whether a directory belongs to somebody else, as that of a Bot API server may, or is none.
fn is_unlistable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory)
}

/// The identity of what a path leads to. What can't be looked up has none, and can't be read by another path either.
fn find_identity(path: &Path) -> Option<FileIdentity> {
    fs::metadata(path).ok().map(|found| FileIdentity::from(&found))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn copy_is_excluded_with_its_file() {
        for copy in ["satchel.yaml", "satchel.yaml.bak", "satchel.yaml~", "satchel.yaml-2026-03-02"] {
            assert!(is_name_or_copy(OsStr::new(copy), OsStr::new("satchel.yaml")), "{copy}");
        }
        for other in ["satchel.yml", "satchel", "my-satchel.yaml", "satchel.yamls"] {
            assert!(!is_name_or_copy(OsStr::new(other), OsStr::new("satchel.yaml")), "{other}");
        }
        assert!(!is_name_or_copy(OsStr::new("token.png"), OsStr::new("token")));
    }

    /// A second mount of a directory has its identity, and its path leads through none of the data directory's.
    #[test]
    fn directories_of_own_data_are_excluded_by_their_identity() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for directory in ["root", "data/blobs", "data/recordings"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        let excluded = ExcludedPaths {
            own_directories: vec![OwnDirectory { path: path("data"), is_own: |name| name == "blobs" }],
            paths: Vec::new(),
        };
        let exclusions = excluded.read_exclusions(&path("root")).unwrap();
        for (directory, expected) in [("data", true), ("data/blobs", true), ("data/recordings", false), ("root", false)]
        {
            assert_eq!(exclusions.is_excluded(&fs::metadata(path(directory)).unwrap()), expected, "{directory}");
        }
        assert!(excluded.read_exclusions(&path("data/blobs")).unwrap().has_root());
    }

    /// Catches: a directory for everybody that gives away the data in it, or that is a part of the data.
    #[test]
    fn overlap_is_found_through_links_and_before_creation() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for directory in ["data/blobs", "family", "backups", "conf"] {
            fs::create_dir_all(path(directory)).unwrap();
        }
        fs::write(path("conf/satchel.yaml"), "").unwrap();
        symlink(path("data"), path("family/link")).unwrap();
        symlink(home.path(), path("up")).unwrap();
        let excluded = ExcludedPaths {
            own_directories: vec![OwnDirectory { path: path("data"), is_own: |name| name == "blobs" }],
            paths: vec![path("conf/satchel.yaml"), path("backups"), path("later/data")],
        };
        for (directory, expected) in [
            ("family", None),
            ("data/family", None),
            ("data", Some("data")),
            ("family/link", Some("data")),
            ("family/link/blobs/deep", Some("data")),
            ("up", Some("data")),
            ("conf", Some("conf/satchel.yaml")),
            ("conf/shared", None),
            ("backups/shared", Some("backups")),
            ("later", Some("later/data")),
            ("later/data/../../backups", Some("backups")),
        ] {
            let found = excluded.find_overlap(&path(directory));
            assert_eq!(found, expected.map(path).as_deref(), "{directory}");
        }
    }
}
