//! Blobs in a directory: `ab/cd/<sha256>`, next to incoming files and the marks of the garbage collection.

mod gc;

use std::{
    fs::File,
    io::{self, Seek, SeekFrom},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions, OpenOptionsExt},
};
use satchel_blob_content::{
    copy::{self, BlockSink, CopyError},
    detect, digest,
};
use satchel_domain::{DiskReserve, Sha256};
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, FileAccess, StoredBlob};

use crate::{
    DirectoryOpenError, directory, modes,
    native_runner::NativeWriter,
    reserve::ReserveGuard,
    temp::{self, TempFile},
};

/// The directory of incoming files, whose address is not known yet.
const INCOMING_DIRECTORY: &str = "incoming";
/// The directory of marks: an empty file named by an address marks that blob for removal.
const MARKED_DIRECTORY: &str = "marked";
/// The lock between processes: shared to publish; exclusive to mark, sweep or create directories.
const LOCK_FILE: &str = "lock";
/// The lock of the garbage collection: shared to sweep; exclusive while nothing may be swept.
const COLLECTION_LOCK_FILE: &str = "collection-lock";

/// The [`Blobs`] of one directory; several processes may use it at once.
///
/// A put always replaces the file at its address with the one that was just hashed and fsynced. That updates the blob's
/// time for the garbage collection, and repairs a blob that the disk has damaged.
#[derive(Debug, Clone)]
pub struct DirectoryBlobs {
    store: Arc<BlobDirectory>,
    path: PathBuf,
    reserve: DiskReserve,
}

/// While it exists, no blob of a store is removed.
#[derive(Debug)]
pub struct CollectionPause {
    _lock: File,
}

#[derive(Debug)]
struct BlobDirectory {
    root: Dir,
    incoming: Dir,
    marked: Dir,
}

impl DirectoryBlobs {
    /// Opens the store in a directory, which is created if missing, and removes the leftovers of dead processes.
    /// Files that an earlier version left readable to others are restricted, which takes time once.
    ///
    /// # Errors
    /// When the directory can't be created, is not a directory, or can't be written to.
    pub fn open(path: &Path) -> Result<Self, DirectoryOpenError> {
        let open_error = |doing, below: &str| {
            let path = path.join(below);
            move |source| DirectoryOpenError { doing, path, source }
        };
        let root = directory::open_root(path, FileAccess::Owner)?;
        modes::close_entries(&root, path, is_own_entry).map_err(open_error("read the directory", ""))?;
        let subdirectory = |name| {
            directory::ensure(&root, Path::new(name), FileAccess::Owner).map_err(open_error("make the directory", name))
        };
        let (incoming, marked) = (subdirectory(INCOMING_DIRECTORY)?, subdirectory(MARKED_DIRECTORY)?);
        create_temp_file(&root).map_err(open_error("write to the directory", ""))?;
        let store = BlobDirectory { root, incoming, marked };
        store.lock(File::lock_shared).map_err(open_error("lock", LOCK_FILE))?;
        store.remove_leftovers().map_err(open_error("clean the directory", INCOMING_DIRECTORY))?;
        Ok(Self { store: Arc::new(store), path: path.to_owned(), reserve: DiskReserve::Standard })
    }

    /// Pauses the garbage collection of the store in a directory, in all processes, until the result is dropped or this
    /// process ends. Waits for a collection that is under way, and for another pause to end.
    ///
    /// # Errors
    /// When there is no such directory, or it can't be written to.
    pub fn pause_collection(path: &Path) -> Result<CollectionPause, DirectoryOpenError> {
        let pause_error =
            |source| DirectoryOpenError { doing: "pause the garbage collection in", path: path.to_owned(), source };
        let root = Dir::open_ambient_dir(path, ambient_authority()).map_err(pause_error)?;
        let lock = lock_file(&root, COLLECTION_LOCK_FILE, File::lock).map_err(pause_error)?;
        Ok(CollectionPause { _lock: lock })
    }

    /// Keeps this much of the disk free instead of the standard reserve.
    #[must_use]
    pub fn with_reserve(self, reserve: DiskReserve) -> Self {
        Self { reserve, ..self }
    }
}

#[async_trait]
impl Blobs for DirectoryBlobs {
    async fn put(&self, content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        let store = Arc::clone(&self.store);
        let (guard, expected_bytes) = (ReserveGuard::new(self.reserve, &self.path), hint.bytes.unwrap_or(0));
        let incoming = run_blocking(move || IncomingBlob::create(store, guard, expected_bytes)).await?;
        let (blocks, digest) = digest::hash_blocks(copy::into_blocks(content, limit));
        let complete = copy::copy_to_sink(blocks, incoming).await.map_err(|error| match error {
            CopyError::TooLarge => BlobError::TooLarge { limit },
            CopyError::Source(error) => BlobError::Source(error),
            CopyError::Sink(error) => error,
            CopyError::Stopped(error) => BlobError::Store { operation: WRITE_ACTION.to_owned(), source: error.into() },
        })?;
        let sha256 = digest
            .await
            .map_err(|error| BlobError::Store { operation: WRITE_ACTION.to_owned(), source: error.into() })?;
        let hint = hint.clone();
        // Lives as long as this future: the thread checks it, because dropping the future can't stop the thread.
        let caller_token = Arc::new(());
        let caller = Arc::downgrade(&caller_token);
        run_blocking(move || complete.publish(sha256, &hint, &caller)).await
    }

    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        let store = Arc::clone(&self.store);
        let sha256 = *sha256;
        run_blocking(move || {
            let open_error = store_error(|| format!("open {sha256}"));
            let mut file = match store.root.open(blob_path(&sha256)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BlobError::Missing(sha256)),
                opened => opened.map_err(&open_error)?.into_std(),
            };
            let bytes = file.metadata().map_err(&open_error)?.len();
            let range = range.map_or(0..bytes, |range| {
                let end = range.end.min(bytes);
                range.start.min(end)..end
            });
            file.seek(SeekFrom::Start(range.start)).map_err(&open_error)?;
            let is_whole = range == (0..bytes);
            let blocks = copy::stream_blocks(file, range);
            Ok(if is_whole { digest::verify_blocks(blocks, sha256) } else { blocks })
        })
        .await
    }

    async fn list_stale(&self, grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        let store = Arc::clone(&self.store);
        run_blocking(move || store.list_stale(grace).map_err(store_error(|| "list the stored files".to_owned()))).await
    }

    async fn mark(&self, unreferenced: &[Sha256], grace: Duration) -> Result<(), BlobError> {
        let store = Arc::clone(&self.store);
        let unreferenced = unreferenced.to_vec();
        run_blocking(move || {
            unreferenced
                .iter()
                .try_for_each(|sha256| store.mark(sha256, grace).map_err(store_error(|| format!("mark {sha256}"))))
        })
        .await
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        let store = Arc::clone(&self.store);
        run_blocking(move || store.sweep().map_err(store_error(|| "remove unused files".to_owned()))).await
    }
}

const WRITE_ACTION: &str = "write a file";

/// A blob on its way in.
struct IncomingBlob {
    store: Arc<BlobDirectory>,
    temp: TempFile,
    bytes: u64,
    guard: ReserveGuard,
}

impl IncomingBlob {
    fn create(store: Arc<BlobDirectory>, guard: ReserveGuard, expected_bytes: u64) -> Result<Self, BlobError> {
        guard.check(&store.incoming, expected_bytes).map_err(|full| BlobError::Full(guard.log_refusal(full)))?;
        let temp = create_temp_file(&store.root);
        let temp = temp.map_err(|error| write_error(error, &guard))?;
        Ok(Self { store, temp, bytes: 0, guard })
    }

    fn publish(mut self, sha256: Sha256, hint: &BlobHint, caller: &Weak<()>) -> Result<StoredBlob, BlobError> {
        let write_error = |error| write_error(error, &self.guard);
        let (mime, media) = detect::detect_content(self.temp.file(), hint).map_err(write_error)?;
        self.temp.sync().map_err(write_error)?;
        let (shard, publish_lock) = self.store.open_shard(&sha256).map_err(write_error)?;
        if caller.strong_count() == 0 {
            return Err(write_error(io::ErrorKind::Interrupted.into()));
        }
        self.temp.replace(&blob_path(&sha256)).map_err(write_error)?;
        self.store.unmark(&sha256).map_err(write_error)?;
        drop(publish_lock);
        directory::sync(&shard).map_err(write_error)?;
        Ok(StoredBlob { sha256, bytes: self.bytes, mime, media })
    }
}

impl BlockSink for IncomingBlob {
    type Error = BlobError;

    fn write_block(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let allocated = self.guard.allocate(self.temp.file(), bytes.len() as u64);
        allocated.map_err(|full| BlobError::Full(self.guard.log_refusal(full)))?;
        self.temp.append(bytes).map_err(|error| write_error(error, &self.guard))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

impl BlobDirectory {
    /// Locks the lock file; dropping the returned file unlocks it.
    fn lock(&self, acquire: impl Fn(&File) -> io::Result<()>) -> io::Result<File> {
        lock_file(&self.root, LOCK_FILE, acquire)
    }

    /// Opens the directory of an address, and takes the lock under which a file may be published there.
    fn open_shard(&self, sha256: &Sha256) -> io::Result<(Dir, File)> {
        let path = shard_path(sha256);
        let publish_lock = self.lock(File::lock_shared)?;
        match self.root.open_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return Ok((opened?, publish_lock)),
        }
        drop(publish_lock);
        // Created under the exclusive lock, so that a directory is durable before others see it.
        let exclusive_lock = self.lock(File::lock)?;
        let directory = directory::ensure(&self.root, &path, FileAccess::Owner)?;
        drop(exclusive_lock);
        Ok((directory, self.lock(File::lock_shared)?))
    }

    fn remove_leftovers(&self) -> io::Result<()> {
        let mut removed = 0;
        for entry in self.incoming.entries()? {
            let name = entry?.file_name();
            match name.to_str().map(|name| temp::remove_leftover(&self.incoming, name)) {
                Some(Ok(true)) => removed += 1,
                Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if removed > 0 {
            tracing::info!(files = removed, "removed leftovers of a dead process");
        }
        Ok(())
    }
}

/// Opens a lock file of a store and locks it; dropping the returned file unlocks it.
fn lock_file(root: &Dir, name: &str, acquire: impl Fn(&File) -> io::Result<()>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(FileAccess::Owner.file_mode());
    let file = root.open_with(name, &options)?.into_std();
    acquire(&file)?;
    Ok(file)
}

/// Whether an entry of the directory is the store's own.
#[must_use]
pub fn is_own_entry(name: &str) -> bool {
    let is_shard = name.len() == 2 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_shard || [INCOMING_DIRECTORY, MARKED_DIRECTORY, LOCK_FILE, COLLECTION_LOCK_FILE].contains(&name)
}

/// Creates a file among the incoming ones of a store.
fn create_temp_file(root: &Dir) -> io::Result<TempFile> {
    let writer = NativeWriter::new(root.try_clone()?, FileAccess::Owner);
    TempFile::create(Box::new(writer), Path::new(INCOMING_DIRECTORY))
}

/// The directory of an address: two levels, so that none grows large.
fn shard_path(sha256: &Sha256) -> PathBuf {
    let [first, second, ..] = sha256.0;
    PathBuf::from(format!("{first:02x}/{second:02x}"))
}

/// The path of a blob in the directory of its store.
pub(crate) fn blob_path(sha256: &Sha256) -> PathBuf {
    shard_path(sha256).join(sha256.to_string())
}

fn write_error(error: io::Error, guard: &ReserveGuard) -> BlobError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::Full(guard.disk_full_error()),
        _ => BlobError::Store { operation: WRITE_ACTION.to_owned(), source: error.into() },
    }
}

fn store_error(doing: impl Fn() -> String) -> impl Fn(io::Error) -> BlobError {
    move |error| BlobError::Store { operation: doing(), source: error.into() }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(BlobError::Store { operation: "finish its work".to_owned(), source: error.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_told_as_full() {
        let failed = |code| {
            let guard = ReserveGuard::new(DiskReserve::NONE, Path::new("/srv"));
            write_error(io::Error::from_raw_os_error(code), &guard)
        };
        // 28 and 122 are ENOSPC and EDQUOT on Linux.
        for code in [28, 122] {
            assert!(matches!(failed(code), BlobError::Full(_)), "{code}");
        }
        assert!(matches!(failed(5), BlobError::Store { .. }));
    }

    #[tokio::test]
    async fn paused_collection_removes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let blobs = DirectoryBlobs::open(directory.path()).unwrap();
        let content = || Box::pin(futures::stream::iter([Ok(bytes::Bytes::from_static(b"unused"))]));
        let sha256 = blobs.put(content(), &BlobHint::default(), 100).await.unwrap().sha256;
        blobs.mark(&[sha256], Duration::ZERO).await.unwrap();
        let pause = DirectoryBlobs::pause_collection(directory.path()).unwrap();
        assert_eq!(blobs.sweep().await.unwrap(), 0);
        assert!(blobs.open(&sha256, None).await.is_ok());
        assert_eq!(blobs.put(content(), &BlobHint::default(), 100).await.unwrap().sha256, sha256, "puts go on");
        blobs.mark(&[sha256], Duration::ZERO).await.unwrap();
        drop(pause);
        assert_eq!(blobs.sweep().await.unwrap(), 6);
    }

    #[test]
    fn an_address_lies_in_two_levels() {
        let sha256 = Sha256(std::array::from_fn(|i| 0xa0 + i as u8));
        assert_eq!(blob_path(&sha256), PathBuf::from(format!("a0/a1/{sha256}")));
    }
}
