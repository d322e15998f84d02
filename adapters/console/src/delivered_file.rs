//! Writes a delivered file into the person's directory atomically.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::StreamExt;
use satchel_domain::{
    Sha256,
    delivery::{Refusal, SendError},
    error_chain,
};
use satchel_ports::{BlobError, Blobs, ByteStream};
use tokio::{fs, task::JoinHandle};

/// How many bytes are written between two syncs, so that the last sync is short.
const SYNC_INTERVAL_BYTES: usize = 8 << 20;

/// Opens a blob and maps its errors to the part's outcome.
pub(crate) async fn open_blob(blobs: &dyn Blobs, sha256: &Sha256) -> Result<ByteStream, SendError> {
    blobs.open(sha256, None).await.map_err(|error| match error {
        BlobError::Missing(_) | BlobError::Damaged(_) => SendError::Unreadable { reason: error.to_string() },
        // The store failed and not this blob, so a retry can help.
        other => SendError::NotSent { retry_after_ms: None, reason: error_chain(&other) },
    })
}

/// Writes `content` to `directory/name`, replacing an existing file, through a temporary file named after `key`.
pub(crate) async fn save_file(
    content: &mut ByteStream,
    directory: &Path,
    name: &str,
    key: &str,
) -> Result<PathBuf, SendError> {
    let (path, temporary) = (directory.join(name), directory.join(format!(".{key}.part")));
    fs::create_dir_all(directory).await.map_err(|error| write_error(&error, "create the directory", directory))?;
    // Removes what a killed attempt left; `create_new` doesn't follow a symlink that someone put there.
    let _ = fs::remove_file(&temporary).await;
    let guard = TempFileGuard(temporary.clone());
    let file = fs::OpenOptions::new().write(true).create_new(true).open(&temporary).await;
    let file = file.map_err(|error| write_error(&error, "create", &path))?;
    copy_blocks(content, &Arc::new(file.into_std().await), &path).await?;
    fs::rename(&temporary, &path).await.map_err(|error| write_error(&error, "put in place", &path))?;
    std::mem::forget(guard);
    let entries = fs::File::open(directory).await.map_err(|error| write_error(&error, "open", directory))?;
    entries.sync_all().await.map_err(|error| write_error(&error, "store the entries of", directory))?;
    Ok(path)
}

/// Writes each block while the next one is read, and syncs in the background.
async fn copy_blocks(content: &mut ByteStream, file: &Arc<File>, path: &Path) -> Result<(), SendError> {
    let mut unsynced = 0;
    let (mut write_task, mut sync_task) = (None, None);
    while let Some(block) = content.next().await {
        let block = block.map_err(|error| SendError::Unreadable { reason: error.to_string() })?;
        join_write(write_task.take(), path).await?;
        unsynced += block.len();
        write_task = Some(spawn_file_task(file, move |mut file| file.write_all(&block)));
        if unsynced >= SYNC_INTERVAL_BYTES && sync_task.as_ref().is_none_or(JoinHandle::is_finished) {
            join_write(sync_task.take(), path).await?;
            unsynced = 0;
            sync_task = Some(spawn_file_task(file, |file| file.sync_data()));
        }
    }
    join_write(write_task, path).await?;
    // The system reports a write error only to the first sync, so its result must not be lost.
    join_write(sync_task, path).await?;
    join_write(Some(spawn_file_task(file, |file| file.sync_all())), path).await
}

fn spawn_file_task(
    file: &Arc<File>,
    work: impl FnOnce(&File) -> io::Result<()> + Send + 'static,
) -> JoinHandle<io::Result<()>> {
    let file = Arc::clone(file);
    tokio::task::spawn_blocking(move || work(&file))
}

async fn join_write(task: Option<JoinHandle<io::Result<()>>>, path: &Path) -> Result<(), SendError> {
    let Some(task) = task else { return Ok(()) };
    let result = task.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    result.map_err(|error| write_error(&error, "write", path))
}

/// Maps a failed write to the part's outcome: a full disk is retryable, a forbidden directory needs the person.
pub(crate) fn write_error(error: &io::Error, doing: &str, path: &Path) -> SendError {
    let reason = format!("can't {doing} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::AlreadyExists => SendError::Forbidden { reason },
        io::ErrorKind::InvalidFilename | io::ErrorKind::IsADirectory => {
            SendError::Refused { refusal: Refusal::Other, reason }
        }
        io::ErrorKind::FileTooLarge => SendError::Refused { refusal: Refusal::TooLarge { limit: None }, reason },
        _ => SendError::NotSent { retry_after_ms: None, reason },
    }
}

/// Removes the temporary file of a write that failed or was dropped.
struct TempFileGuard(PathBuf);

impl Drop for TempFileGuard {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::stream;

    use super::*;

    fn blocks(count: u8, size: usize) -> ByteStream {
        stream::iter((0..count).map(move |byte| Ok(Bytes::from(vec![byte; size])))).boxed()
    }

    #[tokio::test]
    async fn a_long_file_is_written_in_its_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = save_file(&mut blocks(20, 600_000), dir.path(), "long.bin", "key").await.unwrap();
        let expected: Vec<u8> = (0..20).flat_map(|byte| vec![byte; 600_000]).collect();
        assert!(std::fs::read(path).unwrap() == expected, "the bytes are others");
    }

    #[tokio::test]
    async fn what_can_not_be_written_is_no_success() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"").unwrap();
        // Its writes fail, making it durable does not.
        let file = Arc::new(File::open(&path).unwrap());
        for count in [1, 2, 20] {
            let copied = copy_blocks(&mut blocks(count, 600_000), &file, &path).await;
            assert!(matches!(copied, Err(SendError::NotSent { .. })), "{count} blocks: {copied:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn failed_disk_sync_means_not_sent() {
        // It takes everything, and can't make it durable.
        let path = Path::new("/dev/null");
        let file = Arc::new(File::options().write(true).open(path).unwrap());
        for count in [1, 20] {
            let copied = copy_blocks(&mut blocks(count, 600_000), &file, path).await;
            assert!(matches!(copied, Err(SendError::NotSent { .. })), "{count} blocks: {copied:?}");
        }
    }
}
