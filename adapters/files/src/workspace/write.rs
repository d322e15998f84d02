//! A file on its way into a workspace, and out of it.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use cap_std::fs::Dir;
use satchel_domain::{ConversationId, WorkspacePath, path::Mount};
use satchel_ports::{WorkspaceError, WriteMode};

use super::{
    failure, no_room,
    root::WorkspaceRoot,
    usage::{self, EMPTY_ENTRY_BYTES, QuotaUsage},
};
use crate::{
    copy::BlockSink,
    directory,
    reserve::ReserveGuard,
    temp::{self, TempFile},
};

/// How many names a path may have beneath its mount.
const MAX_PATH_DEPTH: usize = 32;

/// The room that a write takes from a conversation; given back when it is dropped.
struct QuotaReservation {
    place: Arc<WorkspaceRoot>,
    directory: String,
    usage: Arc<Mutex<QuotaUsage>>,
    counted: bool,
    bytes: u64,
    /// What the file that is replaced counts for.
    freed: u64,
}

/// A write whose bytes are arriving, in a temporary file beside where it will be.
pub(super) struct PendingWrite {
    path: WorkspacePath,
    name: String,
    temp: TempFile,
    /// The size of the file.
    bytes: u64,
    room: QuotaReservation,
    guard: ReserveGuard,
}

impl PendingWrite {
    pub(super) fn open(
        place: &Arc<WorkspaceRoot>,
        conversation: &ConversationId,
        path: &WorkspacePath,
        mode: WriteMode,
        guard: ReserveGuard,
    ) -> Result<Self, WorkspaceError> {
        let name = writable_name(path)?;
        if temp::is_temp_name(name) {
            let reason = "names like this one are kept for files that are being written".to_owned();
            return Err(WorkspaceError::Failed { path: path.clone(), reason });
        }
        if path.relative().split('/').count() > MAX_PATH_DEPTH {
            return Err(WorkspaceError::TooDeep { path: path.clone(), limit: MAX_PATH_DEPTH });
        }
        let directory = conversation.to_file_name();
        let usage = place.usage(&directory);
        let (parent, freed) = {
            let mut usage = lock(&usage);
            let mount = place.ensure_mount(conversation, path)?;
            guard.check(&mount, 0).map_err(|full| no_room(path, full))?;
            let freed = bytes_to_replace(&mount, path, mode)?;
            (place.ensure_parent(&directory, &mut usage, &mount, path)?, freed)
        };
        let temp = TempFile::create(parent, place.audience(path.mount())).map_err(|error| failure(path, error))?;
        let counted = place.is_counted(path.mount());
        let room = QuotaReservation { place: Arc::clone(place), directory, usage, counted, bytes: 0, freed };
        Ok(Self { path: path.clone(), name: name.to_owned(), temp, bytes: 0, room, guard })
    }

    /// Makes the bytes durable, gives the file its name, makes that durable too, and returns the file's size.
    pub(super) fn publish(self, mode: WriteMode, still_wanted: &Weak<()>) -> Result<u64, WorkspaceError> {
        let Self { path, name, mut temp, bytes, mut room, guard: _ } = self;
        let failed = |error| failure(&path, error);
        temp.sync().map_err(failed)?;
        let parent = temp.directory().try_clone().map_err(failed)?;
        if still_wanted.strong_count() == 0 {
            return Err(failed(io::ErrorKind::Interrupted.into()));
        }
        if bytes == 0 && !room.reserve(EMPTY_ENTRY_BYTES).map_err(failed)? {
            return Err(WorkspaceError::QuotaExceeded { quota: room.place.quota });
        }
        {
            let mut usage = lock(&room.usage);
            match mode {
                WriteMode::CreateNew => temp.create_new(&name).map_err(failed)?,
                WriteMode::Replace => {
                    let there = parent.symlink_metadata(&name).map_or(0, |there| usage::counted_bytes(&there));
                    temp.replace(&parent, &name).map_err(failed)?;
                    room.freed = there;
                }
            }
            if room.counted {
                usage.commit(room.bytes, room.freed);
                room.counted = false;
            }
        }
        directory::sync(&parent)
            .map_err(|error| WorkspaceError::Unconfirmed { path: path.clone(), reason: error.to_string() })?;
        Ok(bytes)
    }
}

impl BlockSink for PendingWrite {
    type Error = WorkspaceError;

    fn write_block(&mut self, bytes: &[u8]) -> Result<(), WorkspaceError> {
        if !self.room.reserve(bytes.len() as u64).map_err(|error| failure(&self.path, error))? {
            return Err(WorkspaceError::QuotaExceeded { quota: self.room.place.quota });
        }
        let full = self.guard.allocate(self.temp.file(), bytes.len() as u64);
        full.map_err(|full| no_room(&self.path, full))?;
        self.bytes += bytes.len() as u64;
        self.temp.append(bytes).map_err(|error| failure(&self.path, error))
    }
}

impl QuotaReservation {
    fn reserve(&mut self, bytes: u64) -> io::Result<bool> {
        if self.counted {
            let measure = || self.place.measure(&self.directory);
            if !lock(&self.usage).reserve(bytes, self.freed, self.place.quota, measure)? {
                return Ok(false);
            }
        }
        self.bytes += bytes;
        Ok(true)
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        if self.counted {
            lock(&self.usage).abandon(self.bytes);
        }
    }
}

impl WorkspaceRoot {
    /// Opens the directory in which the path lies; what is missing of it is made, if there is room for it.
    fn ensure_parent(
        &self,
        directory: &str,
        usage: &mut QuotaUsage,
        mount: &Dir,
        path: &WorkspacePath,
    ) -> Result<Dir, WorkspaceError> {
        let failed = |error| failure(path, error);
        let missing = match self.is_counted(path.mount()) {
            true => directory::missing(mount, parent(path)).map_err(failed)? as u64 * EMPTY_ENTRY_BYTES,
            false => 0,
        };
        if missing > 0 && !usage.reserve(missing, 0, self.quota, || self.measure(directory)).map_err(failed)? {
            return Err(WorkspaceError::QuotaExceeded { quota: self.quota });
        }
        let ensured = directory::ensure(mount, parent(path), self.audience(path.mount()));
        usage.commit(missing, 0);
        if ensured.is_err() {
            // Some of them may have been made.
            usage.invalidate();
        }
        match ensured {
            // A link into nowhere, or somebody removes while we make.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(WorkspaceError::Failed { path: path.clone(), reason: error.to_string() })
            }
            opened => opened.map_err(failed),
        }
    }

    /// Counts what the conversation has in its own mounts.
    fn measure(&self, directory: &str) -> io::Result<u64> {
        let mut total = 0;
        for mount in [Mount::Shared, Mount::Tmp] {
            match self.root.open_dir(Path::new(directory).join(mount.name())) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => total += usage::measure(&opened?)?,
            }
        }
        Ok(total)
    }
}

/// Removes a file, a link, or an empty directory.
pub(super) fn remove(
    place: &Arc<WorkspaceRoot>,
    conversation: &ConversationId,
    path: &WorkspacePath,
) -> Result<(), WorkspaceError> {
    let name = writable_name(path)?;
    let failed = |error| failure(path, error);
    let mount = place.mount(conversation, path)?;
    let parent = directory::open(&mount, parent(path)).map_err(failed)?;
    let usage = place.usage(&conversation.to_file_name());
    let mut usage = lock(&usage);
    let metadata = parent.symlink_metadata(name).map_err(failed)?;
    match metadata.file_type() {
        kind if kind.is_dir() => parent.remove_dir(name).map_err(failed)?,
        kind if kind.is_file() || kind.is_symlink() => parent.remove_file(name).map_err(failed)?,
        _ => return Err(WorkspaceError::NotAFile(path.clone())),
    }
    if place.is_counted(path.mount()) {
        usage.free(usage::counted_bytes(&metadata));
    }
    drop(usage);
    directory::sync(&parent).map_err(failed)
}

/// What counts for a conversation.
pub(super) fn used_bytes(place: &WorkspaceRoot, conversation: &ConversationId) -> io::Result<u64> {
    let directory = conversation.to_file_name();
    let usage = place.usage(&directory);
    let mut usage = lock(&usage);
    usage.settled(|| place.measure(&directory))
}

/// Forgets what was counted, so that it is measured anew.
pub(super) fn forget_usage(place: &WorkspaceRoot, conversation: &ConversationId) {
    lock(&place.usage(&conversation.to_file_name())).invalidate();
}

/// The name of what is to be changed, if it may be.
fn writable_name(path: &WorkspacePath) -> Result<&str, WorkspaceError> {
    match (path.mount(), path.file_name()) {
        (mount @ Mount::Vault, _) => Err(WorkspaceError::ReadOnly(path.clone(), mount)),
        (_, None) => Err(WorkspaceError::NotAFile(path.clone())),
        (_, Some(name)) => Ok(name),
    }
}

/// Refuses what can't be written, before the first byte is asked for; else returns what the file that will be replaced
/// counts for.
fn bytes_to_replace(mount: &Dir, path: &WorkspacePath, mode: WriteMode) -> Result<u64, WorkspaceError> {
    let there = match mount.symlink_metadata(path.relative()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        found => found.map_err(|error| failure(path, error))?,
    };
    if mode == WriteMode::CreateNew {
        return Err(WorkspaceError::Exists(path.clone()));
    }
    match there.file_type() {
        kind if kind.is_file() => Ok(usage::counted_bytes(&there)),
        // The link is replaced, never what it points at; one that leads out is told, because somebody planted it.
        kind if kind.is_symlink() => match mount.metadata(path.relative()).map_err(|error| failure(path, error)) {
            Err(WorkspaceError::Escapes(path)) => Err(WorkspaceError::Escapes(path)),
            _ => Ok(0),
        },
        _ => Err(WorkspaceError::NotAFile(path.clone())),
    }
}

fn parent(path: &WorkspacePath) -> &Path {
    Path::new(path.relative()).parent().unwrap_or(Path::new(""))
}

fn lock(usage: &Mutex<QuotaUsage>) -> MutexGuard<'_, QuotaUsage> {
    usage.lock().unwrap_or_else(PoisonError::into_inner)
}
