//! Blobs in a directory: `ab/cd/<sha256>`, beside what is on its way in and the marks of the garbage collection.

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
use cap_std::fs::{Dir, OpenOptions};
use satchel_domain::{DiskReserve, Sha256};
use satchel_ports::{BlobError, BlobHint, Blobs, ByteStream, StoredBlob};

use crate::{
    DirectoryOpenError,
    copy::{self, BlockSink, CopyError},
    detect, digest, directory,
    modes::{self, FileAccess},
    reserve::ReserveGuard,
    temp::{self, TempFile},
};

/// Where files lie until their address is known.
const INCOMING: &str = "incoming";
/// Where an empty file named by an address marks that blob for removal.
const MARKED: &str = "marked";
/// Locked by whoever publishes (shared) and whoever marks, sweeps or makes directories (alone), in any process.
const LOCK: &str = "lock";

/// The [`Blobs`] of one directory; several processes may use it at once.
///
/// A put always replaces the file at its address by the one that was just hashed and fsynced. That refreshes the blob's
/// time for the garbage collection, and heals a blob that the disk has damaged.
#[derive(Debug, Clone)]
pub struct DirectoryBlobs {
    store: Arc<BlobDirectory>,
    path: PathBuf,
    reserve: DiskReserve,
}

#[derive(Debug)]
struct BlobDirectory {
    root: Dir,
    incoming: Dir,
    marked: Dir,
}

impl DirectoryBlobs {
    /// Opens the store in a directory, which is made when it is missing, and removes what dead processes left in it.
    /// What an earlier version left open to others is closed, which takes its time once.
    ///
    /// # Errors
    /// When the directory can't be made, is no directory, or can't be written to.
    pub fn open(path: &Path) -> Result<Self, DirectoryOpenError> {
        let failed = |doing, below: &str| {
            let path = path.join(below);
            move |source| DirectoryOpenError { doing, path, source }
        };
        let root = directory::open_root(path, FileAccess::Owner)?;
        modes::close(&root, path, is_own_entry).map_err(failed("read the directory", ""))?;
        let part = |name| {
            directory::ensure(&root, Path::new(name), FileAccess::Owner).map_err(failed("make the directory", name))
        };
        let (incoming, marked) = (part(INCOMING)?, part(MARKED)?);
        incoming.try_clone().and_then(new_file).map_err(failed("write to the directory", ""))?;
        let store = BlobDirectory { root, incoming, marked };
        store.lock(File::lock_shared).map_err(failed("lock", LOCK))?;
        store.remove_leftovers().map_err(failed("clean the directory", INCOMING))?;
        Ok(Self { store: Arc::new(store), path: path.to_owned(), reserve: DiskReserve::Standard })
    }

    /// Keeps this much of the disk free, and not the standard reserve.
    #[must_use]
    pub fn with_reserve(self, reserve: DiskReserve) -> Self {
        Self { reserve, ..self }
    }
}

#[async_trait]
impl Blobs for DirectoryBlobs {
    async fn put(&self, content: ByteStream, hint: &BlobHint, limit: u64) -> Result<StoredBlob, BlobError> {
        let store = Arc::clone(&self.store);
        let (guard, expected) = (ReserveGuard::new(self.reserve, &self.path), hint.bytes.unwrap_or(0));
        let arriving = blocking(move || IncomingBlob::create(store, guard, expected)).await?;
        let (blocks, digest) = digest::hashed(copy::blocks(content, limit));
        let arrived = copy::pump(blocks, arriving).await.map_err(|error| match error {
            CopyError::TooLarge => BlobError::TooLarge { limit },
            CopyError::Source(error) => BlobError::Source(error),
            CopyError::Sink(error) => error,
            CopyError::Stopped(error) => BlobError::Store { doing: WRITE_ACTION.to_owned(), source: error.into() },
        })?;
        let sha256 =
            digest.await.map_err(|error| BlobError::Store { doing: WRITE_ACTION.to_owned(), source: error.into() })?;
        let hint = hint.clone();
        // Lives as long as this future: the thread looks at it, because nobody else tells it that the put was dropped.
        let wanted = Arc::new(());
        let still_wanted = Arc::downgrade(&wanted);
        blocking(move || arrived.publish(sha256, &hint, &still_wanted)).await
    }

    async fn open(&self, sha256: &Sha256, range: Option<Range<u64>>) -> Result<ByteStream, BlobError> {
        let store = Arc::clone(&self.store);
        let sha256 = *sha256;
        blocking(move || {
            let failed = store_error(|| format!("open {sha256}"));
            let mut file = match store.root.open(address(&sha256)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(BlobError::Missing(sha256)),
                opened => opened.map_err(&failed)?.into_std(),
            };
            let bytes = file.metadata().map_err(&failed)?.len();
            let range = range.map_or(0..bytes, |range| {
                let end = range.end.min(bytes);
                range.start.min(end)..end
            });
            file.seek(SeekFrom::Start(range.start)).map_err(&failed)?;
            let whole = range == (0..bytes);
            let blocks = copy::stream_file(file, range);
            Ok(if whole { digest::verified(blocks, sha256) } else { blocks })
        })
        .await
    }

    async fn list_stale(&self, grace: Duration) -> Result<Vec<Sha256>, BlobError> {
        let store = Arc::clone(&self.store);
        blocking(move || store.stale(grace).map_err(store_error(|| "list the stored files".to_owned()))).await
    }

    async fn mark(&self, unreferenced: &[Sha256], grace: Duration) -> Result<(), BlobError> {
        let store = Arc::clone(&self.store);
        let unreferenced = unreferenced.to_vec();
        blocking(move || {
            unreferenced
                .iter()
                .try_for_each(|sha256| store.mark(sha256, grace).map_err(store_error(|| format!("mark {sha256}"))))
        })
        .await
    }

    async fn sweep(&self) -> Result<u64, BlobError> {
        let store = Arc::clone(&self.store);
        blocking(move || store.sweep().map_err(store_error(|| "remove unused files".to_owned()))).await
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
    fn create(store: Arc<BlobDirectory>, guard: ReserveGuard, expected: u64) -> Result<Self, BlobError> {
        guard.check(&store.incoming, expected).map_err(BlobError::Full)?;
        let temp = store.incoming.try_clone().and_then(new_file);
        let temp = temp.map_err(|error| writing_failed(error, &guard))?;
        Ok(Self { store, temp, bytes: 0, guard })
    }

    fn publish(mut self, sha256: Sha256, hint: &BlobHint, still_wanted: &Weak<()>) -> Result<StoredBlob, BlobError> {
        let writing_failed = |error| writing_failed(error, &self.guard);
        let (mime, media) = detect::content(self.temp.file(), hint).map_err(writing_failed)?;
        self.temp.sync().map_err(writing_failed)?;
        let (shard, publishing) = self.store.shard(&sha256).map_err(writing_failed)?;
        if still_wanted.strong_count() == 0 {
            return Err(writing_failed(io::ErrorKind::Interrupted.into()));
        }
        self.temp.replace(&shard, &sha256.to_string()).map_err(writing_failed)?;
        self.store.unmark(&sha256).map_err(writing_failed)?;
        drop(publishing);
        directory::sync(&shard).map_err(writing_failed)?;
        Ok(StoredBlob { sha256, bytes: self.bytes, mime, media })
    }
}

impl BlockSink for IncomingBlob {
    type Error = BlobError;

    fn write_block(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.guard.allocate(self.temp.file(), bytes.len() as u64).map_err(BlobError::Full)?;
        self.temp.append(bytes).map_err(|error| writing_failed(error, &self.guard))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

impl BlobDirectory {
    /// Takes the lock between processes; it is free again when the file is dropped.
    fn lock(&self, take: impl Fn(&File) -> io::Result<()>) -> io::Result<File> {
        let mut options = OpenOptions::new();
        FileAccess::Owner.of_file(options.read(true).write(true).create(true));
        let file = self.root.open_with(LOCK, &options)?.into_std();
        take(&file)?;
        Ok(file)
    }

    /// Opens the directory of an address, with the lock under which a file may be put there.
    fn shard(&self, sha256: &Sha256) -> io::Result<(Dir, File)> {
        let path = shard(sha256);
        let publishing = self.lock(File::lock_shared)?;
        match self.root.open_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return Ok((opened?, publishing)),
        }
        drop(publishing);
        // Made alone, so that a directory that others see is durable already.
        let making = self.lock(File::lock)?;
        let directory = directory::ensure(&self.root, &path, FileAccess::Owner)?;
        drop(making);
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

/// Whether an entry of the directory is the store's own.
#[must_use]
pub fn is_own_entry(name: &str) -> bool {
    let is_shard = name.len() == 2 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_shard || [INCOMING, MARKED, LOCK].contains(&name)
}

fn new_file(directory: Dir) -> io::Result<TempFile> {
    TempFile::create(directory, FileAccess::Owner)
}

/// The directory of an address: two levels, so that none grows large.
fn shard(sha256: &Sha256) -> PathBuf {
    let [first, second, ..] = sha256.0;
    PathBuf::from(format!("{first:02x}/{second:02x}"))
}

fn address(sha256: &Sha256) -> PathBuf {
    shard(sha256).join(sha256.to_string())
}

fn writing_failed(error: io::Error, guard: &ReserveGuard) -> BlobError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BlobError::Full(guard.exhausted()),
        _ => BlobError::Store { doing: WRITE_ACTION.to_owned(), source: error.into() },
    }
}

fn store_error(doing: impl Fn() -> String) -> impl Fn(io::Error) -> BlobError {
    move |error| BlobError::Store { doing: doing(), source: error.into() }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(BlobError::Store { doing: "finish its work".to_owned(), source: error.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_told_as_full() {
        let failed = |code| {
            let guard = ReserveGuard::new(DiskReserve::NONE, Path::new("/srv"));
            writing_failed(io::Error::from_raw_os_error(code), &guard)
        };
        // 28 and 122 are ENOSPC and EDQUOT on Linux.
        for code in [28, 122] {
            assert!(matches!(failed(code), BlobError::Full(_)), "{code}");
        }
        assert!(matches!(failed(5), BlobError::Store { .. }));
    }

    #[test]
    fn an_address_lies_in_two_levels() {
        let sha256 = Sha256(std::array::from_fn(|i| 0xa0 + i as u8));
        assert_eq!(address(&sha256), PathBuf::from(format!("a0/a1/{sha256}")));
    }
}
