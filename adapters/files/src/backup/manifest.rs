//! The manifest of a backup: what it contains, by path and by hash.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
    str::FromStr,
};

use satchel_domain::{Sha256, Timestamp};
use serde::{Deserialize, Serialize};

use super::BackupError;

/// The form of manifests that this version writes, and the newest that it reads.
const FORMAT: u32 = 1;

const SUFFIX: &str = ".json";

/// How many digits of its manifest's hash an id ends with.
const DIGEST_DIGITS: usize = 8;

/// The id of a backup: the time at which it was taken, so that ids sort by age, and the start of its manifest's hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupId(String);

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not `20260302T180411.042Z-` with eight hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("the id of a backup looks like 20260302T180411.042Z-1a2b3c4d; `satchel backup list` shows them")]
pub struct ParseBackupIdError;

impl FromStr for BackupId {
    type Err = ParseBackupIdError;

    fn from_str(text: &str) -> Result<Self, ParseBackupIdError> {
        let (time, digest) = text.split_once('-').ok_or(ParseBackupIdError)?;
        let is_time =
            !time.is_empty() && time.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'T' | b'.' | b'Z'));
        let is_digest = digest.len() == DIGEST_DIGITS && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_time && is_digest { Ok(Self(text.to_owned())) } else { Err(ParseBackupIdError) }
    }
}

impl BackupId {
    /// The id of the backup with this manifest; `time` is its time as text that sorts.
    fn new(time: &str, manifest: &[u8]) -> Self {
        let digest = Sha256::digest(manifest).to_string();
        Self(format!("{time}-{}", &digest[..DIGEST_DIGITS]))
    }

    pub(super) fn from_file_name(name: &str) -> Option<Self> {
        name.strip_suffix(SUFFIX)?.parse().ok()
    }

    pub(super) fn to_file_name(&self) -> String {
        format!("{}{SUFFIX}", self.0)
    }
}

/// What a backup contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupManifest {
    format: u32,
    /// When the database was copied.
    pub taken_at: Timestamp,
    /// The data directory that it is a copy of.
    pub data_dir: PathBuf,
    /// Whether it contains vaults, tokens and keys.
    pub with_secrets: bool,
    pub(super) database: DatabaseObjects,
    /// The files of people.
    pub(super) blobs: Vec<ObjectRef>,
    /// The files that the database names and the file store doesn't have, or has damaged.
    pub missing: Vec<Sha256>,
    /// Directories relative to the data directory, each before its entries.
    pub(super) directories: Vec<PathBuf>,
    pub(super) files: Vec<BackupEntry>,
}

/// The version of the database's schema.
pub type DatabaseVersion = i64;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DatabaseObjects {
    pub(super) version: DatabaseVersion,
    /// Its pages, in order: what has not changed since the last backup is not stored again.
    pub(super) chunks: Vec<ObjectRef>,
}

/// Bytes in the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ObjectRef {
    pub(super) sha256: Sha256,
    pub(super) bytes: u64,
}

/// A file of the data directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BackupEntry {
    /// Relative to the data directory.
    pub(super) path: PathBuf,
    #[serde(flatten)]
    pub(super) object: ObjectRef,
    /// In nanoseconds since 1970.
    pub(super) modified: i64,
    /// The time of the last change to content or metadata, which nobody can set: with the size, it tells that a file has
    /// not changed since the last backup.
    pub(super) changed: i64,
}

impl BackupManifest {
    pub(super) fn new(taken_at: Timestamp, data_dir: PathBuf, with_secrets: bool, version: DatabaseVersion) -> Self {
        Self {
            format: FORMAT,
            taken_at,
            data_dir,
            with_secrets,
            database: DatabaseObjects { version, chunks: Vec::new() },
            blobs: Vec::new(),
            missing: Vec::new(),
            directories: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The bytes of its file, and its id.
    pub(super) fn encode(&self, time: &str) -> (BackupId, Vec<u8>) {
        let bytes = serde_json::to_vec(self).expect("paths that are stored are UTF-8");
        (BackupId::new(time, &bytes), bytes)
    }

    /// Reads what [`Self::encode`] wrote.
    pub(super) fn decode(id: &BackupId, bytes: &[u8]) -> Result<Self, BackupError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let damaged = |reason: &str| BackupError::Damaged { id: id.clone(), reason: reason.to_owned() };
        let time = id.0.split('-').next().unwrap_or_default();
        if BackupId::new(time, bytes) != *id {
            return Err(damaged("its manifest does not have the hash in its name"));
        }
        let format: Format = serde_json::from_slice(bytes).map_err(|_| damaged("its manifest can't be read"))?;
        if format.format > FORMAT {
            return Err(BackupError::Newer { id: id.clone() });
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(|_| damaged("its manifest can't be read"))?;
        let mut paths = manifest.directories.iter().chain(manifest.files.iter().map(|file| &file.path));
        // It may come from another machine: nothing in it leads out of the directory that is restored.
        if !paths.all(|path| is_inside(path)) {
            return Err(damaged("it names a path outside the data directory"));
        }
        Ok(manifest)
    }

    /// All objects that it needs; the same one may occur several times.
    pub(super) fn objects(&self) -> impl Iterator<Item = &ObjectRef> {
        let files = self.files.iter().map(|file| &file.object);
        self.database.chunks.iter().chain(&self.blobs).chain(files)
    }

    /// The bytes of what it restores.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.objects().map(|object| object.bytes).sum()
    }

    /// How many files of people and of workspaces it has.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.blobs.len() + self.files.len()
    }
}

fn is_inside(path: &Path) -> bool {
    let mut components = path.components().peekable();
    components.peek().is_some() && components.all(|component| matches!(component, Component::Normal(_)))
}
