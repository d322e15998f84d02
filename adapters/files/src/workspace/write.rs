//! Writing and removing files of a workspace.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use satchel_blob_content::copy::BlockSink;
use satchel_domain::{ConversationId, DiskFull, WorkspacePath, path::Mount};
use satchel_ports::{
    FileWriter, WorkspaceError, WriteMode,
    file_runner::{FileKind, LinkMode},
};

use super::{
    disk_full_error,
    root::WorkspaceRoot,
    trash,
    usage::{self, EMPTY_ENTRY_BYTES, QuotaUsage},
    workspace_error,
};
use crate::{
    reserve::ReserveGuard,
    temp::{self, TempFile},
};

/// How many names a path may have beneath its mount.
const MAX_PATH_DEPTH: usize = 32;

/// The quota that a write reserves; returned on drop.
struct QuotaReservation {
    root: Arc<WorkspaceRoot>,
    directory: String,
    usage: Arc<Mutex<QuotaUsage>>,
    is_counted: bool,
    bytes: u64,
    /// The counted bytes of the file that is replaced.
    replaced_bytes: u64,
}

/// A write in progress, to a temporary file in the target directory.
pub(super) struct PendingWrite {
    path: WorkspacePath,
    name: String,
    temp: TempFile,
    /// The size of the file.
    bytes: u64,
    reservation: QuotaReservation,
    guard: ReserveGuard,
}

impl PendingWrite {
    pub(super) fn open(
        root: &Arc<WorkspaceRoot>,
        conversation: &ConversationId,
        path: &WorkspacePath,
        mode: WriteMode,
        guard: ReserveGuard,
    ) -> Result<Self, WorkspaceError> {
        let name = require_writable_name(path)?;
        let reserved_for = match (temp::is_temp_name(name), trash::is_trash(path)) {
            (true, _) => Some("files that are being written"),
            (_, true) => Some("deleted files"),
            (false, false) => None,
        };
        if let Some(purpose) = reserved_for {
            let reason = format!("names like this one are kept for {purpose}");
            return Err(WorkspaceError::Failed { path: path.clone(), reason });
        }
        if path.relative().split('/').count() > MAX_PATH_DEPTH {
            return Err(WorkspaceError::TooDeep { path: path.clone(), limit: MAX_PATH_DEPTH });
        }
        let directory = conversation.to_file_name();
        let usage = root.usage(&directory);
        let (writer, replaced_bytes) = {
            let mut usage = lock_usage(&usage);
            let mount = root.ensure_mount(conversation, path)?;
            make_disk_room(root, &directory, &mut usage, || guard.check(&mount, 0))
                .map_err(|full| disk_full_error(path, guard.log_refusal(full)))?;
            let mut writer = root.writer(mount, path)?;
            let replaced_bytes = replaced_file_bytes(&mut *writer, path, mode)?;
            root.enter_parent(&directory, &mut usage, &mut *writer, path)?;
            (writer, replaced_bytes)
        };
        let temp = TempFile::create(writer, Path::new("")).map_err(|error| write_error(path, error))?;
        let is_counted = root.is_counted(path.mount());
        let reservation =
            QuotaReservation { root: Arc::clone(root), directory, usage, is_counted, bytes: 0, replaced_bytes };
        Ok(Self { path: path.clone(), name: name.to_owned(), temp, bytes: 0, reservation, guard })
    }

    /// Makes the bytes durable, renames the file to its name, makes that durable too, and returns the file's size.
    pub(super) fn publish(self, mode: WriteMode, caller: &Weak<()>) -> Result<u64, WorkspaceError> {
        let Self { path, name, mut temp, bytes, mut reservation, guard: _ } = self;
        let map_error = |error| write_error(&path, error);
        let name = Path::new(&name);
        temp.sync().map_err(map_error)?;
        if caller.strong_count() == 0 {
            return Err(map_error(io::ErrorKind::Interrupted.into()));
        }
        if bytes == 0 && !reservation.reserve(EMPTY_ENTRY_BYTES).map_err(map_error)? {
            return Err(WorkspaceError::QuotaExceeded { quota: reservation.root.quota });
        }
        {
            let mut usage = lock_usage(&reservation.usage);
            match mode {
                WriteMode::CreateNew => temp.create_new(name).map_err(map_error)?,
                WriteMode::Replace => {
                    let replaced_bytes = temp.stat(name).map_or(0, |replaced| usage::entry_bytes(&replaced));
                    temp.replace(name).map_err(map_error)?;
                    reservation.replaced_bytes = replaced_bytes;
                }
            }
            if reservation.is_counted {
                usage.commit(reservation.bytes, reservation.replaced_bytes);
                reservation.is_counted = false;
            }
        }
        temp.sync_dir(Path::new(""))
            .map_err(|error| WorkspaceError::Unconfirmed { path: path.clone(), reason: error.to_string() })?;
        Ok(bytes)
    }
}

impl BlockSink for PendingWrite {
    type Error = WorkspaceError;

    fn write_block(&mut self, bytes: &[u8]) -> Result<(), WorkspaceError> {
        if !self.reservation.reserve(bytes.len() as u64).map_err(|error| workspace_error(&self.path, error))? {
            return Err(WorkspaceError::QuotaExceeded { quota: self.reservation.root.quota });
        }
        let Self { reservation, guard, temp, .. } = self;
        let allocate = || guard.allocate(temp.file(), bytes.len() as u64);
        make_disk_room(&reservation.root, &reservation.directory, &mut lock_usage(&reservation.usage), allocate)
            .map_err(|full| disk_full_error(&self.path, guard.log_refusal(full)))?;
        self.bytes += bytes.len() as u64;
        self.temp.append(bytes).map_err(|error| write_error(&self.path, error))
    }
}

impl QuotaReservation {
    fn reserve(&mut self, bytes: u64) -> io::Result<bool> {
        if self.is_counted {
            let mut usage = lock_usage(&self.usage);
            if !self.root.reserve_quota(&self.directory, &mut usage, bytes, self.replaced_bytes)? {
                return Ok(false);
            }
        }
        self.bytes += bytes;
        Ok(true)
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        if self.is_counted {
            lock_usage(&self.usage).abandon(self.bytes);
        }
    }
}

impl WorkspaceRoot {
    /// Narrows the writer to the path's parent directory; missing directories are created, if the quota allows.
    fn enter_parent(
        &self,
        directory: &str,
        usage: &mut QuotaUsage,
        writer: &mut dyn FileWriter,
        path: &WorkspacePath,
    ) -> Result<(), WorkspaceError> {
        let map_error = |error| workspace_error(path, error);
        let parent = relative_parent(path);
        let missing_bytes = match self.is_counted(path.mount()) {
            true => count_missing(writer, parent).map_err(map_error)? as u64 * EMPTY_ENTRY_BYTES,
            false => 0,
        };
        if missing_bytes > 0 && !self.reserve_quota(directory, usage, missing_bytes, 0).map_err(map_error)? {
            return Err(WorkspaceError::QuotaExceeded { quota: self.quota });
        }
        let created = writer.create_dirs(parent);
        usage.commit(missing_bytes, 0);
        if created.is_err() {
            // Some of them may have been created.
            usage.invalidate();
        }
        match created.and_then(|()| writer.enter(parent)) {
            // A dangling link, or a concurrent removal.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(WorkspaceError::Failed { path: path.clone(), reason: error.to_string() })
            }
            entered => entered.map_err(map_error),
        }
    }

    /// Reserves quota for incoming bytes; where there is none, the trash is emptied first.
    fn reserve_quota(&self, directory: &str, usage: &mut QuotaUsage, bytes: u64, freed: u64) -> io::Result<bool> {
        let measure = || self.measure(directory);
        if usage.reserve(bytes, freed, self.quota, measure)? {
            return Ok(true);
        }
        if trash::empty(self, directory)? == 0 {
            return Ok(false);
        }
        usage.invalidate();
        usage.reserve(bytes, freed, self.quota, measure)
    }

    /// Measures the conversation's own mounts.
    fn measure(&self, directory: &str) -> io::Result<u64> {
        let mut total = 0;
        for mount in self.own_mounts(directory)? {
            total += usage::measure_directory(&mount)?;
        }
        Ok(total)
    }
}

/// Checks for free space on the disk; where there is none, the conversation's trash is emptied first.
fn make_disk_room(
    root: &WorkspaceRoot,
    directory: &str,
    usage: &mut QuotaUsage,
    mut check: impl FnMut() -> Result<(), DiskFull>,
) -> Result<(), DiskFull> {
    check().or_else(|full| match trash::empty(root, directory) {
        Ok(freed) if freed > 0 => {
            usage.invalidate();
            check()
        }
        _ => Err(full),
    })
}

/// Removes a file, a link, or an empty directory.
pub(super) fn remove(
    root: &Arc<WorkspaceRoot>,
    conversation: &ConversationId,
    path: &WorkspacePath,
) -> Result<u64, WorkspaceError> {
    let name = Path::new(require_writable_name(path)?);
    trash::check_visible(path)?;
    let map_error = |error| workspace_error(path, error);
    let mut writer = root.writer(root.mount(conversation, path)?, path)?;
    writer.enter(relative_parent(path)).map_err(map_error)?;
    let usage = root.usage(&conversation.to_file_name());
    let mut usage = lock_usage(&usage);
    let removed = writer.stat(name, LinkMode::Keep).map_err(map_error)?;
    match removed.kind {
        FileKind::Directory => writer.remove_dir(name).map_err(map_error)?,
        FileKind::File | FileKind::Link => writer.remove_file(name).map_err(map_error)?,
        FileKind::Other => return Err(WorkspaceError::NotAFile(path.clone())),
    }
    if root.is_counted(path.mount()) {
        usage.free(usage::entry_bytes(&removed));
    }
    drop(usage);
    match writer.sync_dir(Path::new("")) {
        Ok(()) => Ok(if removed.kind == FileKind::File { removed.bytes } else { 0 }),
        Err(error) => Err(WorkspaceError::RemovalUnconfirmed { path: path.clone(), reason: error.to_string() }),
    }
}

/// The bytes that count for a conversation.
pub(super) fn used_bytes(root: &WorkspaceRoot, conversation: &ConversationId) -> io::Result<u64> {
    let directory = conversation.to_file_name();
    let usage = root.usage(&directory);
    let mut usage = lock_usage(&usage);
    usage.committed_bytes(|| root.measure(&directory))
}

/// Discards the counted usage, so that it is measured again.
pub(super) fn forget_usage(root: &WorkspaceRoot, conversation: &ConversationId) {
    lock_usage(&root.usage(&conversation.to_file_name())).invalidate();
}

/// Maps an I/O error of a write in progress. It finds its directory and its temporary file, unless someone removed them.
fn write_error(path: &WorkspacePath, error: io::Error) -> WorkspaceError {
    if error.kind() != io::ErrorKind::NotFound {
        return workspace_error(path, error);
    }
    let reason = "its directory was emptied or removed during the write; write it again".to_owned();
    WorkspaceError::Failed { path: path.clone(), reason }
}

/// The name of a path that may be changed; an error for any other.
pub(super) fn require_writable_name(path: &WorkspacePath) -> Result<&str, WorkspaceError> {
    match (path.mount(), path.file_name()) {
        (mount @ Mount::Vault, _) => Err(WorkspaceError::ReadOnly(path.clone(), mount)),
        (_, None) => Err(WorkspaceError::NotAFile(path.clone())),
        (_, Some(name)) => Ok(name),
    }
}

/// Checks that the path can be written, before the first byte is read, and returns the counted bytes of the file that
/// will be replaced.
fn replaced_file_bytes(
    writer: &mut dyn FileWriter,
    path: &WorkspacePath,
    mode: WriteMode,
) -> Result<u64, WorkspaceError> {
    let target = Path::new(path.relative());
    let replaced = match writer.stat(target, LinkMode::Keep) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        found => found.map_err(|error| workspace_error(path, error))?,
    };
    if mode == WriteMode::CreateNew {
        return Err(WorkspaceError::Exists(path.clone()));
    }
    match replaced.kind {
        FileKind::File => Ok(usage::entry_bytes(&replaced)),
        // The link is replaced, never its target; one that leads out is an error, because it was planted.
        FileKind::Link => match writer.stat(target, LinkMode::Follow).map_err(|error| workspace_error(path, error)) {
            Err(WorkspaceError::Escapes(path)) => Err(WorkspaceError::Escapes(path)),
            _ => Ok(0),
        },
        FileKind::Directory | FileKind::Other => Err(WorkspaceError::NotAFile(path.clone())),
    }
}

/// Counts the directories that are missing for `path` to be one.
fn count_missing(writer: &mut dyn FileWriter, path: &Path) -> io::Result<usize> {
    let mut missing = 0;
    for prefix in path.ancestors().filter(|prefix| !prefix.as_os_str().is_empty()) {
        match writer.stat(prefix, LinkMode::Follow) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing += 1,
            found => return found.map(|_| missing),
        }
    }
    Ok(missing)
}

pub(super) fn relative_parent(path: &WorkspacePath) -> &Path {
    Path::new(path.relative()).parent().unwrap_or(Path::new(""))
}

pub(super) fn lock_usage(usage: &Mutex<QuotaUsage>) -> MutexGuard<'_, QuotaUsage> {
    usage.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use satchel_domain::DiskReserve;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;
    use crate::NativeRunner;

    #[derive(Clone, Default)]
    struct LogCapture(Arc<Mutex<Vec<u8>>>);

    impl Write for LogCapture {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for LogCapture {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// Mutations: a file for which the trash made room is logged as refused; one that is refused isn't logged.
    #[test]
    fn only_a_refused_file_is_logged() {
        let log = LogCapture::default();
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
        let _capturing = tracing::subscriber::set_default(subscriber);
        let directory = tempfile::tempdir().unwrap();
        let root = Arc::new(WorkspaceRoot::open(directory.path(), None, u64::MAX, Arc::new(NativeRunner)).unwrap());
        let conversation: ConversationId = "console:main".parse().unwrap();
        let guard = |reserve| ReserveGuard::new(reserve, directory.path());
        let refused = DiskReserve::Bytes(u64::MAX);

        let deleted = root.host_directory(&conversation, Mount::Tmp).join(".deleted/batch");
        fs::create_dir_all(&deleted).unwrap();
        fs::write(deleted.join("file"), "deleted").unwrap();
        let mut checks = [refused, DiskReserve::NONE].into_iter();
        let check = || guard(checks.next().unwrap()).check(&root.directory, 0);
        make_disk_room(&root, &conversation.to_file_name(), &mut QuotaUsage::default(), check).unwrap();
        assert!(!deleted.exists() && checks.next().is_none(), "the trash made room");
        let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
        assert_eq!(logged.matches("removed deleted files for good, to make room for a new one").count(), 1, "{logged}");
        assert!(!logged.contains("the disk is full"), "{logged}");

        let path = "/tmp/a".parse().unwrap();
        let opened = PendingWrite::open(&root, &conversation, &path, WriteMode::CreateNew, guard(refused));
        assert!(matches!(opened.err(), Some(WorkspaceError::Failed { .. })));
        let logged = String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned();
        assert_eq!(logged.matches("the disk is full; refusing a file").count(), 1, "{logged}");
    }
}
