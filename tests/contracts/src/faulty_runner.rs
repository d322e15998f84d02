//! A runner whose process dies at one call of its writers, or whose disk fails from one call on.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustix::io::Errno;
use satchel_ports::{
    FileProfile, FileReader, FileRunner, FileWriter,
    file_runner::{FileStat, LinkMode, MountDirectory},
};

/// How much of a call is done when its fault comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallProgress {
    /// Nothing.
    Before,
    /// So many of its parts: directories of a `create_dirs`, halves of the bytes of a `write`.
    During(usize),
    /// All of it, and the caller does not know yet.
    After,
}

/// A call of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterCall {
    /// The name of the function.
    pub name: &'static str,
    /// In how many parts the system does it.
    pub parts: usize,
}

/// The call at which a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerKill {
    /// Its index among the calls of all writers.
    pub call: usize,
    /// How much of it is done.
    pub progress: CallProgress,
}

impl RunnerKill {
    /// Returns every kill that can hit these calls.
    #[must_use]
    pub fn all(calls: &[WriterCall]) -> Vec<Self> {
        let mut kills = Vec::new();
        for (call, WriterCall { parts, .. }) in calls.iter().enumerate() {
            kills.push(Self { call, progress: CallProgress::Before });
            kills.extend((1..*parts).map(|part| Self { call, progress: CallProgress::During(part) }));
            kills.push(Self { call, progress: CallProgress::After });
        }
        kills
    }
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill(RunnerKill),
    /// From the `nth` call of this name on, the disk fails in the midst of each.
    Disk {
        call: &'static str,
        nth: usize,
        errno: Errno,
    },
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<WriterCall>,
    is_dead: bool,
}

#[derive(Debug)]
struct CallLog {
    fault: Option<Fault>,
    state: Mutex<State>,
}

impl CallLog {
    /// Records a call and returns how much of it is done before which error; `None` for all without one.
    fn record(&self, call: WriterCall) -> io::Result<Option<(CallProgress, io::Error)>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_dead {
            return Err(process_is_dead());
        }
        state.calls.push(call);
        match self.fault {
            Some(Fault::Kill(kill)) if kill.call + 1 == state.calls.len() => {
                state.is_dead = true;
                Ok(Some((kill.progress, process_is_dead())))
            }
            Some(Fault::Disk { call: failing, nth, errno }) if failing == call.name => {
                let count = state.calls.iter().filter(|recorded| recorded.name == failing).count();
                Ok((count >= nth).then(|| (CallProgress::During(call.parts / 2), errno.into())))
            }
            _ => Ok(None),
        }
    }
}

fn process_is_dead() -> io::Error {
    io::Error::other("the process is dead")
}

/// The wrapper around a runner. Readers have no faults: they change nothing.
///
/// A dead process does nothing more, so after a kill no call reaches the disk, those that would clean up included. Its
/// locks go with its handles, which the caller drops with the error.
pub struct FaultyRunner {
    inner: Arc<dyn FileRunner>,
    log: Arc<CallLog>,
}

impl FaultyRunner {
    /// A runner without a fault, which records the calls.
    #[must_use]
    pub fn recording(inner: Arc<dyn FileRunner>) -> Arc<Self> {
        Self::new(inner, None)
    }

    /// A runner whose process dies.
    #[must_use]
    pub fn killed(inner: Arc<dyn FileRunner>, kill: RunnerKill) -> Arc<Self> {
        Self::new(inner, Some(Fault::Kill(kill)))
    }

    /// A runner whose disk fails from the `nth` call of this name on, counted from 1.
    #[must_use]
    pub fn failing(inner: Arc<dyn FileRunner>, call: &'static str, nth: usize, errno: Errno) -> Arc<Self> {
        Self::new(inner, Some(Fault::Disk { call, nth, errno }))
    }

    fn new(inner: Arc<dyn FileRunner>, fault: Option<Fault>) -> Arc<Self> {
        Arc::new(Self { inner, log: Arc::new(CallLog { fault, state: Mutex::default() }) })
    }

    /// The calls until now.
    #[must_use]
    pub fn calls(&self) -> Vec<WriterCall> {
        self.log.state.lock().unwrap_or_else(PoisonError::into_inner).calls.clone()
    }

    /// Whether the process has died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.log.state.lock().unwrap_or_else(PoisonError::into_inner).is_dead
    }
}

impl FileRunner for FaultyRunner {
    fn reader(&self, mount: MountDirectory, profile: FileProfile) -> io::Result<Box<dyn FileReader>> {
        self.inner.reader(mount, profile)
    }

    fn writer(&self, mount: MountDirectory) -> io::Result<Box<dyn FileWriter>> {
        if self.is_dead() {
            return Err(process_is_dead());
        }
        Ok(Box::new(FaultyWriter { inner: self.inner.writer(mount)?, log: Arc::clone(&self.log) }))
    }
}

struct FaultyWriter {
    inner: Box<dyn FileWriter>,
    log: Arc<CallLog>,
}

impl FaultyWriter {
    /// Performs a call that the system does at once.
    fn call<T>(
        &mut self,
        name: &'static str,
        perform: impl FnOnce(&mut dyn FileWriter) -> io::Result<T>,
    ) -> io::Result<T> {
        self.call_in_parts(WriterCall { name, parts: 1 }, |_, _| Ok(()), perform)
    }

    fn call_in_parts<T>(
        &mut self,
        call: WriterCall,
        perform_parts: impl FnOnce(&mut dyn FileWriter, usize) -> io::Result<()>,
        perform: impl FnOnce(&mut dyn FileWriter) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some((progress, error)) = self.log.record(call)? else { return perform(&mut *self.inner) };
        match progress {
            CallProgress::Before | CallProgress::During(0) => {}
            CallProgress::During(parts) => perform_parts(&mut *self.inner, parts)?,
            CallProgress::After => drop(perform(&mut *self.inner)),
        }
        Err(error)
    }
}

#[warn(clippy::missing_trait_methods)]
impl FileWriter for FaultyWriter {
    fn stat(&mut self, path: &Path, links: LinkMode) -> io::Result<FileStat> {
        self.call("stat", |writer| writer.stat(path, links))
    }

    fn create_dirs(&mut self, path: &Path) -> io::Result<()> {
        let call = WriterCall { name: "create_dirs", parts: path.components().count() };
        let create_first = |writer: &mut dyn FileWriter, parts| {
            let first: PathBuf = path.components().take(parts).collect();
            writer.create_dirs(&first)
        };
        self.call_in_parts(call, create_first, |writer| writer.create_dirs(path))
    }

    fn enter(&mut self, path: &Path) -> io::Result<()> {
        self.call("enter", |writer| writer.enter(path))
    }

    fn create(&mut self, path: &Path) -> io::Result<File> {
        self.call("create", |writer| writer.create(path))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (call, half) = (WriterCall { name: "write", parts: 2 }, &bytes[..bytes.len() / 2]);
        self.call_in_parts(call, |writer, _| writer.write(half), |writer| writer.write(bytes))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.call("sync", |writer| writer.sync())
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("link", |writer| writer.link(from, to))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", |writer| writer.rename(from, to))
    }

    fn rename_new(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename_new", |writer| writer.rename_new(from, to))
    }

    fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        self.call("remove_file", |writer| writer.remove_file(path))
    }

    fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        self.call("remove_dir", |writer| writer.remove_dir(path))
    }

    fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        self.call("sync_dir", |writer| writer.sync_dir(path))
    }
}
