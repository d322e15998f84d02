//! The [`FileRunner`] that works through guests.

use std::{
    borrow::Cow,
    ffi::OsString,
    fs::File,
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, UNIX_EPOCH},
};

use satchel_domain::remedy;
use satchel_ports::{
    FileProfile, FileReader, FileRunner, FileWriter,
    file_runner::{FileKind, FileStat, LinkMode, MountDirectory},
};

use crate::{
    descriptors::{DIRECTORY, REGULAR_FILE, SYMBOLIC_LINK},
    engine::{GuestEngine, GuestRole, GuestSource},
    instance::{BUFFER_BYTES, GuestInstance},
    limits::Limits,
    wasi::ENTRY_HEADER_BYTES,
};

/// The guests that come with Satchel.
const GUESTS: GuestSource = GuestSource {
    reader: Cow::Borrowed(include_str!("../guest/reader.wat")),
    writer: Cow::Borrowed(include_str!("../guest/writer.wat")),
};

/// The most names that are taken from a guest, which may never stop.
const MAX_ENTRIES: usize = 1_000_000;

/// The sandbox: each piece of work runs in a fresh guest that holds one directory.
///
/// The guests are compiled when the first one is needed, which takes some 30 ms, and are kept in memory only: no machine
/// code is read from the disk.
pub struct SandboxRunner {
    source: GuestSource,
    limits: Limits,
    engine: Mutex<Option<Arc<GuestEngine>>>,
}

impl Default for SandboxRunner {
    fn default() -> Self {
        Self::new(GUESTS, Limits::default())
    }
}

impl SandboxRunner {
    /// A sandbox with guests of its own.
    #[must_use]
    pub fn new(source: GuestSource, limits: Limits) -> Self {
        Self { source, limits, engine: Mutex::new(None) }
    }

    /// Compiles the guests, unless they are compiled, and returns how long it took.
    ///
    /// # Errors
    /// When this machine can't run them.
    pub fn warm_up(&self) -> Result<Duration, SandboxError> {
        let start = Instant::now();
        self.engine().map(|_| start.elapsed())
    }

    fn engine(&self) -> Result<Arc<GuestEngine>, SandboxError> {
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*engine {
            return Ok(engine.clone());
        }
        let compiled =
            GuestEngine::compile(&self.source, self.limits).map_err(|error| SandboxError(format!("{error:#}")))?;
        Ok(engine.insert(Arc::new(compiled)).clone())
    }

    fn instantiate(&self, mount: MountDirectory, role: GuestRole) -> io::Result<GuestInstance> {
        let engine = self.engine().map_err(|error| {
            tracing::error!(%error, "an operation on a workspace failed; `tools.sandbox: off` works without the sandbox");
            io::Error::other(remedy::public_message("the sandbox of the workspace can't start"))
        })?;
        engine.instantiate(mount, role)
    }
}

/// Why the sandbox can't start.
#[derive(Debug, thiserror::Error)]
#[error("the sandbox can't start: {0}")]
pub struct SandboxError(String);

impl FileRunner for SandboxRunner {
    fn reader(&self, mount: MountDirectory, profile: FileProfile) -> io::Result<Box<dyn FileReader>> {
        profile.check(mount.mount)?;
        Ok(Box::new(SandboxReader(self.instantiate(mount, GuestRole::Reader)?)))
    }

    fn writer(&self, mount: MountDirectory) -> io::Result<Box<dyn FileWriter>> {
        FileProfile::FileReadWrite.check(mount.mount)?;
        Ok(Box::new(SandboxWriter(self.instantiate(mount, GuestRole::Writer)?)))
    }
}

struct SandboxReader(GuestInstance);

impl FileReader for SandboxReader {
    fn stat(&mut self, path: &Path, links: LinkMode) -> io::Result<FileStat> {
        stat(&mut self.0, path, links)
    }

    fn open(&mut self, path: &Path) -> io::Result<FileStat> {
        let length = self.0.put_path(path.as_os_str().as_bytes())?;
        self.0.call("open", length, 0)?;
        read_stat(&self.0)
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut total = 0;
        for chunk in buffer.chunks_mut(BUFFER_BYTES) {
            let length = self.0.call_for_number("read", u32::try_from(chunk.len()).map_err(io::Error::other)?)?;
            let read = self.0.buffer(length)?;
            chunk.get_mut(..read.len()).ok_or(io::ErrorKind::InvalidData)?.copy_from_slice(read);
            total += read.len();
            if read.len() < chunk.len() {
                break;
            }
        }
        Ok(total)
    }

    fn list(&mut self, path: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
        let length = self.0.put_path(path.as_os_str().as_bytes())?;
        self.0.call("open_dir", length, 0)?;
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let used = self.0.call_for_number("read_dir", cookie)?;
            let entries = self.0.buffer(used)?;
            let count = names.len();
            cookie = read_entries(entries, &mut names).unwrap_or(cookie);
            if (used as usize) < BUFFER_BYTES || names.len() == count {
                return Ok(names);
            }
            if names.len() > MAX_ENTRIES {
                return Err(io::Error::other(format!("the directory has more than {MAX_ENTRIES} entries")));
            }
        }
    }
}

struct SandboxWriter(GuestInstance);

impl SandboxWriter {
    fn call_on_path(&mut self, name: &str, path: &Path) -> io::Result<()> {
        let length = self.0.put_path(path.as_os_str().as_bytes())?;
        self.0.call(name, length, 0)
    }

    fn call_on_paths(&mut self, name: &str, from: &Path, to: &Path) -> io::Result<()> {
        let lengths = self.0.put_paths(from.as_os_str().as_bytes(), to.as_os_str().as_bytes())?;
        self.0.call(name, lengths, 0)
    }
}

impl FileWriter for SandboxWriter {
    fn stat(&mut self, path: &Path, links: LinkMode) -> io::Result<FileStat> {
        stat(&mut self.0, path, links)
    }

    fn create_dirs(&mut self, path: &Path) -> io::Result<()> {
        self.call_on_path("create_dirs", path)
    }

    fn enter(&mut self, path: &Path) -> io::Result<()> {
        self.call_on_path("enter", path)
    }

    fn create(&mut self, path: &Path) -> io::Result<File> {
        let length = self.0.put_path(path.as_os_str().as_bytes())?;
        let descriptor = self.0.call_for_number("create", length)?;
        let handle = self.0.state().descriptors.file_handle(descriptor);
        handle.or_else(|error| self.remove_file(path).and(Err(error)))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(BUFFER_BYTES).try_for_each(|chunk| {
            self.0.put_bytes(chunk)?;
            self.0.call("write", u32::try_from(chunk.len()).map_err(io::Error::other)?, chunk.len())?;
            match self.0.state().bytes_left {
                0 => Ok(()),
                missing => Err(io::Error::other(format!("the sandbox's guest left out {missing} bytes"))),
            }
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.call("sync", (), 0)
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.call_on_paths("link", from, to)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.call_on_paths("rename", from, to)
    }

    fn rename_new(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.call_on_paths("rename_new", from, to)
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.call_on_path("remove_file", path)
    }

    fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        self.call_on_path("remove_dir", path)
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        self.call_on_path("sync_dir", path)
    }
}

fn stat(guest: &mut GuestInstance, path: &Path, links: LinkMode) -> io::Result<FileStat> {
    let length = guest.put_path(path.as_os_str().as_bytes())?;
    guest.call("stat", (length, u32::from(links == LinkMode::Follow)), 0)?;
    read_stat(guest)
}

/// Reads a `filestat` of WASI.
fn read_stat(guest: &GuestInstance) -> io::Result<FileStat> {
    let filestat = guest.stat()?;
    let kind = to_kind(filestat[16]);
    Ok(FileStat {
        kind,
        bytes: if kind == FileKind::File { number(&filestat[32..40]) } else { 0 },
        modified_at: UNIX_EPOCH + Duration::from_nanos(number(&filestat[48..56])),
    })
}

/// Reads the whole entries at the start of `bytes` and returns the cookie of what follows them.
fn read_entries(mut bytes: &[u8], names: &mut Vec<(OsString, FileKind)>) -> Option<u64> {
    let mut cookie = None;
    while let Some((header, rest)) = bytes.split_at_checked(ENTRY_HEADER_BYTES) {
        let length = u32::from_le_bytes(header[16..20].try_into().ok()?) as usize;
        let Some((name, rest)) = rest.split_at_checked(length) else { break };
        names.push((OsString::from_vec(name.to_vec()), to_kind(header[20])));
        cookie = Some(number(&header[..8]));
        bytes = rest;
    }
    cookie
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn to_kind(file_type: u8) -> FileKind {
    match file_type {
        REGULAR_FILE => FileKind::File,
        DIRECTORY => FileKind::Directory,
        SYMBOLIC_LINK => FileKind::Link,
        _ => FileKind::Other,
    }
}
