//! A backup as one tar archive: unpacked, it is a directory of backups with one backup in it.

use std::{
    collections::HashMap,
    fmt,
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use cap_std::fs::Dir;
use satchel_domain::{Sha256, Timestamp};
use satchel_ports::FileAccess;
use tar::{Builder, EntryType, Header};

use super::{
    BackupContents, BackupError, BackupId, BackupManifest, BackupProgress, BackupReport, StagingFile,
    create::{self, BackupTarget},
    manifest::ObjectRef,
    objects::{OBJECTS_DIRECTORY, ObjectError, copy_and_hash, create_temp_file, object_path},
    repository::{MANIFESTS_DIRECTORY, open_directory, remove_leftovers},
};

/// Writes one backup as a tar archive to a stream, such as a pipe. Its manifest is the last entry: an archive that was cut
/// short contains no backup.
pub struct BackupArchive<W: Write> {
    builder: Builder<W>,
    /// Where a file lies until its bytes are known to be those that its hash names: a stream takes nothing back.
    staging: Dir,
    staging_path: PathBuf,
    /// The sizes of the objects that the archive has by now.
    objects: HashMap<Sha256, u64>,
    /// What the headers have as the time of every entry, in seconds since 1970.
    modified: u64,
}

impl<W: Write> fmt::Debug for BackupArchive<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupArchive").field("staging_path", &self.staging_path).finish_non_exhaustive()
    }
}

impl<W: Write> BackupArchive<W> {
    /// An archive that is written to `out`, with a directory for temporary files. Those that a killed process has left there
    /// are removed.
    ///
    /// # Errors
    /// When the directory can't be used.
    pub fn new(out: W, staging_path: &Path) -> Result<Self, BackupError> {
        let staging = open_directory(staging_path)?;
        remove_leftovers(&staging).map_err(BackupError::at("clean the directory", staging_path))?;
        let (objects, staging_path) = (HashMap::new(), staging_path.to_owned());
        Ok(Self { builder: Builder::new(out), staging, staging_path, objects, modified: 0 })
    }

    /// Creates an empty file that only its owner can read, for the copy of the database.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn create_staging_file(&self) -> Result<StagingFile, BackupError> {
        StagingFile::create(&self.staging, &self.staging_path)
            .map_err(BackupError::at("write to", self.staging_path.as_path()))
    }

    /// Writes the backup, and returns once the stream has all of it.
    ///
    /// # Errors
    /// When the data can't be read or the stream is closed; then what it has is no backup.
    pub fn write(
        mut self,
        contents: &BackupContents<'_>,
        written: &BackupProgress,
    ) -> Result<BackupReport, BackupError> {
        self.modified = u64::try_from(contents.taken_at.0 / 1_000).unwrap_or(0);
        for directory in [OBJECTS_DIRECTORY, MANIFESTS_DIRECTORY] {
            self.append_directory(directory).map_err(BackupError::Stream)?;
        }
        create::create(&mut self, contents, written)
    }

    fn append_directory(&mut self, name: &str) -> io::Result<()> {
        let mut header = self.header(EntryType::Directory, FileAccess::Owner.directory_mode(), 0);
        self.builder.append_data(&mut header, format!("{name}/"), io::empty())
    }

    fn append_file(&mut self, path: &Path, bytes: u64, content: &mut dyn Read) -> io::Result<()> {
        let mut header = self.header(EntryType::Regular, FileAccess::Owner.file_mode(), bytes);
        self.builder.append_data(&mut header, path, content)
    }

    fn header(&self, kind: EntryType, mode: u32, bytes: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(self.modified);
        header.set_size(bytes);
        header
    }

    /// The error of a temporary file, which is not one of the stream.
    fn staged(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("a temporary file in {}: {error}", self.staging_path.display()))
    }
}

impl<W: Write> BackupTarget for BackupArchive<W> {
    fn previous(&self, _now: Timestamp) -> Option<BackupManifest> {
        None
    }

    fn find(&self, sha256: &Sha256) -> io::Result<Option<u64>> {
        Ok(self.objects.get(sha256).copied())
    }

    fn put(&mut self, object: &ObjectRef, content: &mut dyn Read, written: &BackupProgress) -> Result<(), ObjectError> {
        let temp = create_temp_file(&self.staging).map_err(|error| ObjectError::Target(self.staged(error)))?;
        let mut bytes = 0;
        let digest = copy_and_hash(content, |block| {
            bytes += block.len() as u64;
            let mut file = temp.file();
            file.write_all(block).map_err(|error| self.staged(error))
        })?;
        if digest != object.sha256 {
            return Err(ObjectError::Damaged);
        }
        let mut staged = temp.file();
        staged.rewind().map_err(|error| ObjectError::Target(self.staged(error)))?;
        self.append_file(&object_path(&object.sha256), bytes, &mut staged).map_err(ObjectError::Target)?;
        self.objects.insert(object.sha256, bytes);
        written.add(bytes);
        Ok(())
    }

    fn publish(&mut self, time: &str, manifest: &BackupManifest) -> Result<BackupId, BackupError> {
        let (id, bytes) = manifest.encode(time);
        let path = Path::new(MANIFESTS_DIRECTORY).join(id.to_file_name());
        let appended = self.append_file(&path, bytes.len() as u64, &mut bytes.as_slice());
        let finished = appended.and_then(|()| self.builder.finish()).and_then(|()| self.builder.get_mut().flush());
        finished.map_err(BackupError::Stream)?;
        Ok(id)
    }

    fn write_error(&self, error: io::Error) -> BackupError {
        BackupError::Stream(error)
    }
}
