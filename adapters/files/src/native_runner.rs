//! File operations by the process itself, through directory handles that can't be escaped.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    path::Path,
};

use cap_std::fs::{Dir, FileType, Metadata, OpenOptions, OpenOptionsExt};
use rustix::fs::{OFlags, RenameFlags, renameat_with};
use satchel_blob_content::copy::BlockSource;
use satchel_ports::{
    FileAccess, FileProfile, FileReader, FileRunner, FileWriter,
    file_runner::{FileKind, FileStat, LinkMode, MountDirectory},
};

use crate::directory;

/// The [`FileRunner`] without a sandbox: the system resolves each path beneath the handle of its mount.
#[derive(Debug, Clone, Copy, Default)]
pub struct NativeRunner;

impl FileRunner for NativeRunner {
    fn reader(&self, mount: MountDirectory, profile: FileProfile) -> io::Result<Box<dyn FileReader>> {
        profile.check(mount.mount)?;
        Ok(Box::new(NativeReader { root: Dir::from_std_file(mount.directory), file: None }))
    }

    fn writer(&self, mount: MountDirectory) -> io::Result<Box<dyn FileWriter>> {
        FileProfile::FileReadWrite.check(mount.mount)?;
        Ok(Box::new(NativeWriter::new(Dir::from_std_file(mount.directory), mount.access)))
    }
}

struct NativeReader {
    root: Dir,
    file: Option<File>,
}

impl FileReader for NativeReader {
    fn stat(&mut self, path: &Path, links: LinkMode) -> io::Result<FileStat> {
        stat(&self.root, path, links)
    }

    fn open(&mut self, path: &Path) -> io::Result<FileStat> {
        let mut options = OpenOptions::new();
        // Whatever the path has become, opening it doesn't wait.
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file = self.root.open_with(or_current(path), &options)?;
        let stat = to_stat(&file.metadata()?)?;
        self.file = Some(file.into_std());
        Ok(stat)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file.as_mut().ok_or_else(no_file)?;
        file.read_block(buffer)
    }

    fn list(&mut self, path: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
        let mut names = Vec::new();
        for entry in directory::open(&self.root, path)?.entries()? {
            let entry = entry?;
            match entry.file_type() {
                Ok(kind) => names.push((entry.file_name(), to_kind(kind))),
                // Removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(names)
    }
}

/// Changes files beneath a directory. The stores use it too, for their own directories.
pub(crate) struct NativeWriter {
    root: Dir,
    access: FileAccess,
    file: Option<File>,
}

impl NativeWriter {
    pub(crate) fn new(root: Dir, access: FileAccess) -> Self {
        Self { root, access, file: None }
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(no_file)
    }
}

impl FileWriter for NativeWriter {
    fn stat(&mut self, path: &Path, links: LinkMode) -> io::Result<FileStat> {
        stat(&self.root, path, links)
    }

    fn create_dirs(&mut self, path: &Path) -> io::Result<()> {
        directory::ensure(&self.root, path, self.access).map(drop)
    }

    fn enter(&mut self, path: &Path) -> io::Result<()> {
        self.root = directory::open(&self.root, path)?;
        Ok(())
    }

    fn create(&mut self, path: &Path) -> io::Result<File> {
        self.file = None;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(self.access.file_mode());
        let file = self.root.open_with(or_current(path), &options)?.into_std();
        match file.try_clone() {
            Ok(handle) => {
                self.file = Some(file);
                Ok(handle)
            }
            Err(error) => self.remove_file(path).and(Err(error)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file()?.sync_all()
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.root.hard_link(or_current(from), &self.root, or_current(to))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.root.rename(or_current(from), &self.root, or_current(to))
    }

    fn rename_new(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        rename_new(&self.root, from, to)
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.root.remove_file(or_current(path))
    }

    fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        self.root.remove_dir(or_current(path))
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        directory::sync(&directory::open(&self.root, path)?)
    }
}

fn stat(root: &Dir, path: &Path, links: LinkMode) -> io::Result<FileStat> {
    let metadata = match links {
        LinkMode::Keep => root.symlink_metadata(or_current(path)),
        LinkMode::Follow => root.metadata(or_current(path)),
    };
    to_stat(&metadata?)
}

/// Renames within `root`, never in place of anything.
fn rename_new(root: &Dir, from: &Path, to: &Path) -> io::Result<()> {
    let ((from_parent, from), (to_parent, to)) = (open_parent(root, from)?, open_parent(root, to)?);
    Ok(renameat_with(&from_parent, from, &to_parent, to, RenameFlags::NOREPLACE)?)
}

/// The directory in which a path lies, and its name there.
fn open_parent<'a>(root: &Dir, path: &'a Path) -> io::Result<(Dir, &'a Path)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent = directory::open(root, path.parent().unwrap_or(Path::new("")))?;
    Ok((parent, Path::new(name)))
}

/// The empty path is the directory itself, which systems call by a dot.
fn or_current(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

pub(crate) fn to_stat(metadata: &Metadata) -> io::Result<FileStat> {
    let kind = to_kind(metadata.file_type());
    let bytes = if kind == FileKind::File { metadata.len() } else { 0 };
    Ok(FileStat { kind, bytes, modified_at: metadata.modified()?.into_std() })
}

fn to_kind(kind: FileType) -> FileKind {
    match kind {
        kind if kind.is_file() => FileKind::File,
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_symlink() => FileKind::Link,
        _ => FileKind::Other,
    }
}

fn no_file() -> io::Error {
    rustix::io::Errno::BADF.into()
}
