//! The files that one guest may touch: its table of descriptors, and what it may do with each.
//!
//! Confinement is done here, on the host: the system resolves every path beneath the handle of a directory that the
//! guest holds (`openat2` with `RESOLVE_BENEATH` where there is one). The guest has no other way to a file.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Write},
    iter::Peekable,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
    time::UNIX_EPOCH,
};

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, FileType, Metadata, OpenOptions, OpenOptionsExt};
use rustix::fs::{OFlags, RenameFlags, renameat_with};
use satchel_ports::FileAccess;

/// The descriptor of the directory that a guest is given: the first one after those of the standard streams, which it
/// doesn't have.
const ROOT: usize = 3;

/// The most descriptors that a guest may hold.
const MAX_DESCRIPTORS: usize = 16;

/// Types of files in WASI (`filetype`).
pub(crate) const REGULAR_FILE: u8 = 4;
pub(crate) const DIRECTORY: u8 = 3;
pub(crate) const SYMBOLIC_LINK: u8 = 7;
const UNKNOWN: u8 = 0;

/// How a path is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenMode {
    Directory,
    Read,
    /// A new file, for writing.
    CreateNew,
}

/// What a file system knows of something in a directory (`filestat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WasiStat {
    pub(crate) file_type: u8,
    pub(crate) bytes: u64,
    pub(crate) modified_ns: u64,
}

/// One name in a directory.
pub(crate) struct DirectoryEntry {
    pub(crate) name: Vec<u8>,
    pub(crate) file_type: u8,
}

/// A directory that the guest holds, and a path beneath it.
pub(crate) type PathAt<'a> = (u32, &'a [u8]);

type Listing = Peekable<Box<dyn Iterator<Item = io::Result<DirectoryEntry>> + Send>>;

enum Descriptor {
    File(File),
    Directory {
        directory: Dir,
        /// The entries that follow those already given out, and the cookie of the next.
        listing: Option<(u64, Listing)>,
    },
}

/// The descriptors of a guest.
pub(crate) struct Descriptors {
    table: Vec<Option<Descriptor>>,
    access: FileAccess,
    can_write: bool,
}

impl Descriptors {
    /// Gives a guest one directory.
    pub(crate) fn new(directory: File, access: FileAccess, can_write: bool) -> Self {
        let root = Descriptor::Directory { directory: Dir::from_std_file(directory), listing: None };
        let mut table: Vec<Option<Descriptor>> = Vec::with_capacity(ROOT + 2);
        table.resize_with(ROOT, || None);
        table.push(Some(root));
        Self { table, access, can_write }
    }

    pub(crate) fn open(&mut self, directory: u32, path: &[u8], follows: bool, mode: OpenMode) -> io::Result<u32> {
        let root = self.directory(directory)?;
        let path = to_path(path);
        let opened = match mode {
            OpenMode::Directory => Descriptor::Directory { directory: open_directory(root, path)?, listing: None },
            OpenMode::Read => Descriptor::File(open_file(root, path, follows)?),
            OpenMode::CreateNew => Descriptor::File(self.require_write().and_then(|()| {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true).mode(self.access.file_mode());
                Ok(root.open_with(path, &options)?.into_std())
            })?),
        };
        self.insert(opened)
    }

    pub(crate) fn close(&mut self, descriptor: u32) -> io::Result<()> {
        let slot = self.table.get_mut(descriptor as usize).ok_or_else(bad_descriptor)?;
        slot.take().map(drop).ok_or_else(bad_descriptor)
    }

    pub(crate) fn read(&mut self, descriptor: u32, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file(descriptor)?;
        retry_interrupted(|| file.read(buffer))
    }

    pub(crate) fn write(&mut self, descriptor: u32, bytes: &[u8]) -> io::Result<usize> {
        self.require_write()?;
        let file = self.file(descriptor)?;
        retry_interrupted(|| file.write(bytes))
    }

    pub(crate) fn sync(&self, descriptor: u32) -> io::Result<()> {
        match self.get(descriptor)? {
            Descriptor::File(file) => file.sync_all(),
            Descriptor::Directory { directory, .. } => directory.open(".")?.sync_all(),
        }
    }

    pub(crate) fn stat(&self, descriptor: u32) -> io::Result<WasiStat> {
        match self.get(descriptor)? {
            Descriptor::File(file) => to_stat(&Metadata::from_file(file)?),
            Descriptor::Directory { directory, .. } => to_stat(&directory.dir_metadata()?),
        }
    }

    pub(crate) fn stat_path(&self, directory: u32, path: &[u8], follows: bool) -> io::Result<WasiStat> {
        let root = self.directory(directory)?;
        let metadata = match follows {
            true => root.metadata(to_path(path)),
            false => root.symlink_metadata(to_path(path)),
        };
        to_stat(&metadata?)
    }

    /// The entry of a directory at a cookie, without passing it: cookies count entries, 0 starts again.
    pub(crate) fn peek_entry(&mut self, descriptor: u32, cookie: u64) -> io::Result<Option<&DirectoryEntry>> {
        let Descriptor::Directory { directory, listing } = self.get_mut(descriptor)? else {
            return Err(io::ErrorKind::NotADirectory.into());
        };
        let position = match listing {
            Some((position, _)) if *position <= cookie => *position,
            _ => {
                *listing = Some((0, list(directory)?));
                0
            }
        };
        let Some((at, entries)) = listing else { return Ok(None) };
        for _ in position..cookie {
            if entries.next().is_none() {
                break;
            }
        }
        *at = cookie;
        if let Some(Err(_)) = entries.peek() {
            return entries.next().transpose().map(|_| None);
        }
        Ok(entries.peek().and_then(|entry| entry.as_ref().ok()))
    }

    pub(crate) fn create_directory(&self, directory: u32, path: &[u8]) -> io::Result<()> {
        self.require_write()?;
        let mut builder = DirBuilder::new();
        builder.mode(self.access.directory_mode());
        self.directory(directory)?.create_dir_with(to_path(path), &builder)
    }

    pub(crate) fn link(&self, from: PathAt<'_>, to: PathAt<'_>) -> io::Result<()> {
        self.require_write()?;
        self.directory(from.0)?.hard_link(to_path(from.1), self.directory(to.0)?, to_path(to.1))
    }

    pub(crate) fn rename(&self, from: PathAt<'_>, to: PathAt<'_>) -> io::Result<()> {
        self.require_write()?;
        self.directory(from.0)?.rename(to_path(from.1), self.directory(to.0)?, to_path(to.1))
    }

    /// Renames, never in place of anything.
    pub(crate) fn rename_new(&self, from: PathAt<'_>, to: PathAt<'_>) -> io::Result<()> {
        self.require_write()?;
        let (from_parent, from_name) = self.parent(from)?;
        let (to_parent, to_name) = self.parent(to)?;
        Ok(renameat_with(&from_parent, from_name, &to_parent, to_name, RenameFlags::NOREPLACE)?)
    }

    pub(crate) fn unlink(&self, directory: u32, path: &[u8]) -> io::Result<()> {
        self.require_write()?;
        self.directory(directory)?.remove_file(to_path(path))
    }

    pub(crate) fn remove_directory(&self, directory: u32, path: &[u8]) -> io::Result<()> {
        self.require_write()?;
        self.directory(directory)?.remove_dir(to_path(path))
    }

    /// A handle of an open file, for the host.
    pub(crate) fn file_handle(&self, descriptor: u32) -> io::Result<File> {
        match self.get(descriptor)? {
            Descriptor::File(file) => file.try_clone(),
            Descriptor::Directory { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn insert(&mut self, descriptor: Descriptor) -> io::Result<u32> {
        let free = self.table.iter().skip(ROOT).position(Option::is_none).map(|slot| slot + ROOT);
        let slot = free.unwrap_or(self.table.len());
        if slot >= MAX_DESCRIPTORS {
            return Err(rustix::io::Errno::MFILE.into());
        }
        self.table.resize_with(self.table.len().max(slot + 1), || None);
        self.table[slot] = Some(descriptor);
        u32::try_from(slot).map_err(io::Error::other)
    }

    fn require_write(&self) -> io::Result<()> {
        if self.can_write { Ok(()) } else { Err(io::ErrorKind::ReadOnlyFilesystem.into()) }
    }

    fn parent<'a>(&self, (directory, path): PathAt<'a>) -> io::Result<(Dir, &'a Path)> {
        let path = to_path(path);
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().map_or(Path::new("."), or_current);
        Ok((open_directory(self.directory(directory)?, parent)?, Path::new(name)))
    }

    fn directory(&self, descriptor: u32) -> io::Result<&Dir> {
        match self.get(descriptor)? {
            Descriptor::Directory { directory, .. } => Ok(directory),
            Descriptor::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn file(&mut self, descriptor: u32) -> io::Result<&mut File> {
        match self.get_mut(descriptor)? {
            Descriptor::File(file) => Ok(file),
            Descriptor::Directory { .. } => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn get(&self, descriptor: u32) -> io::Result<&Descriptor> {
        self.table.get(descriptor as usize).and_then(Option::as_ref).ok_or_else(bad_descriptor)
    }

    fn get_mut(&mut self, descriptor: u32) -> io::Result<&mut Descriptor> {
        self.table.get_mut(descriptor as usize).and_then(Option::as_mut).ok_or_else(bad_descriptor)
    }
}

fn open_file(root: &Dir, path: &Path, follows: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Whatever the path has become, opening it doesn't wait.
    let mut flags = OFlags::NONBLOCK;
    flags.set(OFlags::NOFOLLOW, !follows);
    options.read(true).custom_flags(flags.bits().cast_signed());
    Ok(root.open_with(path, &options)?.into_std())
}

fn open_directory(root: &Dir, path: &Path) -> io::Result<Dir> {
    root.open_dir(path)
}

fn list(directory: &Dir) -> io::Result<Listing> {
    let entries = directory.entries()?.filter_map(|entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error)),
        };
        match entry.file_type() {
            Ok(kind) => Some(Ok(DirectoryEntry { name: entry.file_name().into_vec(), file_type: to_file_type(kind) })),
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(error)),
        }
    });
    let entries: Box<dyn Iterator<Item = _> + Send> = Box::new(entries);
    Ok(entries.peekable())
}

fn to_path(path: &[u8]) -> &Path {
    or_current(Path::new(OsStr::from_bytes(path)))
}

/// The empty path is the directory itself, which systems call by a dot.
fn or_current(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn to_stat(metadata: &Metadata) -> io::Result<WasiStat> {
    let modified = metadata.modified()?.into_std().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(WasiStat {
        file_type: to_file_type(metadata.file_type()),
        bytes: metadata.len(),
        modified_ns: u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX),
    })
}

fn to_file_type(kind: FileType) -> u8 {
    match kind {
        kind if kind.is_file() => REGULAR_FILE,
        kind if kind.is_dir() => DIRECTORY,
        kind if kind.is_symlink() => SYMBOLIC_LINK,
        _ => UNKNOWN,
    }
}

fn retry_interrupted(mut operation: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn bad_descriptor() -> io::Error {
    rustix::io::Errno::BADF.into()
}
