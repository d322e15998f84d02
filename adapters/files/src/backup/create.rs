//! Makes a backup: the copy of the database in chunks, the blobs that it names, and the files of the workspaces.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt},
};
use rustix::fs::OFlags;
use satchel_domain::{Sha256, Timestamp, path::Mount};

use super::{
    BackupError, BackupId, BackupManifest, BackupRepository, DatabaseVersion,
    manifest::{BackupEntry, ObjectRef},
    objects::{self, ObjectError},
};
use crate::{blobs, directory, temp};

/// The size of the chunks of a database, each of which is stored once for as long as nothing in it changes.
const CHUNK_BYTES: u64 = 4 << 20;

/// How often a file is read that changes meanwhile.
const MAX_READS: usize = 3;

/// What a backup is made of.
#[derive(Debug)]
pub struct BackupContents<'a> {
    /// When the database was copied.
    pub taken_at: Timestamp,
    /// The same as text that sorts by age, such as `20260302T180411.042Z`.
    pub time: &'a str,
    /// The data directory.
    pub data_dir: &'a Path,
    /// A copy of the database that nobody uses.
    pub database: &'a Path,
    pub database_version: DatabaseVersion,
    /// The directory of the blobs. Their collection is paused from before the copy was made.
    pub blobs_dir: &'a Path,
    /// The blobs that the database names.
    pub blobs: &'a [Sha256],
    /// The name of the workspaces' directory in the data directory.
    pub workspaces: &'a str,
    /// Whether vaults and these files of the data directory are included.
    pub secrets: Option<&'a [&'a str]>,
}

/// How many bytes a backup or a restore has written so far.
#[derive(Debug, Default)]
pub struct BackupProgress(AtomicU64);

impl BackupProgress {
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What a new backup contains.
#[derive(Debug, PartialEq, Eq)]
pub struct BackupReport {
    pub id: BackupId,
    /// The bytes of all that it restores.
    pub bytes: u64,
    /// How many of them were not stored before.
    pub written: u64,
    pub files: usize,
    /// The files that the database names and that are missing or damaged in the file store.
    pub missing: Vec<Sha256>,
    /// Paths relative to the data directory that it does not contain: what is no file, or changed all the time.
    pub skipped: Vec<PathBuf>,
}

/// Where the objects and the manifest of a backup go.
pub(super) trait BackupTarget {
    /// The newest backup before this one.
    fn previous(&self, now: Timestamp) -> Option<BackupManifest>;

    /// The size of an object; `None` where it must be stored.
    fn find(&self, sha256: &Sha256) -> io::Result<Option<u64>>;

    /// Stores an object of so many bytes, unless its bytes are others than its hash names.
    fn put(&mut self, object: &ObjectRef, content: &mut dyn Read, written: &BackupProgress) -> Result<(), ObjectError>;

    /// Stores the manifest once everything else is stored.
    fn publish(&mut self, time: &str, manifest: &BackupManifest) -> Result<BackupId, BackupError>;

    /// The error of a write.
    fn write_error(&self, error: io::Error) -> BackupError;
}

impl BackupTarget for BackupRepository {
    fn previous(&self, now: Timestamp) -> Option<BackupManifest> {
        self.newest(now).ok().map(|(_, manifest)| manifest)
    }

    fn find(&self, sha256: &Sha256) -> io::Result<Option<u64>> {
        self.objects.find(sha256)
    }

    fn put(&mut self, object: &ObjectRef, content: &mut dyn Read, written: &BackupProgress) -> Result<(), ObjectError> {
        self.objects.put(&object.sha256, content, &mut |bytes| written.add(bytes))
    }

    fn publish(&mut self, time: &str, manifest: &BackupManifest) -> Result<BackupId, BackupError> {
        Self::publish(self, time, manifest)
    }

    fn write_error(&self, error: io::Error) -> BackupError {
        Self::write_error(self, "write to", error)
    }
}

impl BackupRepository {
    /// Makes a backup, and returns once it is complete and on the disk.
    ///
    /// # Errors
    /// When the data can't be read or the backup can't be written; then there is no new backup.
    pub fn add(
        &mut self,
        contents: &BackupContents<'_>,
        written: &BackupProgress,
    ) -> Result<BackupReport, BackupError> {
        create(self, contents, written)
    }
}

/// Makes a backup on any target.
pub(super) fn create(
    target: &mut dyn BackupTarget,
    contents: &BackupContents<'_>,
    written: &BackupProgress,
) -> Result<BackupReport, BackupError> {
    // Nothing but text is stored.
    let data_dir = PathBuf::from(contents.data_dir.to_string_lossy().into_owned());
    let manifest =
        BackupManifest::new(contents.taken_at, data_dir, contents.secrets.is_some(), contents.database_version);
    let previous = target.previous(contents.taken_at);
    let previous = previous.iter().flat_map(|manifest| &manifest.files).map(|file| (file.path.clone(), file.clone()));
    let mut backup = Backup { previous: previous.collect(), target, contents, written, manifest, skipped: Vec::new() };
    backup.add_database()?;
    backup.add_blobs()?;
    backup.add_workspaces()?;
    backup.add_secret_files()?;
    let Backup { target, manifest, skipped, .. } = backup;
    let id = target.publish(contents.time, &manifest)?;
    let (bytes, files) = (manifest.bytes(), manifest.file_count());
    Ok(BackupReport { id, bytes, written: written.bytes(), files, missing: manifest.missing, skipped })
}

/// A backup in progress.
struct Backup<'a> {
    target: &'a mut dyn BackupTarget,
    contents: &'a BackupContents<'a>,
    written: &'a BackupProgress,
    manifest: BackupManifest,
    /// The files of the backup before, by path.
    previous: HashMap<PathBuf, BackupEntry>,
    skipped: Vec<PathBuf>,
}

impl Backup<'_> {
    fn add_database(&mut self) -> Result<(), BackupError> {
        let failed = || BackupError::at("read the copy of the database", self.contents.database);
        let mut file = File::open(self.contents.database).map_err(failed())?;
        loop {
            let mut chunk = Vec::new();
            (&mut file).take(CHUNK_BYTES).read_to_end(&mut chunk).map_err(failed())?;
            if chunk.is_empty() {
                return Ok(());
            }
            let object = ObjectRef { sha256: Sha256::digest(&chunk), bytes: chunk.len() as u64 };
            if self.find(&object.sha256)?.is_none() {
                let put = self.target.put(&object, &mut chunk.as_slice(), self.written);
                put.map_err(|error| self.object_error(self.contents.database, error))?;
            }
            self.manifest.database.chunks.push(object);
        }
    }

    fn add_blobs(&mut self) -> Result<(), BackupError> {
        let path = self.contents.blobs_dir;
        let root = open_directory(path)?;
        for sha256 in self.contents.blobs {
            let stored = match self.find(sha256)? {
                Some(bytes) => Some(bytes),
                None => self.add_blob(root.as_ref(), sha256)?,
            };
            match stored {
                Some(bytes) => self.manifest.blobs.push(ObjectRef { sha256: *sha256, bytes }),
                None => self.manifest.missing.push(*sha256),
            }
        }
        Ok(())
    }

    /// Stores a blob; `None` where the file store doesn't have it as it was.
    fn add_blob(&mut self, root: Option<&Dir>, sha256: &Sha256) -> Result<Option<u64>, BackupError> {
        let opened = root.ok_or_else(|| io::ErrorKind::NotFound.into());
        let opened = opened.and_then(|root| root.open(blobs::blob_path(sha256)));
        let opened = opened.and_then(|file| Ok((file.metadata()?.len(), file.into_std())));
        let put = match opened {
            Ok((bytes, mut file)) => {
                let object = ObjectRef { sha256: *sha256, bytes };
                self.target.put(&object, &mut file, self.written).map(|()| bytes)
            }
            Err(error) => Err(ObjectError::Source(error)),
        };
        match put {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ObjectError::Target(error)) => Err(self.target.write_error(error)),
            Err(ObjectError::Damaged) => Ok(None),
            Err(ObjectError::Source(error)) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(sha256 = %sha256, %error, "a stored file can't be read; the backup is made without it");
                }
                Ok(None)
            }
        }
    }

    /// Adds the directories of all conversations, without what is temporary.
    fn add_workspaces(&mut self) -> Result<(), BackupError> {
        let relative = PathBuf::from(self.contents.workspaces);
        let path = self.contents.data_dir.join(&relative);
        let Some(root) = open_directory(&path)? else { return Ok(()) };
        let failed = BackupError::at("read the directory", &path);
        let conversations = root.entries().and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
        for conversation in conversations {
            let name = conversation.file_name();
            // What is being removed begins with a dot.
            let is_conversation = name.to_str().is_some_and(|name| !name.starts_with('.'));
            if !is_conversation || !conversation.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let mounts = [Some(Mount::Shared), self.contents.secrets.map(|_| Mount::Vault)];
            for mount in mounts.into_iter().flatten() {
                self.add_tree(&root, &relative, &Path::new(&name).join(mount.name()))?;
            }
        }
        Ok(())
    }

    /// Adds a directory beneath `root`, which lies at `relative` in the data directory, with all that is in it.
    fn add_tree(&mut self, root: &Dir, relative: &Path, start: &Path) -> Result<(), BackupError> {
        let mut pending = vec![start.to_owned()];
        while let Some(path) = pending.pop() {
            let at = relative.join(&path);
            let failed = |error| BackupError::at("read", self.contents.data_dir.join(&at))(error);
            let directory = match directory::open(root, &path) {
                // Removed meanwhile, or never there.
                Err(error) if is_gone(&error) => continue,
                opened => opened.map_err(failed)?,
            };
            let entries = directory.entries().and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
            self.manifest.directories.push(at.clone());
            for entry in entries {
                let name = entry.file_name();
                let at = at.join(&name);
                match (name.to_str(), entry.file_type()) {
                    (Some(name), _) if temp::is_temp_name(name) => {}
                    (Some(name), Ok(kind)) if kind.is_dir() => pending.push(path.join(name)),
                    (Some(name), Ok(kind)) if kind.is_file() => self.add_file(&directory, name, at)?,
                    (_, Err(error)) if is_gone(&error) => {}
                    _ => self.skipped.push(at),
                }
            }
        }
        Ok(())
    }

    fn add_secret_files(&mut self) -> Result<(), BackupError> {
        let Some(names) = self.contents.secrets else { return Ok(()) };
        let Some(root) = open_directory(self.contents.data_dir)? else { return Ok(()) };
        for name in names {
            if root.symlink_metadata(name).is_ok_and(|metadata| metadata.is_file()) {
                self.add_file(&root, name, PathBuf::from(name))?;
            }
        }
        Ok(())
    }

    /// Adds a file of a directory, unless it is removed meanwhile.
    fn add_file(&mut self, directory: &Dir, name: &str, at: PathBuf) -> Result<(), BackupError> {
        for _ in 0..MAX_READS {
            let mut options = OpenOptions::new();
            // Whatever the file has become, opening it doesn't wait.
            options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
            let failed = |error| BackupError::at("read", self.contents.data_dir.join(&at))(error);
            let file = match directory.open_with(name, &options) {
                Err(error) if is_gone(&error) => return Ok(()),
                Err(error) => return self.skip(at, &error),
                Ok(file) => file,
            };
            let metadata = file.metadata().map_err(failed)?;
            if let Some(entry) = self.find_unchanged(&at, &metadata)? {
                self.manifest.files.push(entry);
                return Ok(());
            }
            let mut file = file.into_std();
            let sha256 = match objects::hash(&mut file) {
                Ok(sha256) => sha256,
                Err(error) => return self.skip(at, &error),
            };
            let object = ObjectRef { sha256, bytes: metadata.len() };
            let put = match self.find(&sha256)? {
                Some(bytes) if bytes == object.bytes => Ok(()),
                Some(_) => Err(ObjectError::Damaged),
                None => {
                    io::Seek::rewind(&mut file).map_err(failed)?;
                    self.target.put(&object, &mut file, self.written)
                }
            };
            match put {
                Ok(()) => {
                    self.manifest.files.push(file_entry(at, object, &metadata));
                    return Ok(());
                }
                // It changed between the two.
                Err(ObjectError::Damaged) => {}
                Err(error) => return Err(self.object_error(&self.contents.data_dir.join(at), error)),
            }
        }
        self.skipped.push(at);
        Ok(())
    }

    /// Leaves out a file that can't be read, so that the others are backed up all the same.
    fn skip(&mut self, at: PathBuf, error: &io::Error) -> Result<(), BackupError> {
        tracing::warn!(path = %at.display(), %error, "a file can't be read; the backup is made without it");
        self.skipped.push(at);
        Ok(())
    }

    /// The entry of the backup before, if the file has not changed since.
    fn find_unchanged(&self, at: &Path, metadata: &Metadata) -> Result<Option<BackupEntry>, BackupError> {
        let Some(before) = self.previous.get(at) else { return Ok(None) };
        let is_unchanged = *before == file_entry(at.to_owned(), before.object, metadata)
            && before.object.bytes == metadata.len()
            && self.find(&before.object.sha256)?.is_some();
        Ok(is_unchanged.then(|| before.clone()))
    }

    fn find(&self, sha256: &Sha256) -> Result<Option<u64>, BackupError> {
        self.target.find(sha256).map_err(|error| self.target.write_error(error))
    }

    fn object_error(&self, source: &Path, error: ObjectError) -> BackupError {
        match error {
            ObjectError::Target(error) => self.target.write_error(error),
            ObjectError::Source(error) => BackupError::at("read", source)(error),
            ObjectError::Damaged => BackupError::at("read", source)(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn file_entry(path: PathBuf, object: ObjectRef, metadata: &Metadata) -> BackupEntry {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    BackupEntry {
        path,
        object,
        modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Opens a directory of the data; `None` where it was never created.
fn open_directory(path: &Path) -> Result<Option<Dir>, BackupError> {
    match Dir::open_ambient_dir(path, ambient_authority()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(BackupError::at("open the directory", path)),
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
