//! The directory store: its contract, and what it does with damaged, crowded and unwritable directories.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use satchel_contracts::blobs::BlobsFixture;
use satchel_domain::{DiskReserve, Sha256};
use satchel_files::DirectoryBlobs;
use satchel_ports::{BlobError, BlobHint, Blobs};
use satchel_requirements::{obey_file_permissions, required};
use tempfile::TempDir;

struct Fixture {
    directory: TempDir,
    blobs: Arc<DirectoryBlobs>,
}

#[async_trait]
impl BlobsFixture for Fixture {
    async fn new() -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Arc::new(DirectoryBlobs::open(directory.path()).unwrap());
        Ok(Self { directory, blobs })
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::clone(&self.blobs) as Arc<dyn Blobs>
    }

    async fn restart(self) -> Self {
        let Self { directory, blobs } = self;
        drop(blobs);
        let blobs = Arc::new(DirectoryBlobs::open(directory.path()).unwrap());
        Self { directory, blobs }
    }

    async fn count_leftovers(&self) -> usize {
        fs::read_dir(self.directory.path().join("incoming")).unwrap().count()
    }

    async fn damage(&self, sha256: &Sha256) {
        let path = address(self.directory.path(), sha256);
        let mut bytes = fs::read(&path).unwrap();
        bytes[1] ^= 1;
        fs::write(path, bytes).unwrap();
    }

    async fn truncate(&self, sha256: &Sha256) {
        let path = address(self.directory.path(), sha256);
        let bytes = fs::read(&path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    }
}

satchel_contracts::blobs_contract!(Fixture);

fn address(directory: &Path, sha256: &Sha256) -> PathBuf {
    let hex = sha256.to_string();
    directory.join(&hex[..2]).join(&hex[2..4]).join(hex)
}

async fn put(blobs: &DirectoryBlobs, content: &'static [u8]) -> Sha256 {
    let content = stream::iter([Ok(Bytes::from_static(content))]).boxed();
    blobs.put(content, &BlobHint::default(), 1 << 20).await.unwrap().sha256
}

#[tokio::test]
async fn blobs_lie_where_their_digest_says() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = DirectoryBlobs::open(directory.path()).unwrap();
    let sha256 = put(&blobs, b"hello").await;
    assert_eq!(fs::read(address(directory.path(), &sha256)).unwrap(), b"hello");
}

/// The leftover of a dead process goes at the next start; a put of a process that lives beside us goes on.
#[tokio::test]
async fn only_leftovers_of_the_dead_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = DirectoryBlobs::open(directory.path()).unwrap();
    let (bytes, receiver) = futures::channel::mpsc::unbounded();
    let hint = BlobHint::default();
    let slow = blobs.put(receiver.boxed(), &hint, 1 << 20);
    let beside = async {
        bytes.unbounded_send(Ok(Bytes::from_static(b"slow "))).unwrap();
        let incoming = directory.path().join("incoming");
        while fs::read_dir(&incoming).unwrap().count() == 0 {
            tokio::task::yield_now().await;
        }
        let dead = incoming.join(".satchel-1-0.part");
        fs::write(&dead, "half").unwrap();
        DirectoryBlobs::open(directory.path()).unwrap();
        assert!(!dead.exists(), "the leftover is gone");
        bytes.unbounded_send(Ok(Bytes::from_static(b"but whole"))).unwrap();
        drop(bytes);
    };
    let (stored, ()) = tokio::join!(slow, beside);
    let stored = stored.unwrap();
    assert_eq!(fs::read(address(directory.path(), &stored.sha256)).unwrap(), b"slow but whole");
}

#[tokio::test]
async fn two_stores_on_one_directory_see_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) =
        (DirectoryBlobs::open(directory.path()).unwrap(), DirectoryBlobs::open(directory.path()).unwrap());
    let sha256 = put(&one, b"shared").await;
    one.mark(&[sha256], std::time::Duration::ZERO).await.unwrap();
    put(&other, b"shared").await;
    assert_eq!(one.sweep().await.unwrap(), 0, "the put of the other store took the mark away");
    assert!(other.open(&sha256, None).await.is_ok());
}

/// A put that died between giving the file its name and taking the mark away.
#[tokio::test]
async fn gc_mark_older_than_blob_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let blobs = DirectoryBlobs::open(directory.path()).unwrap();
    let sha256 = put(&blobs, b"reborn").await;
    blobs.mark(&[sha256], std::time::Duration::ZERO).await.unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    fs::File::options().write(true).open(address(directory.path(), &sha256)).unwrap().set_modified(later).unwrap();
    assert_eq!(blobs.sweep().await.unwrap(), 0);
    assert!(blobs.open(&sha256, None).await.is_ok());
    assert_eq!(fs::read_dir(directory.path().join("marked")).unwrap().count(), 0);
}

#[test]
fn unusable_directory_error_names_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = DirectoryBlobs::open(&path).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("ot a directory"), "{error:?}");
    }
}

#[cfg(unix)]
#[test]
fn read_only_directory_fails_at_open() {
    use std::os::unix::fs::PermissionsExt;

    let Some(()) = required(obey_file_permissions()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("blobs");
    drop(DirectoryBlobs::open(&path).unwrap());
    for part in ["incoming", "marked", ""] {
        fs::set_permissions(path.join(part), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let error = DirectoryBlobs::open(&path).unwrap_err();
    assert_eq!(error.to_string(), format!("failed to write to the directory `{}`", path.join("").display()));
}

#[tokio::test]
async fn put_into_disk_reserve_is_refused_unread() {
    let directory = tempfile::tempdir().unwrap();
    let open = |reserve| DirectoryBlobs::open(directory.path()).unwrap().with_reserve(reserve);
    let put = async |reserve, expected| {
        let read = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = Arc::clone(&read);
        let content = stream::once(async move {
            seen.store(true, std::sync::atomic::Ordering::Relaxed);
            Ok(Bytes::from_static(b"bytes"))
        });
        let hint = BlobHint { bytes: expected, ..BlobHint::default() };
        let put = open(reserve).put(content.boxed(), &hint, 100).await;
        (put, read.load(std::sync::atomic::Ordering::Relaxed))
    };
    for (reserve, expected) in [(DiskReserve::Bytes(u64::MAX), None), (DiskReserve::Bytes(1), Some(u64::MAX))] {
        let (refused, read) = put(reserve, expected).await;
        let Err(BlobError::Full(full)) = refused else { panic!("{refused:?}") };
        assert!(!read && full.free > 0, "{full:?}");
        assert_eq!(fs::read_dir(directory.path().join("incoming")).unwrap().count(), 0);
    }
    assert!(put(DiskReserve::NONE, Some(u64::MAX)).await.0.is_ok(), "without a reserve nothing is asked before");
}
