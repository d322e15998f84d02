//! A directory that keeps the text of documents by their SHA-256, within a quota.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use satchel_domain::Sha256;
use uuid::Uuid;

use super::pages::{DocumentPages, TextVersion};

/// The extension of a file that is being written.
const PARTIAL: &str = "part";

/// After this time a partial file was left behind by a process that was killed.
const PARTIAL_TTL: Duration = Duration::from_secs(10 * 60);

/// After this time without a reader a text is removed.
const UNREAD_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The texts of documents that were read lately. What is missing is read from the document again, so no failure here is
/// more than a delay.
#[derive(Debug, Clone)]
pub struct TextCache {
    directory: PathBuf,
    quota_bytes: u64,
}

/// A file of the cache.
struct CacheFile {
    path: PathBuf,
    bytes: u64,
    read_at: SystemTime,
}

impl TextCache {
    /// A cache in a directory that is created when it is needed.
    #[must_use]
    pub fn new(directory: PathBuf, quota_bytes: u64) -> Self {
        Self { directory, quota_bytes }
    }

    /// The text of a document if it is kept.
    pub(super) async fn load(&self, sha256: Sha256, version: TextVersion) -> Option<DocumentPages> {
        if self.quota_bytes == 0 {
            return None;
        }
        let path = self.path(&sha256);
        tokio::task::spawn_blocking(move || {
            let content = fs::read(&path).ok()?;
            let pages = DocumentPages::from_file(&content, &version)?;
            // What was read last is removed last. A cache on a full or read-only disk is still one.
            let _unmarked = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            Some(pages)
        })
        .await
        .unwrap_or_default()
    }

    /// Keeps the text of a document in place of what was kept of it.
    pub(super) async fn store(&self, sha256: Sha256, version: TextVersion, pages: DocumentPages) {
        let (cache, path) = (self.clone(), self.path(&sha256));
        let stored = tokio::task::spawn_blocking(move || {
            let content = pages.to_file(version);
            if content.len() as u64 > cache.quota_bytes {
                return Ok(());
            }
            DirBuilder::new().recursive(true).mode(0o700).create(&cache.directory)?;
            cache.make_room(content.len() as u64, &path)?;
            cache.write(&path, &content)
        });
        if let Err(error) = stored.await.map_err(io::Error::other).flatten() {
            tracing::warn!(%sha256, %error, "the text of a document can't be kept; it is read again each time");
        }
    }

    /// Removes the texts of documents.
    ///
    /// # Errors
    /// When a text can't be removed.
    pub(super) async fn remove(&self, documents: &[Sha256]) -> io::Result<()> {
        let paths: Vec<PathBuf> = documents.iter().map(|sha256| self.path(sha256)).collect();
        let removed = tokio::task::spawn_blocking(move || paths.iter().try_for_each(|path| remove_file(path)));
        removed.await.map_err(io::Error::other).flatten()
    }

    /// Removes what exceeds the quota and what nobody has read for long, and returns the documents whose text stays.
    pub(super) async fn trim(&self) -> io::Result<Vec<Sha256>> {
        let cache = self.clone();
        let trimmed = tokio::task::spawn_blocking(move || {
            cache.make_room(0, Path::new(""))?;
            let name = |file: CacheFile| file.path.file_name()?.to_str()?.parse().ok();
            Ok(cache.files()?.into_iter().filter_map(name).collect())
        });
        trimmed.await.map_err(io::Error::other).flatten()
    }

    fn path(&self, sha256: &Sha256) -> PathBuf {
        self.directory.join(sha256.to_string())
    }

    /// Removes what was read longest ago until so many bytes have room, and what nobody has read for long.
    fn make_room(&self, bytes: u64, replaced: &Path) -> io::Result<()> {
        let mut files = self.files()?;
        files.retain(|file| file.path != replaced);
        files.sort_by_key(|file| file.read_at);
        let now = SystemTime::now();
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            let age = now.duration_since(file.read_at).unwrap_or_default();
            let is_partial = file.path.extension().is_some_and(|extension| extension == PARTIAL);
            let is_stale = age > if is_partial { PARTIAL_TTL } else { UNREAD_TTL };
            if is_stale || (!is_partial && total + bytes > self.quota_bytes) {
                remove_file(&file.path)?;
                total -= file.bytes;
            }
        }
        Ok(())
    }

    fn files(&self) -> io::Result<Vec<CacheFile>> {
        let mut files = Vec::new();
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if is_missing(&error) => return Ok(files),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // Another process may have removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            files.push(CacheFile { path: entry.path(), bytes: metadata.len(), read_at: metadata.modified()? });
        }
        Ok(files)
    }

    /// Writes a file that is seen whole or not at all, also after a power failure.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let partial = self.directory.join(format!("{}.{PARTIAL}", Uuid::now_v7()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)
            .and_then(|mut file| file.write_all(content).and_then(|()| file.sync_data()))
            .and_then(|()| fs::rename(&partial, path));
        if written.is_err() {
            let _left = remove_file(&partial);
        }
        written
    }
}

/// Removes a file that may be gone already.
fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if is_missing(&error) => Ok(()),
        removed => removed,
    }
}

/// Whether there is no such file, or nothing that could hold it.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn version() -> TextVersion {
        TextVersion::new("application/pdf", 200, &[])
    }

    fn text_of(bytes: usize) -> DocumentPages {
        DocumentPages { pages: vec!["x".repeat(bytes)], total_pages: 1, is_truncated: false, recognized: Vec::new() }
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(directory)
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn set_age(path: &Path, age: Duration) {
        File::open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }

    #[tokio::test]
    async fn oldest_read_gives_way_to_the_quota() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TextCache::new(directory.path().join("text"), 5_000);
        let [first, second, third, large] = [1, 2, 3, 4].map(|byte| Sha256([byte; 32]));
        for (sha256, age) in [(first, 30), (second, 20)] {
            cache.store(sha256, version(), text_of(2_000)).await;
            set_age(&cache.path(&sha256), Duration::from_secs(age));
        }
        // Reading it makes it the newest.
        assert_eq!(cache.load(first, version()).await, Some(text_of(2_000)));
        cache.store(third, version(), text_of(2_000)).await;
        assert_eq!(names(&cache.directory), [first.to_string(), third.to_string()]);
        cache.store(large, version(), text_of(6_000)).await;
        assert_eq!(cache.load(large, version()).await, None);
        assert_eq!(names(&cache.directory), [first.to_string(), third.to_string()], "nothing gives way in vain");
        // The text itself is replaced, and its own room counts for it.
        cache.store(first, version(), text_of(2_500)).await;
        assert_eq!(names(&cache.directory), [first.to_string(), third.to_string()]);
    }

    #[tokio::test]
    async fn unread_and_partial_files_are_removed_and_fresh_ones_stay() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TextCache::new(directory.path().join("text"), 5_000);
        let [old, fresh, new] = [1, 2, 3].map(|byte| Sha256([byte; 32]));
        for sha256 in [old, fresh] {
            cache.store(sha256, version(), text_of(10)).await;
        }
        set_age(&cache.path(&old), UNREAD_TTL + Duration::from_secs(1));
        for (name, age) in [("a.part", PARTIAL_TTL + Duration::from_secs(1)), ("b.part", Duration::ZERO)] {
            fs::write(cache.directory.join(name), "half").unwrap();
            set_age(&cache.directory.join(name), age);
        }
        cache.store(new, version(), text_of(10)).await;
        assert_eq!(names(&cache.directory), [fresh.to_string(), new.to_string(), "b.part".to_owned()]);
    }

    #[tokio::test]
    async fn lower_quota_removes_texts_and_none_serves_none() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TextCache::new(directory.path().join("text"), 5_000);
        let [older, newer] = [1, 2].map(|byte| Sha256([byte; 32]));
        for sha256 in [older, newer] {
            cache.store(sha256, version(), text_of(2_000)).await;
        }
        set_age(&cache.path(&older), Duration::from_secs(30));
        let lower = TextCache { quota_bytes: 3_000, ..cache.clone() };
        assert_eq!(lower.trim().await.unwrap(), [newer]);
        let none = TextCache { quota_bytes: 0, ..cache.clone() };
        assert_eq!(none.load(newer, version()).await, None);
        assert_eq!(none.trim().await.unwrap(), []);
        assert_eq!(names(&cache.directory), Vec::<String>::new());
        assert_eq!(TextCache::new(directory.path().join("none yet"), 5_000).trim().await.unwrap(), []);
    }

    #[tokio::test]
    async fn only_the_owner_reads_texts() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TextCache::new(directory.path().join("text"), 5_000);
        let sha256 = Sha256([1; 32]);
        cache.store(sha256, version(), text_of(10)).await;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&cache.directory), mode(&cache.path(&sha256))), (0o700, 0o600));
    }
}
